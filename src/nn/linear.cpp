#include <brim/nn/linear.h>
#include <brim/ops/matmul.h>

#include "nn/inference_form.h"
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
    : own_(checked(o)),
      weight(parameter("weight", Tensor::empty({o.out, o.in}, o.dtype, o.device))),
      bias(parameter("bias", o.bias ? Tensor::empty({o.out}, o.dtype, o.device) : Tensor())) {
  init_weight_and_bias(weight, bias);
}

Tensor Linear::forward(const Tensor& x) {
  const auto dense = [&](const Tensor& some) { return linear(some, weight, bias); };
  if (int8_ && int8_->serves(x, weight)) return int8_->linear(x, bias);
  if (!sparse_ || !sparse_->serves(x, weight)) return dense(x);
  const auto sparse = [&](const Tensor& some) {
    return sparse_linear(some, sparse_->weight(), bias);
  };
  return sparse_->is_faster(x, dense, sparse) ? sparse(x) : dense(x);
}

void Linear::replace(const Tensor& new_weight, const Tensor& new_bias) {
  BRIM_CHECK(
      new_weight.rank() == 2 && new_weight.numel() > 0 && is_bias_of(new_weight, bias, new_bias),
      ShapeError, "[Linear] {} is no weight to replace one of {}, or its bias is none",
      new_weight.shape().str(), weight.shape().str());
  use_dense();
  own_.out = new_weight.size(0);
  own_.in = new_weight.size(1);
  weight = new_weight;
  bias = new_bias;
}

void Linear::use_sparse(SparseWeight w) {
  sparse_ = std::make_shared<SparseForm>(weight, std::move(w));
  int8_.reset();
}

void Linear::use_int8(Int8Weight w, QuantParams input) {
  int8_ = std::make_shared<Int8Form>(weight, std::move(w), input);
  sparse_.reset();
}

void Linear::use_sparse_int8(SparseInt8Weight w, QuantParams input) {
  int8_ = std::make_shared<Int8Form>(weight, std::move(w), input);
  sparse_.reset();
}
const Int8Weight* Linear::int8_weight() const { return int8_ ? &int8_->weight() : nullptr; }

void Linear::use_dense() {
  sparse_.reset();
  int8_.reset();
}

std::string Linear::options_str() const {
  return fmt::format("in={}, out={}{}{}", options.in, options.out,
                     options.bias ? "" : ", bias=false", form_str(int8_, sparse_));
}

}  // namespace brim::nn
