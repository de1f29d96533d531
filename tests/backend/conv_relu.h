// A convolution with a ReLU behind it, in one launch and by ops, for tests on all devices.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <brim/autograd/autograd.h>
#include <brim/core/random.h>
#include <brim/ops/conv.h>
#include <brim/ops/create.h>
#include <brim/ops/unary.h>

#include "backend/expect_close.h"
#include "backend/fused/fused_conv.h"

namespace brim::tests {

struct ConvReluCase {
  const char* what;
  Shape x, weight;
  Conv2dOptions options = {};
  MemoryFormat format = MemoryFormat::nchw;
};

/// One for each of the CPU's kernels.
inline std::vector<ConvReluCase> conv_relu_cases() {
  const MemoryFormat nhwc = MemoryFormat::nhwc;
  return {{"direct sums", {3, 5, 9, 8}, {7, 5, 3, 3}, {.stride = {2, 1}, .padding = 1}},
          {"groups", {2, 6, 7, 7}, {4, 3, 3, 3}, {.dilation = 2, .groups = 2}},
          {"oneDNN", {5, 32, 8, 8}, {48, 32, 1, 1}},
          {"oneDNN, by blocks", {4, 16, 9, 9}, {32, 16, 3, 3}, {.stride = 2}},
          {"Winograd", {3, 32, 10, 11}, {48, 32, 3, 3}, {.padding = 1}, nhwc},
          {"gathered pixels", {3, 16, 9, 9}, {32, 16, 5, 5}, {.stride = 2, .padding = 2}, nhwc},
          {"turned", {3, 5, 6, 7}, {3, 5, 3, 3}, {.padding = 1}, nhwc},
          {"one channel", {2, 1, 5, 5}, {1, 1, 3, 3}, {}, nhwc},
          {"no channels", {2, 0, 5, 5}, {4, 0, 3, 3}},
          {"no images", {0, 3, 5, 5}, {4, 3, 3, 3}}};
}

struct ConvReluOperands {
  Tensor x, weight, bias;

  ConvReluOperands(const ConvReluCase& c, DType dtype, bool has_bias)
      : x(randn(c.x).to(dtype).to(c.format)),
        weight(randn(c.weight).to(dtype)),
        bias(has_bias ? randn({c.weight[0]}).to(dtype) : Tensor()) {}
  ConvReluOperands to(Device device) const {
    ConvReluOperands moved = *this;
    for (Tensor* t : {&moved.x, &moved.weight, &moved.bias})
      if (t->defined()) *t = t->to(device);
    return moved;
  }
  Tensor by_ops(const ConvReluCase& c) const { return relu(conv2d(x, weight, bias, c.options)); }
  Tensor fused(const ConvReluCase& c) const {
    static const backend::ConvReluKernel kernel("conv2d_relu");
    const NoGrad guard;
    Tensor y = conv2d(x, weight, {}, c.options);  // its shape and format
    const Conv2dOptions& o = c.options;
    const Shape &in = x.shape(), &k = weight.shape(), &out = y.shape();
    kernel(x.device(), x.dtype(), x, weight, bias, y,
           {.n = in[0],
            .c = in[1],
            .h = in[2],
            .w = in[3],
            .o = k[0],
            .kh = k[2],
            .kw = k[3],
            .oh = out[2],
            .ow = out[3],
            .stride = o.stride,
            .padding = o.padding,
            .dilation = o.dilation,
            .groups = o.groups});
    return y;
  }
};

/// On `device` as on the CPU, but for rounding.
inline void expect_conv_relu_like_cpus(Device device) {
  manual_seed(4);
  for (const ConvReluCase& c : conv_relu_cases())
    for (const DType dtype : {f32, f64, f16, bf16})
      for (const bool has_bias : {true, false}) {
        const ConvReluOperands operands(c, dtype, has_bias);
        const double tolerance = dtype == f64   ? 1e-12
                                 : dtype == f32 ? 1e-5
                                 : dtype == f16 ? 2e-3
                                                : 1.6e-2;
        expect_close(operands.to(device).fused(c), operands.fused(c), tolerance,
                     std::string(c.what) + " " + std::string(name(dtype)));
      }
}

}  // namespace brim::tests
