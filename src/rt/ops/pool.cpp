// Pooling of nhwc images.
#include "rt/kernels/pool.h"

#include "rt/ops/windows.h"
#include "rt/step.h"

namespace brim::rt {
namespace {

int check_pool_of(DType dtype, const Step& s, const Failure& fail) {
  if (!s.has_attributes<PoolAttributes>() || s.inputs != 1 || s.outputs != 1)
    return does_not_fit(s, fail);
  const Operand &x = s.in(0), &y = s.out(0);
  if (x.dtype != dtype || y.dtype != dtype || x.rank != 4 || y.rank != 4 ||
      x.dims[0] != y.dims[0] || x.dims[3] != y.dims[3])
    return does_not_fit(s, fail);
  const auto a = s.attributes<PoolAttributes>();
  const bool fits =
      are_windows({a.kernel_h, a.kernel_w, a.stride_h, a.stride_w, a.dilation_h, a.dilation_w},
                  {a.top, a.left});
  return fits ? BRIM_RT_OK : does_not_fit(s, fail);
}

int check_average(const Step& s, const Failure& fail) { return check_pool_of(DType::f32, s, fail); }
int check_max(const Step& s, const Failure& fail) {
  const bool is_u8 = s.inputs > 0 && s.in(0).dtype == DType::u8;
  return check_pool_of(is_u8 ? DType::u8 : DType::f32, s, fail);
}

template <class T>
PoolingOf<T> pooling_of(const Step& s) {
  const Operand &x = s.in(0), &y = s.out(0);
  return {.a = s.attributes<PoolAttributes>(),
          .n = x.dims[0],
          .h = x.dims[1],
          .w = x.dims[2],
          .c = x.dims[3],
          .oh = y.dims[1],
          .ow = y.dims[2],
          .x = x.as<T>(),
          .y = y.as<T>()};
}

int run_max(const Step& s, const Run& run, const Failure&) {
  if (s.in(0).dtype == DType::u8)
    max_pool_u8(run.isa, pooling_of<uint8_t>(s), run.threads);
  else
    max_pool(run.isa, pooling_of<float>(s), run.threads);
  return BRIM_RT_OK;
}
int run_average(const Step& s, const Run& run, const Failure&) {
  average_pool(run.isa, pooling_of<float>(s), run.threads);
  return BRIM_RT_OK;
}

}  // namespace

const Op kMaxPoolOp = {OpCode::max_pool, "max_pool", &check_max, nullptr, &run_max};
const Op kAveragePoolOp = {OpCode::average_pool, "average_pool", &check_average, nullptr,
                           &run_average};

}  // namespace brim::rt
