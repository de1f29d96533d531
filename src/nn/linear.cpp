#include <brim/nn/linear.h>
#include <brim/ops/matmul.h>

#include "nn/layer.h"

namespace brim::nn {
namespace {

const Linear::Options& checked(const Linear::Options& o) {
  check_positive("Linear", "in", o.in);
  check_positive("Linear", "out", o.out);
  return o;
}

}  // namespace

Linear::Linear(Options o)
    : options(checked(o)),
      weight(parameter("weight", Tensor::empty({o.out, o.in}, o.dtype, o.device))),
      bias(parameter("bias", o.bias ? Tensor::empty({o.out}, o.dtype, o.device) : Tensor())) {
  init_weight_and_bias(weight, bias);
}

Tensor Linear::forward(const Tensor& x) { return linear(x, weight, bias); }

std::string Linear::options_str() const {
  return fmt::format("in={}, out={}{}", options.in, options.out,
                     options.bias ? "" : ", bias=false");
}

}  // namespace brim::nn
