#include <brim/nn/pool.h>

#include "nn/layer.h"

namespace brim::nn {
namespace {

template <class O>
const O& checked(const char* layer, const O& o) {
  check_positive(layer, "kernel", std::min(o.kernel.h, o.kernel.w));
  if (o.stride != Pair(0)) check_positive(layer, "stride", std::min(o.stride.h, o.stride.w));
  return o;
}

template <class O>
std::string common_str(const O& o) {
  std::string text = "kernel=" + pair_str(o.kernel);
  if (o.stride != Pair(0) && o.stride != o.kernel) text += ", stride=" + pair_str(o.stride);
  if (o.padding != Pair(0)) text += ", padding=" + pair_str(o.padding);
  return text + (o.ceil_mode ? ", ceil_mode" : "");
}

}  // namespace

MaxPool2d::MaxPool2d(Options o) : options(checked("MaxPool2d", o)) {}
AvgPool2d::AvgPool2d(Options o) : options(checked("AvgPool2d", o)) {}
AdaptiveAvgPool2d::AdaptiveAvgPool2d(Options o) : options(o) {
  check_positive("AdaptiveAvgPool2d", "output", std::min(o.output.h, o.output.w));
}

Tensor MaxPool2d::forward(const Tensor& x) {
  return max_pool2d(x, options.kernel,
                    {.stride = options.stride,
                     .padding = options.padding,
                     .dilation = options.dilation,
                     .ceil_mode = options.ceil_mode});
}

Tensor AvgPool2d::forward(const Tensor& x) {
  return avg_pool2d(x, options.kernel,
                    {.stride = options.stride,
                     .padding = options.padding,
                     .ceil_mode = options.ceil_mode,
                     .count_include_pad = options.count_include_pad});
}

Tensor AdaptiveAvgPool2d::forward(const Tensor& x) {
  return adaptive_avg_pool2d(x, options.output);
}

Tensor Flatten::forward(const Tensor& x) { return x.flatten(options.start, options.end); }

std::string MaxPool2d::options_str() const { return common_str(options); }
std::string AvgPool2d::options_str() const { return common_str(options); }
std::string AdaptiveAvgPool2d::options_str() const { return "output=" + pair_str(options.output); }
std::string Flatten::options_str() const {
  return fmt::format("start={}, end={}", options.start, options.end);
}

}  // namespace brim::nn
