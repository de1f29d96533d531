// What steps know besides their operands: the words of a file, one after the other. A struct of
// 8-byte fields each, so that files hold them as they are.
#pragma once

#include <cstdint>
#include <limits>

#include "rt/format.h"

namespace brim::rt {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// x: (n, h, w, c), y: (n, oh, ow, o), both known from the operands. Linear layers are convolutions
/// of images of one pixel.
///   convolution  weights (groups, panels, kh * kw * c / groups, 16): outputs in panels of 16,
///                those beyond the last are zeros
///   winograd     (36, panels, c, 16): 3 x 3, stride 1, transformed as in conv_winograd-inl.h
///   depthwise    (kh * kw, c)
/// then a bias in as many numbers as the panels have outputs (depthwise: c), then, where there is
/// one, a residual of y's shape that is added before the bounds.
struct ConvolutionAttributes {
  int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, top = 0, left = 0;
  int64_t dilation_h = 1, dilation_w = 1, groups = 1;
  double low = -kInfinity, high = kInfinity;  ///< bounds of outputs: a ReLU has 0 and infinity
};

/// A convolution of one group without strides and dilation, of few channels. x: (n, c, h, w), or
/// (n, h, w, c); y: (n, oh, ow, o), of which each is the largest of 2 x 2 sums where they are
/// pooled. Weights (tiles, c * kh * kw, 6): outputs in tiles of 6, those beyond the last are
/// zeros; then a bias in as many numbers as the tiles have outputs.
struct PlaneConvolutionAttributes {
  int64_t kernel_h = 1, kernel_w = 1, top = 0, left = 0;
  double low = -kInfinity, high = kInfinity;
  int64_t is_nhwc = 0, is_pooled = 0;
};

/// f32 to u8: round(x * inverse) + zero_point, half to even, held in 0..255; NaN becomes 0. x and y
/// have as many elements. A quantize_colours has the same, and moves the planes of images of three
/// colours into their pixels.
struct QuantizeAttributes {
  double inverse = 1;  ///< of the scale
  int64_t zero_point = 0;
};

/// A convolution of one group in 8-bit integers. x: (n, h, w, c) in u8; y: (n, oh, ow, o) in f32,
/// in u8, or first the one and then the other. Sums of (x - zero_point) * weight are i32; y is sum
/// * scale + shift, rounded once, and what ConvolutionAttributes adds and bounds.
///   weights  u8 (panels, ..): of each panel 16 i32, the sums of an output's weights; then the
///            weights, i8, (kh, steps, 16, 4): kw * c inputs in steps of 4, the rest zeros. With
///            dilated columns (kh, kw, steps, 16, 4): c inputs in steps of 4
/// then scale and shift, in as many numbers as the panels have outputs, then, where there is one,
/// a residual in f32 of y's shape. An int8_winograd has the same, for 3 x 3 kernels without strides
/// and dilation, c and o in multiples of 16, and weights of which those of an output have
/// magnitudes of 262,143 together at most: its sums are wrong beyond.
struct Int8ConvolutionAttributes {
  ConvolutionAttributes windows;
  int64_t zero_point = 0;   ///< of x
  QuantizeAttributes next;  ///< of y in u8
};

/// Of a depthwise step whose y is u8: of what it would be in f32.
struct QuantizedConvolutionAttributes {
  ConvolutionAttributes windows;
  QuantizeAttributes next;
};

/// x: (n, h, w, c), y: (n, oh, ow, c). Averages divide by the elements of the image in a window,
/// or, with count_padding, by all that it covers, but for what lies beyond padding of as many rows
/// and columns behind the image as before it.
struct PoolAttributes {
  int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, top = 0, left = 0;
  int64_t dilation_h = 1, dilation_w = 1;
  int64_t count_padding = 0;
};

enum class UnaryFormula : int64_t {
  clip,  ///< to [a, b]
  sigmoid,
  silu,
  tanh,
  gelu,
  gelu_tanh,
  exp,
  log,
  sqrt,
  reciprocal,
  neg,
  abs,
  leaky_relu,  ///< of slope a
  elu,
  softplus,
  erf,
};
inline constexpr int64_t kUnaryFormulas = 16;
struct UnaryAttributes {
  UnaryFormula formula;
  double a, b;
};

enum class BinaryFormula : int64_t { add, sub, mul, div, max, min };
inline constexpr int64_t kBinaryFormulas = 6;
/// Operands broadcast as in NumPy.
struct BinaryAttributes {
  BinaryFormula formula;
  double low = -kInfinity, high = kInfinity;
};

/// Along the last axis.
struct SoftmaxAttributes {
  int64_t logarithm;
};

/// Over the last axes, as many as the weight has; bias as the weight. Without them over the last.
struct LayerNormAttributes {
  double epsilon;
};

/// y[begin_y + i * strides_y] = x[begin_x + i * strides_x] for all i < sizes.
struct CopyAttributes {
  int64_t sizes[kMaxRank], strides_x[kMaxRank], strides_y[kMaxRank];
  int64_t begin_x, begin_y;
};

/// y[i, j, k] = x[i, index[j], k]: x (outer, size, inner), index any number of i64.
struct GatherAttributes {
  int64_t axis;
};

/// A resize has no attributes. x: (n, h, w, c), y: (n, oh, ow, c), then i64 (oh) and f32 (oh): each
/// row of y is between that row of x and the next one, of which it has that share; then as many of
/// ow columns.

}  // namespace brim::rt
