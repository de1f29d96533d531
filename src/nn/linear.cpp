#include <brim/nn/linear.h>
#include <brim/ops/matmul.h>

#include "nn/inference_form.h"
#include "nn/layer.h"

namespace brim::nn {
namespace {

const Linear::Options& checked(const Linear::Options& o) {
  check_in_or_inferred("Linear", o.in);
  check_positive("Linear", "out", o.out);
  return o;
}

Tensor weight_of(const Linear::Options& o) {
  return o.in == 0 ? Tensor() : Tensor::empty({o.out, o.in}, o.dtype, o.device);
}

Tensor bias_of(const Linear::Options& o) {
  return o.in == 0 || !o.bias ? Tensor() : Tensor::empty({o.out}, o.dtype, o.device);
}

}  // namespace

Linear::Linear(Options o)
    : weight(parameter("weight", weight_of(checked(o)))),
      bias(parameter("bias", bias_of(o))),
      options_(o) {
  if (o.in == 0)
    defer_parameters(where_of(o));
  else
    init_weight_and_bias(weight, bias);
}

void Linear::infer_sizes(const Tensor& x) {
  BRIM_CHECK(x.rank() > 0 && x.size(-1) > 0, ShapeError,
             "[Linear] x is {}; its last size is the number of inputs, so it cannot be inferred",
             x.shape().str());
  make_deferred([&](const DeferredParameters& how) {
    const Options o = with_size(options_, &Options::in, x.size(-1), how);
    weight = weight_of(o);
    bias = bias_of(o);
    init_weight_and_bias(weight, bias);
    options_ = o;
  });
}

Tensor Linear::forward(const Tensor& x) {
  if (deferred_parameters()) infer_sizes(x);
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
  options_.out = new_weight.size(0);
  options_.in = new_weight.size(1);
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
  return fmt::format("in={}, out={}{}{}", in_str(options.in), options.out,
                     options.bias ? "" : ", bias=false", form_str(int8_, sparse_));
}

}  // namespace brim::nn
