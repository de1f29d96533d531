#include <brim/nn/embedding.h>

#include <brim/autograd/autograd.h>
#include <brim/ops/embedding.h>

#include "nn/layer.h"

namespace brim::nn {
namespace {

const Embedding::Options& checked(const Embedding::Options& o) {
  check_positive("Embedding", "num", o.num);
  check_positive("Embedding", "dim", o.dim);
  BRIM_CHECK(!o.padding_idx || (-o.num <= *o.padding_idx && *o.padding_idx < o.num), ValueError,
             "[Embedding] padding_idx is {}; it must be in [{}, {})", *o.padding_idx, -o.num,
             o.num);
  return o;
}

}  // namespace

Embedding::Embedding(Options o)
    : options(checked(o)),
      weight(parameter("weight", Tensor::empty({o.num, o.dim}, o.dtype, o.device))) {
  init::normal_(weight);
  if (o.padding_idx) {
    const NoGrad guard;
    weight.select(0, *o.padding_idx).zero_();
  }
}

Tensor Embedding::forward(const Tensor& ids) { return embedding(ids, weight, options.padding_idx); }

std::string Embedding::options_str() const {
  return fmt::format("{}, {}", options.num, options.dim) +
         (options.padding_idx ? fmt::format(", padding_idx={}", *options.padding_idx) : "");
}

}  // namespace brim::nn
