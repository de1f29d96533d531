#include <brim/nn/conv.h>

#include "nn/layer.h"

namespace brim::nn {
namespace {

const Conv2d::Options& checked(const Conv2d::Options& o) {
  check_positive("Conv2d", "in", o.in);
  check_positive("Conv2d", "out", o.out);
  check_positive("Conv2d", "groups", o.groups);
  check_positive("Conv2d", "kernel", std::min(o.kernel.h, o.kernel.w));
  check_positive("Conv2d", "stride", std::min(o.stride.h, o.stride.w));
  check_positive("Conv2d", "dilation", std::min(o.dilation.h, o.dilation.w));
  BRIM_CHECK(o.padding.h >= 0 && o.padding.w >= 0, ValueError,
             "[Conv2d] padding is ({}, {}); it must be 0 or more", o.padding.h, o.padding.w);
  BRIM_CHECK(o.in % o.groups == 0 && o.out % o.groups == 0, ValueError,
             "[Conv2d] {} groups do not divide in = {} and out = {}", o.groups, o.in, o.out);
  return o;
}

}  // namespace

Conv2d::Conv2d(Options o)
    : options(checked(o)),
      weight(parameter("weight", Tensor::empty({o.out, o.in / o.groups, o.kernel.h, o.kernel.w},
                                               o.dtype, o.device))),
      bias(parameter("bias", o.bias ? Tensor::empty({o.out}, o.dtype, o.device) : Tensor())) {
  init_weight_and_bias(weight, bias);
}

Tensor Conv2d::forward(const Tensor& x) {
  return conv2d(x, weight, bias,
                {.stride = options.stride,
                 .padding = options.padding,
                 .dilation = options.dilation,
                 .groups = options.groups});
}

std::string Conv2d::options_str() const {
  const Options& o = options;
  std::string text = fmt::format("in={}, out={}, kernel={}", o.in, o.out, pair_str(o.kernel));
  if (o.stride != Pair(1)) text += ", stride=" + pair_str(o.stride);
  if (o.padding != Pair(0)) text += ", padding=" + pair_str(o.padding);
  if (o.dilation != Pair(1)) text += ", dilation=" + pair_str(o.dilation);
  if (o.groups != 1) text += fmt::format(", groups={}", o.groups);
  return text + (o.bias ? "" : ", bias=false");
}

}  // namespace brim::nn
