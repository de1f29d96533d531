#include <brim/nn/attention.h>
#include <brim/ops/attention.h>
#include <brim/ops/compare.h>
#include <brim/ops/matmul.h>
#include <brim/ops/shape.h>

#include <limits>

#include "nn/layer.h"
#include "nn/module_calls.h"

namespace brim::nn {
namespace {

const char* const kLayer = "MultiheadAttention";

MultiheadAttention::Options checked(MultiheadAttention::Options o) {
  check_positive(kLayer, "dim", o.dim);
  check_positive(kLayer, "heads", o.heads);
  BRIM_CHECK(o.dim % o.heads == 0, ValueError, "[{}] {} heads do not divide dim = {}", kLayer,
             o.heads, o.dim);
  BRIM_CHECK(0 <= o.dropout && o.dropout <= 1, ValueError,
             "[{}] dropout is {}; it must be in [0, 1]", kLayer, o.dropout);
  BRIM_CHECK(o.key_dim >= 0 && o.value_dim >= 0, ValueError,
             "[{}] key_dim is {} and value_dim {}; they must be 1 or more, or 0 for dim", kLayer,
             o.key_dim, o.value_dim);
  if (o.key_dim == 0) o.key_dim = o.dim;
  if (o.value_dim == 0) o.value_dim = o.dim;
  return o;
}

bool has_one_projection(const MultiheadAttention::Options& o) {
  return o.key_dim == o.dim && o.value_dim == o.dim;
}

/// A projection to `rows` features, or none.
Tensor projection(bool wanted, const MultiheadAttention::Options& o, int64_t rows,
                  int64_t columns) {
  if (!wanted) return {};
  return init::xavier_uniform_(Tensor::empty({rows, columns}, o.dtype, o.device));
}

void check_sequence(const char* what, const Tensor& x, int rank, int64_t features) {
  BRIM_CHECK(x.rank() == rank && x.size(-1) == features, ShapeError,
             "[{}] {} has shape {}; expected {}, {})", kLayer, what, x.shape().str(),
             rank == 3 ? "(N, length" : "(length", features);
}

/// (N, length, heads * features) -> (N, heads, length, features)
Tensor as_heads(const Tensor& x, int64_t heads) {
  return x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

/// Both masks as one; `keys` (N, S) or (S).
Tensor joined_mask(const AttentionMask& m) {
  if (!m.keys.defined()) return m.mask;
  BRIM_CHECK(m.keys.dtype() == DType::bool_ && (m.keys.rank() == 1 || m.keys.rank() == 2),
             ValueError, "[{}] the mask of keys is {} of shape {}; it must be bool, (N, S) or (S)",
             kLayer, name(m.keys.dtype()), m.keys.shape().str());
  const Tensor keys = m.keys.rank() == 1 ? m.keys : m.keys.unsqueeze(1).unsqueeze(1);
  if (!m.mask.defined()) return keys;
  if (m.mask.dtype() == DType::bool_) return logical_and(m.mask, keys);
  return masked_fill(m.mask, logical_not(keys), -std::numeric_limits<double>::infinity());
}

}  // namespace

MultiheadAttention::MultiheadAttention(Options o)
    : options(checked(o)),
      in_proj_weight(parameter("in_proj_weight",
                               projection(has_one_projection(options), options, 3 * o.dim, o.dim))),
      q_proj_weight(parameter("q_proj_weight",
                              projection(!has_one_projection(options), options, o.dim, o.dim))),
      k_proj_weight(parameter("k_proj_weight", projection(!has_one_projection(options), options,
                                                          o.dim, options.key_dim))),
      v_proj_weight(parameter("v_proj_weight", projection(!has_one_projection(options), options,
                                                          o.dim, options.value_dim))),
      in_proj_bias(parameter(
          "in_proj_bias",
          o.bias ? init::zeros_(Tensor::empty({3 * o.dim}, o.dtype, o.device)) : Tensor())),
      out_proj(add<Linear>(
          "out_proj",
          {.in = o.dim, .out = o.dim, .bias = o.bias, .dtype = o.dtype, .device = o.device})) {
  if (o.bias) init::zeros_(out_proj.bias);
}

/// Queries, keys and values, (N, heads, length, features) each, by one product where they can be.
std::vector<Tensor> MultiheadAttention::project(const Tensor& query, const Tensor& key,
                                                const Tensor& value) const {
  const int64_t heads = options.heads, dim = options.dim;
  if (in_proj_weight.defined() && query.impl() == key.impl() && key.impl() == value.impl()) {
    const Tensor rows = linear(query, in_proj_weight, in_proj_bias);
    return unbind(
        rows.reshape({rows.size(0), rows.size(1), 3, heads, dim / heads}).permute({2, 0, 3, 1, 4}));
  }
  const std::vector<Tensor> weights =
      in_proj_weight.defined() ? split(in_proj_weight, dim)
                               : std::vector<Tensor>{q_proj_weight, k_proj_weight, v_proj_weight};
  const std::vector<Tensor> biases =
      in_proj_bias.defined() ? split(in_proj_bias, dim) : std::vector<Tensor>(3);
  return {as_heads(linear(query, weights[0], biases[0]), heads),
          as_heads(linear(key, weights[1], biases[1]), heads),
          as_heads(linear(value, weights[2], biases[2]), heads)};
}

Tensor MultiheadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const AttentionMask& mask) {
  const ModuleCall call(*this);
  const int rank = query.rank() == 2 ? 2 : 3;
  check_sequence("query", query, rank, options.dim);
  check_sequence("key", key, rank, options.key_dim);
  check_sequence("value", value, rank, options.value_dim);
  if (rank == 2) {
    const Tensor q = query.unsqueeze(0);
    const bool itself = query.impl() == key.impl() && key.impl() == value.impl();
    return forward(q, itself ? q : key.unsqueeze(0), itself ? q : value.unsqueeze(0), mask)
        .squeeze(0);
  }
  const std::vector<Tensor> heads = project(query, key, value);
  const Tensor y = scaled_dot_product_attention(heads[0], heads[1], heads[2],
                                                {.mask = joined_mask(mask),
                                                 .causal = mask.causal,
                                                 .dropout = options.dropout,
                                                 .training = training()});
  return out_proj(y.transpose(1, 2).reshape({query.size(0), query.size(1), options.dim}));
}

std::string MultiheadAttention::options_str() const {
  std::string text = fmt::format("{}, heads={}", options.dim, options.heads);
  if (options.dropout > 0) text += fmt::format(", dropout={}", options.dropout);
  if (!options.bias) text += ", bias=false";
  if (options.key_dim != options.dim) text += fmt::format(", key_dim={}", options.key_dim);
  if (options.value_dim != options.dim) text += fmt::format(", value_dim={}", options.value_dim);
  return text;
}

}  // namespace brim::nn
