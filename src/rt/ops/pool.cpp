// Pooling of nhwc images.
#include "rt/kernels/pool.h"

#include "rt/ops/windows.h"
#include "rt/step.h"

namespace brim::rt {
namespace {

int check_pool(const Step& s, const Failure& fail) {
  if (!s.has_attributes<PoolAttributes>() || s.inputs != 1 || s.outputs != 1)
    return does_not_fit(s, fail);
  const Operand &x = s.in(0), &y = s.out(0);
  if (!x.is_f32(4) || !y.is_f32(4) || x.dims[0] != y.dims[0] || x.dims[3] != y.dims[3])
    return does_not_fit(s, fail);
  const auto a = s.attributes<PoolAttributes>();
  const bool fits =
      are_windows({a.kernel_h, a.kernel_w, a.stride_h, a.stride_w, a.dilation_h, a.dilation_w},
                  {a.top, a.left});
  return fits ? BRIM_RT_OK : does_not_fit(s, fail);
}

Pooling pooling_of(const Step& s) {
  const Operand &x = s.in(0), &y = s.out(0);
  return {.a = s.attributes<PoolAttributes>(),
          .n = x.dims[0],
          .h = x.dims[1],
          .w = x.dims[2],
          .c = x.dims[3],
          .oh = y.dims[1],
          .ow = y.dims[2],
          .x = x.as<float>(),
          .y = y.as<float>()};
}

int run_max(const Step& s, const Run& run, const Failure&) {
  max_pool(run.isa, pooling_of(s), run.threads);
  return BRIM_RT_OK;
}
int run_average(const Step& s, const Run& run, const Failure&) {
  average_pool(run.isa, pooling_of(s), run.threads);
  return BRIM_RT_OK;
}

}  // namespace

const Op kMaxPoolOp = {OpCode::max_pool, "max_pool", &check_pool, nullptr, &run_max};
const Op kAveragePoolOp = {OpCode::average_pool, "average_pool", &check_pool, nullptr,
                           &run_average};

}  // namespace brim::rt
