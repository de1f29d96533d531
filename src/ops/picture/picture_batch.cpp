// picture_batch: crop, mirror and normalise pictures chosen by position
#include "ops/picture/picture_batch.h"

#include "backend/kernel.h"
#include "ops/checks.h"

namespace brim::ops {
namespace {

constexpr const char* kOp = "picture_batch";

void check(const char* what, const Tensor& t, DType dtype, int rank, Device device) {
  check_defined(kOp, t);
  BRIM_CHECK(t.device() == device, DeviceError, "[{}] {} is on {}, the pictures on {}", kOp, what,
             t.device().str(), device.str());
  BRIM_CHECK(t.dtype() == dtype, DTypeError, "[{}] {} is {}, must be {}", kOp, what,
             name(t.dtype()), name(dtype));
  BRIM_CHECK(t.rank() == rank && t.is_contiguous(), ShapeError,
             "[{}] {} of shape {}: must be contiguous and of rank {}", kOp, what, t.shape().str(),
             rank);
}

}  // namespace

void picture_batch(const Tensor& pictures, const Tensor& labels, const Tensor& windows,
                   Tensor& position, Tensor& x, Tensor& y, const backend::PictureOptions& options) {
  static const backend::Kernel<void(const Context&, const Tensor& pictures, const Tensor& labels,
                                    const Tensor& windows, Tensor& position, Tensor& x, Tensor& y,
                                    const backend::PictureOptions&)>
      kernel(kOp, {.operands = "pictures, labels, windows, rw position, x, y"});
  check_defined(kOp, pictures);
  const Device device = pictures.device();
  check("pictures", pictures, DType::u8, 4, device);
  check("labels", labels, DType::i64, 1, device);
  check("windows", windows, DType::i32, 2, device);
  check("position", position, DType::i64, 1, device);
  check("x", x, DType::f32, 4, device);
  check("y", y, DType::i64, 1, device);
  BRIM_CHECK(pictures.shape()[1] == 3 && x.shape()[1] == 3, ShapeError,
             "[{}] pictures of shape {} into a batch of shape {}: both need 3 channels", kOp,
             pictures.shape().str(), x.shape().str());
  BRIM_CHECK(labels.numel() == pictures.shape()[0] && y.numel() == x.shape()[0], ShapeError,
             "[{}] {} labels of {} pictures, {} for a batch of {}: there must be one for each", kOp,
             labels.numel(), pictures.shape()[0], y.numel(), x.shape()[0]);
  BRIM_CHECK(windows.shape()[1] == 4 && position.numel() == 2, ShapeError,
             "[{}] windows of shape {} and a position of shape {}: must be (T, 4) and (2)", kOp,
             windows.shape().str(), position.shape().str());
  kernel(device, DType::f32, pictures, labels, windows, position, x, y, options);
  x.storage()->bump_version(), y.storage()->bump_version();
  if (options.advance != 0) position.storage()->bump_version();
}

}  // namespace brim::ops
