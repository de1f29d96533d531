// One thing that a virtual accelerator's stream is asked to do.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include <brim/core/dtype.h>
#include <brim/diag/account.h>

#include "backend/touches.h"

namespace brim::sim {

/// The part of a device that does the work; each does one thing at a time.
enum class Engine : uint8_t { compute, copy_in, copy_out, peer };
inline constexpr int kEngineCount = 4;

struct Work {
  const char* name = "";
  Engine engine = Engine::compute;
  DType dtype = DType::f32;
  double operations = 0;                ///< multiplications and additions
  double bytes = 0;                     ///< read and written
  std::string shapes;                   ///< for profiles of ops
  std::vector<backend::Touch> touches;  ///< for the stream checker
  std::function<void()> run;

  diag::Cause cause() const {
    return engine == Engine::compute   ? diag::Cause::compute
           : engine == Engine::peer    ? diag::Cause::communication
           : engine == Engine::copy_in ? diag::Cause::copy_to_device
                                       : diag::Cause::copy_to_host;
  }
};

}  // namespace brim::sim
