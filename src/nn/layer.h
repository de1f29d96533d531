// What layers share: checks of their options, and PyTorch's default initial values.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include <brim/nn/conv.h>
#include <brim/nn/init.h>
#include <brim/ops/conv.h>

#include "core/check.h"

namespace brim::nn {

inline void check_positive(const char* layer, const char* option, int64_t value) {
  BRIM_CHECK(value > 0, ValueError, "[{}] {} is {}; it must be 1 or more", layer, option, value);
}

inline void check_or_inferred(const char* layer, const char* option, int64_t value) {
  BRIM_CHECK(value >= 0, ValueError,
             "[{}] {} is {}; it must be 1 or more, or 0 to be inferred at the first call", layer,
             option, value);
}

inline void check_in_or_inferred(const char* layer, int64_t in) {
  check_or_inferred(layer, "in", in);
}

/// Where a layer of these options makes its parameters.
template <class Options>
DeferredParameters where_of(const Options& o) {
  return {.dtype = o.dtype, .device = o.device};
}

/// The options with a size that the first call has shown.
template <class Options, class Size>
Options with_size(Options o, Size Options::*member, const Size& size,
                  const DeferredParameters& how) {
  o.*member = size;
  o.dtype = how.dtype;
  o.device = how.device;
  return o;
}

inline std::string in_str(int64_t in) { return in == 0 ? "inferred" : std::to_string(in); }

inline std::string pair_str(Pair p) {
  return p.h == p.w ? std::to_string(p.h) : fmt::format("({}, {})", p.h, p.w);
}

/// Whether `bias` may stand in the place of `old` beside this weight.
inline bool is_bias_of(const Tensor& weight, const Tensor& old, const Tensor& bias) {
  return bias.defined() == old.defined() &&
         (!bias.defined() || bias.shape() == Shape{weight.size(0)});
}

/// How a layer of these options convolves.
inline Conv2dOptions convolution_of(const Conv2d::Options& o) {
  return {.stride = o.stride, .padding = o.padding, .dilation = o.dilation, .groups = o.groups};
}

/// Weight and bias uniform in +-1 / sqrt(fan_in), which is kaiming_uniform_ with a = sqrt(5).
inline void init_weight_and_bias(const Tensor& weight, const Tensor& bias) {
  const double bound = 1 / std::sqrt(static_cast<double>(init::fans(weight).in));
  init::uniform_(weight, -bound, bound);
  if (bias.defined()) init::uniform_(bias, -bound, bound);
}

}  // namespace brim::nn
