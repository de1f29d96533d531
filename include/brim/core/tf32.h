// TF32: the matrix units of CUDA devices multiply f32 rounded to 11 significant bits, and add in
// f32. Off unless a scope says otherwise.
#pragma once

#include <string>

#include <brim/core/device.h>

namespace brim {

/// In this scope, and in this thread, matrix products, convolutions and recurrent layers of f32 may
/// be computed in TF32 on cuda devices. Everything else, f64, 16-bit floats and other devices are
/// left alone. A compiled step notes the scope it is called in.
class Tf32 {
 public:
  /// `allow`: false switches it off in this scope.
  explicit Tf32(bool allow = true);
  ~Tf32();
  Tf32(const Tf32&) = delete;
  Tf32& operator=(const Tf32&) = delete;

  static bool allowed();  ///< whether this thread may use it now

  /// Why products on the device cannot be computed in TF32, and what to do; empty where they can
  /// be, and on devices that have no TF32 and compute in full f32.
  static std::string missing(Device device);

 private:
  bool before_;
};

}  // namespace brim
