// scaled_dot_product_attention by products and a softmax: opset 20 has no operator of its own.
#include <limits>

#include <brim/ops/create.h>
#include <brim/ops/shape.h>

#include "backend/options/attention_params.h"
#include "deploy/onnx/translation.h"

namespace brim::deploy {
namespace {

/// (.., H, rows, columns) as (.., shared, H / shared, rows, columns).
Extents in_shared_heads(const Extents& shape, int64_t shared) {
  return {shape[0], shared, quotient(shape[1], shared).value(), shape[2], shape[3]};
}

void attention(Translated& t) {
  const auto& p = t.option<backend::AttentionParams>();
  BRIM_CHECK(p.dropout == 0, NotImplemented, "dropout, as in training");
  const Extents q_shape = t.shape("q"), k_shape = t.shape("k"), v_shape = t.shape("v");
  const Extent queries = q_shape[2], keys = k_shape[2];
  const DType dtype = t.dtype("q");
  Value q = t.in("q"), k = t.in("k"), v = t.in("v");
  Value mask = t.has("mask") ? t.in_broadcast("mask") : Value();
  Extents scores_shape = {q_shape[0], q_shape[1], queries, keys};
  Extents y_shape = t.shape("y");
  if (q_shape[1] != k_shape[1]) {  // heads of q share those of k and v
    BRIM_CHECK(q_shape[1].is_fixed() && k_shape[1].is_fixed(), deploy::DependsOnBatch,
               "heads that depend on the batch");
    const int64_t shared = k_shape[1].fixed;
    q = t.graph.reshape(q, in_shared_heads(q_shape, shared));
    k = t.graph.reshape(k, {k_shape[0], shared, 1, keys, k_shape[3]});
    v = t.graph.reshape(v, {v_shape[0], shared, 1, keys, v_shape[3]});
    if (!mask.name.empty())
      mask = mask.shape[1].is(1)
                 ? t.graph.reshape(mask, {mask.shape[0], 1, 1, mask.shape[2], mask.shape[3]})
                 : t.graph.reshape(mask, in_shared_heads(mask.shape, shared));
    scores_shape = in_shared_heads(scores_shape, shared);
    y_shape = in_shared_heads(y_shape, shared);
  }
  std::vector<int> transposed(k.shape.size());
  for (size_t i = 0; i < transposed.size(); ++i) transposed[i] = static_cast<int>(i);
  std::swap(transposed[transposed.size() - 1], transposed[transposed.size() - 2]);
  const Output like_scores{scores_shape, dtype};
  Value scores = t.graph.add("MatMul", {q, t.graph.transpose(k, transposed)}, like_scores);
  scores = t.graph.add("Mul", {scores, t.graph.scalar(p.scale, dtype)}, like_scores);
  const double lowest = -std::numeric_limits<double>::infinity();
  const Value never = t.graph.scalar(lowest, dtype), zero = t.graph.scalar(0, dtype);
  Value visible = !mask.name.empty() && mask.dtype == DType::bool_ ? mask : Value();
  const bool is_added = !mask.name.empty() && visible.name.empty();
  if (p.causal) {
    BRIM_CHECK(queries.is_fixed() && keys.is_fixed(), deploy::DependsOnBatch,
               "a causal mask as long as the batch");
    const Tensor before = tril(ones({queries.fixed, keys.fixed}));
    const Value causal = t.graph.initializer("causal_mask", before.to(DType::bool_));
    Extents both = visible.shape;
    if (!visible.name.empty()) both[both.size() - 2] = queries, both[both.size() - 1] = keys;
    visible =
        visible.name.empty() ? causal : t.graph.add("And", {visible, causal}, {both, DType::bool_});
  }
  if (!visible.name.empty()) scores = t.graph.add("Where", {visible, scores, never}, like_scores);
  if (is_added) scores = t.graph.add("Add", {scores, mask}, like_scores);
  Value shares = t.graph.add("Softmax", {scores}, like_scores, {{"axis", int64_t{-1}}});
  // A query that sees no key gets zeros; its softmax is NaN.
  if (is_added) {
    const Value none = t.graph.add("IsNaN", {shares}, {scores_shape, DType::bool_});
    shares = t.graph.add("Where", {none, zero, shares}, like_scores);
  } else if (!mask.name.empty()) {
    shares = t.graph.add("Where", {visible, shares, zero}, like_scores);
  }
  t.out("y", t.graph.add("MatMul", {shares, v}, {y_shape, dtype}));
}

const bool registered_attention = register_translation(
    "attention", "Transpose, MatMul, Mul, Where or Add for masks, Softmax, MatMul", &attention);

}  // namespace
}  // namespace brim::deploy
