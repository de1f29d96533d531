// Convolutions as the fake of libcudnn.so.9 checks and computes them, whichever way it is asked.
#pragma once

#include <array>
#include <vector>

#include "fakes/cudnn_fake.h"

namespace brim::fake {

using Tensor = cudnnTensorStruct;
using Filter = cudnnFilterStruct;
using Conv = cudnnConvolutionStruct;

/// Whether the description makes sense; says what does not.
inline bool fits(const char* call, const Tensor& x, const Filter& w, const Conv& c,
                 const Tensor& y) {
  if (x.type != w.type || x.type != y.type || !elements(x.type).load) return wrong(call, "types");
  if (c.compute != (x.type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT))
    return wrong(call, "compute type");
  if (c.mode != CUDNN_CROSS_CORRELATION) return wrong(call, "the kernel is turned");
  if (c.math == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION) return wrong(call, "f32 would become f16");
  if (c.groups < 1 || x.size[1] != w.size[1] * c.groups || w.size[0] % c.groups != 0)
    return wrong(call, "groups and channels");
  const auto out = [](int64_t n, int64_t pad, int64_t k, int64_t dilation, int64_t stride) {
    return (n + 2 * pad - (dilation * (k - 1) + 1)) / stride + 1;
  };
  const std::array<int64_t, 4> want{x.size[0], w.size[0],
                                    out(x.size[2], c.pad_h, w.size[2], c.dilation_h, c.stride_h),
                                    out(x.size[3], c.pad_w, w.size[3], c.dilation_w, c.stride_w)};
  if (y.size != want) return wrong(call, "the result's size");
  const bool nhwc = w.format == CUDNN_TENSOR_NHWC;
  for (const Tensor* t : {&x, &y}) {
    const auto [n, ch, h, width] = t->size;
    const auto pixels = std::array<int64_t, 4>{h * width * ch, 1, width * ch, ch};
    const auto planes = std::array<int64_t, 4>{ch * h * width, h * width, width, 1};
    if (t->stride != (nhwc ? pixels : planes)) return wrong(call, "strides and filter format");
  }
  return true;
}

/// As the units of `conv` multiply.
inline double product(const Conv& conv, cudnnDataType_t type, double a, double b) {
  if (type == CUDNN_DATA_FLOAT && conv.math != CUDNN_FMA_MATH) return to_tf32(a) * to_tf32(b);
  return a * b;
}

/// Calls f(place in x, in w, in y) for all that meet.
template <class F>
void for_all(const Tensor& x, const Filter& w, const Conv& c, const Tensor& y, const F& f) {
  const int64_t of_group = y.size[1] / c.groups;
  for (int64_t n = 0; n < y.size[0]; ++n)
    for (int64_t o = 0; o < y.size[1]; ++o)
      for (int64_t oy = 0; oy < y.size[2]; ++oy)
        for (int64_t ox = 0; ox < y.size[3]; ++ox)
          for (int64_t i = 0; i < w.size[1]; ++i)
            for (int64_t ky = 0; ky < w.size[2]; ++ky)
              for (int64_t kx = 0; kx < w.size[3]; ++kx) {
                const int64_t iy = oy * c.stride_h - c.pad_h + ky * c.dilation_h;
                const int64_t ix = ox * c.stride_w - c.pad_w + kx * c.dilation_w;
                if (iy < 0 || ix < 0 || iy >= x.size[2] || ix >= x.size[3]) continue;
                f(x.at(n, o / of_group * w.size[1] + i, iy, ix), w.at(o, i, ky, kx),
                  y.at(n, o, oy, ox));
              }
}

/// Sums in double, stored as `to`'s elements; all of it is written.
struct Sums {
  std::vector<double> of;
  explicit Sums(const Tensor& to) : of(static_cast<size_t>(to.last())) {}
  double& operator[](int64_t at) { return of[static_cast<size_t>(at)]; }
  void store(cudnnDataType_t type, void* data) const {
    for (size_t i = 0; i < of.size(); ++i)
      elements(type).store(data, static_cast<int64_t>(i), of[i]);
  }
};

}  // namespace brim::fake
