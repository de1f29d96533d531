#include "ops/checks.h"

#include <cmath>

#include "backend/kernel.h"
#include "core/recording.h"

namespace brim::ops {

void throw_devices(const char* op, Device a, Device b) {
  raise<DeviceError>(
      "[{}] one tensor is on {}, the other on {}; move one of them, e.g. x.to(Device(\"{}\"))", op,
      a.str(), b.str(), a.str());
}

void throw_dtypes(const char* op, const Tensor& a, const Tensor& b) {
  check_computed(op, a);
  check_computed(op, b);
  raise<DTypeError>("[{}] dtypes {} and {} differ; cast one of them with x.to({})", op,
                    name(a.dtype()), name(b.dtype()), name(promote(a.dtype(), b.dtype())));
}

void throw_not_floating(const char* op, const Tensor& x) {
  check_computed(op, x);
  raise<DTypeError>("[{}] needs a floating dtype, got {}; cast with x.to(f32)", op,
                    name(x.dtype()));
}

void throw_undefined(const char* op) {
  raise<ValueError>("[{}] a tensor is undefined (default-constructed); give it a value first", op);
}

void check_computed(const char* op, const Tensor& x) {
  if (!is_computed(x.dtype())) backend::missing_kernel(op, x.device().kind, x.dtype());
}

void refuse_shape_of_values(const char* op) {
  refuse_in_recording(op,
                      "the shape of its result depends on values that are not computed yet; call "
                      "it before the step, or work with masks (where, masked_fill)");
}

void check_whole(const char* op, double value) {
  BRIM_CHECK(std::fabs(value) < 0x1p53, ValueError,
             "[{}] the number {} for a tensor of integers passes through a double, which is exact "
             "below 2^53 only; use a tensor",
             op, value);
}

}  // namespace brim::ops
