// Convolutions whose vectors hold columns: that the file's weights are as many as the kernel reads.
#include "rt/kernels/plane_convolution.h"

#include <algorithm>

#include "rt/ops/windows.h"
#include "rt/step.h"

namespace brim::rt {
namespace {

PlaneConvolution planes_of(const Step& s) {
  const Operand &x = s.in(0), &y = s.out(0);
  const auto a = s.attributes<PlaneConvolutionAttributes>();
  const int64_t c = x.dims[a.is_nhwc ? 3 : 1], h = x.dims[a.is_nhwc ? 1 : 2],
                w = x.dims[a.is_nhwc ? 2 : 3];
  return {.a = a,
          .n = x.dims[0],
          .c = c,
          .h = h,
          .w = w,
          .oh = y.dims[1],
          .ow = y.dims[2],
          .o = y.dims[3],
          .image = c * h * w,
          .plane = a.is_nhwc ? 1 : h * w,
          .row = a.is_nhwc ? w * c : w,
          .column = a.is_nhwc ? c : 1,
          .x = x.as<float>(),
          .weights = s.in(1).as<float>(),
          .bias = s.in(2).as<float>(),
          .y = y.as<float>()};
}

int check_plane_convolution(const Step& s, const Failure& fail) {
  if (!s.has_attributes<PlaneConvolutionAttributes>() || s.inputs != 3 || s.outputs != 1)
    return does_not_fit(s, fail);
  const Operand &x = s.in(0), &y = s.out(0);
  if (!x.is_f32(4) || !y.is_f32(4) || x.dims[0] != y.dims[0] || s.in(1).dtype != DType::f32 ||
      s.in(2).dtype != DType::f32)
    return does_not_fit(s, fail);
  const PlaneConvolution k = planes_of(s);
  const bool fits = are_windows({k.a.kernel_h, k.a.kernel_w}, {k.a.top, k.a.left}) &&
                    std::max(k.a.kernel_h, k.a.kernel_w) <= kMaxPlaneWindow && k.c <= kMaxPlanes &&
                    is_product_of(s.in(1).count(), {k.taps(), k.outputs()}) &&
                    s.in(2).count() == k.outputs() &&
                    is_in_proportion(s, plane_convolution_scratch(k, 1));
  return fits ? BRIM_RT_OK : does_not_fit(s, fail);
}

size_t scratch_of_plane_convolution(const Step& s, Isa, int threads) {
  return plane_convolution_scratch(planes_of(s), threads);
}

int run_plane_convolution(const Step& s, const Run& run, const Failure&) {
  convolve_planes(run.isa, planes_of(s), run.threads, static_cast<float*>(run.scratch));
  return BRIM_RT_OK;
}

}  // namespace

const Op kPlaneConvolutionOp = {OpCode::plane_convolution, "plane_convolution",
                                &check_plane_convolution, &scratch_of_plane_convolution,
                                &run_plane_convolution};

}  // namespace brim::rt
