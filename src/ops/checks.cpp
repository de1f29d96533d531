#include "ops/checks.h"

#include <cmath>

#include <brim/extend/inputs.h>

#include "backend/kernel.h"
#include "core/recording.h"
#include "ops/autocast.h"

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

namespace brim::extend {

void check_defined(const char* op, const Tensor& x) { ops::check_defined(op, x); }
void check_floating(const char* op, const Tensor& x) { ops::check_floating(op, x); }
void check_rank(const char* op, const Tensor& x, int rank, const char* layout) {
  ops::check_rank(op, x, rank, layout);
}
Device common_device(const char* op, const Tensor& a, const Tensor& b) {
  return ops::common_device(op, a, b);
}
DType common_dtype(const char* op, const Tensor& a, const Tensor& b) {
  return ops::common_dtype(op, a, b);
}

Tensor autocast_wide(const Tensor& x) {
  return ops::autocasting() ? autograd::autocast_wide(x) : x;
}
Tensor autocast_low(const Tensor& x) { return ops::autocasting() ? autograd::autocast_low(x) : x; }

}  // namespace brim::extend
