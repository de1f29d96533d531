// How cuDNN is told of a convolution: descriptors, precision, and what the choice of an algorithm
// depends on.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "backend/cuda/libraries/cudnn_plan.h"
#include "backend/cuda/libraries/cudnn_tensor.h"
#include "backend/cuda/libraries/dnn.h"
#include "backend/cuda/libraries/measure.h"

namespace brim::cuda::dnn {

using backend::ConvGeometry;

inline bool uses_tf32(const DnnConv& c) { return c.dtype == DType::f32 && c.tf32; }

/// The units that the heuristics may plan with. cuDNN's default allows TF32 for f32, so full f32
/// has to be demanded.
inline cudnnMathType_t math_of(const DnnConv& c) {
  if (size_of(c.dtype) == 2) return CUDNN_TENSOR_OP_MATH;
  return uses_tf32(c) ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
}
/// The units of an algorithm that was proposed with `math`; nothing where it would round its
/// operands to what was not asked for.
inline std::optional<cudnnMathType_t> math_of(const DnnConv& c, cudnnMathType_t math) {
  if (math == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION) return {};
  if (size_of(c.dtype) == 2 || uses_tf32(c)) return math;
  if (math == CUDNN_TENSOR_OP_MATH) return {};
  return CUDNN_FMA_MATH;
}

/// An algorithm of one of the three passes.
struct Algorithm {
  int number = 0;
  cudnnMathType_t math = CUDNN_FMA_MATH;
  size_t workspace = 0;
};

/// Whether an algorithm only adds products of the operands themselves. FFT and Winograd transform
/// them first, and cuDNN does not say how much accuracy that costs in 16 bits.
inline bool adds_products(cudnnConvolutionFwdAlgo_t algorithm) {
  return algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM ||
         algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM ||
         algorithm == CUDNN_CONVOLUTION_FWD_ALGO_GEMM ||
         algorithm == CUDNN_CONVOLUTION_FWD_ALGO_DIRECT;
}
inline bool adds_products(cudnnConvolutionBwdDataAlgo_t algorithm) {
  return algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_0 ||
         algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
}
inline bool adds_products(cudnnConvolutionBwdFilterAlgo_t algorithm) {
  return algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 ||
         algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 ||
         algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3;
}

/// Whether there is an epilogue that may be part of a graph of cuDNN's, which is told that all
/// begins at a multiple of 16 bytes.
inline bool can_fuse_epilogue(const DnnConv& c) {
  return c.epilogue && reinterpret_cast<uintptr_t>(c.bias) % 16 == 0;
}

/// How a convolution is computed: by the plan, else by the algorithm.
struct Operation {
  TensorDesc x, y;
  FilterDesc weight;
  ConvDesc conv;
  Algorithm algorithm;
  std::optional<ConvPlan> plan;
  bool possible = false;
  NoRoom no_room;
  size_t workspace() const { return plan ? plan->engine.workspace() : algorithm.workspace; }
};

using Key = std::array<int64_t, 22>;
inline Key key_of(const DnnConv& c) {
  const ConvGeometry& g = c.geometry;
  return {static_cast<int64_t>(c.pass),
          static_cast<int64_t>(c.dtype),
          uses_tf32(c),
          c.nhwc,
          c.convert_weights != nullptr,
          c.bias != nullptr,
          c.relu,
          can_fuse_epilogue(c),
          g.n,
          g.c,
          g.h,
          g.w,
          g.o,
          g.kh,
          g.kw,
          g.stride.h,
          g.stride.w,
          g.padding.h,
          g.padding.w,
          g.dilation.h,
          g.dilation.w,
          g.groups};
}

/// The key as text, for the file of choices.
inline std::string problem_of(const DnnConv& c) {
  std::string text = fmt::format("conv {}{} {}", name(c.dtype), uses_tf32(c) ? " tf32" : "",
                                 c.pass == ConvPass::forward  ? "y"
                                 : c.pass == ConvPass::grad_x ? "dx"
                                                              : "dw");
  for (const int64_t number : key_of(c)) text += fmt::format(" {}", number);
  return text;
}

/// All of an operation but the algorithm.
inline Operation describe(const DnnConv& c) {
  const ConvGeometry& g = c.geometry;
  const auto number = [](int64_t v) { return static_cast<int>(v); };
  Operation r;
  r.x = tensor(c.dtype, g.x_shape(), c.nhwc);
  r.y = tensor(c.dtype, g.y_shape(), c.nhwc);
  cudnnFilterDescriptor_t filter = nullptr;
  check(library().create_filter(&filter), "cudnnCreateFilterDescriptor");
  r.weight.reset(filter);
  check(
      library().set_filter(filter, type_of(c.dtype), c.nhwc ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW,
                           number(g.o), number(g.c_per_group()), number(g.kh), number(g.kw)),
      "cudnnSetFilter4dDescriptor");
  cudnnConvolutionDescriptor_t conv = nullptr;
  check(library().create_conv(&conv), "cudnnCreateConvolutionDescriptor");
  r.conv.reset(conv);
  check(library().set_conv(conv, number(g.padding.h), number(g.padding.w), number(g.stride.h),
                           number(g.stride.w), number(g.dilation.h), number(g.dilation.w),
                           CUDNN_CROSS_CORRELATION,
                           c.dtype == DType::f64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT),
        "cudnnSetConvolution2dDescriptor");
  check(library().set_groups(conv, number(g.groups)), "cudnnSetConvolutionGroupCount");
  check(library().set_math(conv, math_of(c)), "cudnnSetConvolutionMathType");
  return r;
}

}  // namespace brim::cuda::dnn
