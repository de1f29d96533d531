// What limits a training, in plain words, where the numbers show it.
#pragma once

#include <optional>
#include <string>

#include "command/top/moment.h"

namespace brim::top {

/// "one core at 100 %, GPU at 35 %: the host is the limit"; empty where nothing stands out.
std::string hint(const Moment& moment, const Run& run);

/// The same of a process that is no run of ours, but computes on a GPU.
std::string hint(const Moment& moment, const diag::ProcessReading& process);

/// What a process has of the GPUs that answer.
struct GpuUse {
  double memory = 0;                  ///< bytes, of all of them
  std::optional<double> utilisation;  ///< of the one that it uses most
};
/// Nothing where it is on none.
std::optional<GpuUse> gpu_use(const Moment& moment, int64_t pid);

/// What the whole machine suffers from; empty where nothing stands out.
std::string machine_hint(const Moment& moment);

}  // namespace brim::top
