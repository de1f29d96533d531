// The gradients of attention made of ops
#include <limits>

#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/create.h>
#include <brim/ops/matmul.h>
#include <brim/ops/reduce.h>
#include <brim/ops/softmax.h>

#include "ops/attention/attention.h"
#include "ops/checks.h"
#include "ops/regularize/dropout.h"

namespace brim::ops {
namespace {

/// The weights of scores (B, Hkv, G, L, S): softmax over those that the mask (of that shape) lets
/// through, zeros for a query that sees no key.
Tensor attention_weights(Tensor scores, const Tensor& mask, bool causal) {
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  if (mask.defined() && mask.dtype() == DType::bool_)
    scores = masked_fill(scores, logical_not(mask), kHidden);
  else if (mask.defined())
    scores = scores + mask.to(scores.dtype());
  if (causal) {
    const TensorOptions like{.dtype = DType::i64, .device = scores.device()};
    const Tensor query = arange(scores.size(-2), like).unsqueeze(1);
    scores = masked_fill(scores, lt(query, arange(scores.size(-1), like)), kHidden);
  }
  const Tensor unseeing = eq(amax(scores.detach(), {-1}, /*keepdim=*/true), kHidden);
  return masked_fill(softmax(masked_fill(scores, unseeing, 0), -1), unseeing, 0);
}

}  // namespace

AttentionGradients composed_attention_grad(const Tensor& dy, const Tensor& q, const Tensor& k,
                                           const Tensor& v, const Tensor& mask,
                                           const backend::AttentionParams& params,
                                           const RandomKey& key) {
  const bool added = mask.defined() && mask.dtype() != DType::bool_;
  const int64_t heads = k.size(1), keys = k.size(2), group = heads > 0 ? q.size(1) / heads : 1;
  if (keys == 0) return {zeros_like(q), zeros_like(k), zeros_like(v), added ? mask : Tensor()};
  const DType dtype = q.dtype(), wide = statistics_dtype(dtype);
  const auto grouped = [&](const Tensor& x) {
    return x.reshape({x.size(0), heads, group, x.size(2), x.size(3)});
  };
  const auto dropped = [&](const Tensor& x) {
    return params.dropout > 0 ? dropout_by_key(x, params.dropout, key) : x;
  };
  const Tensor queries = grouped(q.to(wide)), gradients = grouped(dy.to(wide));
  const Tensor each_key = k.to(wide).unsqueeze(2), value = v.to(wide).unsqueeze(2);
  const Tensor scores = matmul(queries, each_key.transpose(-1, -2)) * params.scale;
  const Tensor p = attention_weights(scores, mask.defined() ? grouped(mask) : mask, params.causal);
  const Tensor dp = dropped(matmul(gradients, value.transpose(-1, -2)));
  const Tensor ds = p * (dp - sum(dp * p, {-1}, /*keepdim=*/true));
  const Tensor dk = sum(matmul(ds.transpose(-1, -2), queries), {2}) * params.scale;
  const Tensor dv = sum(matmul(dropped(p).transpose(-1, -2), gradients), {2});
  return {(matmul(ds, each_key) * params.scale).reshape(q.shape()).to(dtype), dk.to(dtype),
          dv.to(dtype), added ? ds.reshape(mask.shape()).to(mask.dtype()) : Tensor()};
}

}  // namespace brim::ops
