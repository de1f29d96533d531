// scaled_dot_product_attention: one kernel each way, over tensors of rank 4 whose rows may lie
// anywhere, so that heads that are parts of longer rows need no copies
#include <brim/ops/attention.h>

#include <algorithm>
#include <cmath>

#include "autograd/node.h"
#include "backend/kernel.h"
#include "ops/attention/attention.h"
#include "ops/autocast.h"
#include "ops/checks.h"

namespace brim {
namespace {

using backend::AttentionParams;

constexpr const char* kOp = "scaled_dot_product_attention";

/// The tensor without history, its rows contiguous.
Tensor with_rows(const Tensor& x) {
  const Tensor rows = x.detach();
  return rows.size(-1) <= 1 || rows.strides()[3] == 1 ? rows : rows.contiguous();
}

/// A new tensor of shape (.., .., .., columns), in memory (B, L, H, columns) where `like` has its
/// heads side by side, so that joining the heads of a row needs no copy.
Tensor empty_rows(const Tensor& like, int64_t columns) {
  const int64_t b = like.size(0), h = like.size(1), l = like.size(2);
  Tensor y = Tensor::empty({b, h, l, columns}, like.dtype(), like.device());
  const int64_t head = like.strides()[1];
  if (head == 0 || head >= like.strides()[2]) return y;
  return y.alias(y.shape(), {l * h * columns, columns, h * columns, 1}, 0);
}

ops::AttentionGradients fused_gradient(const Tensor& dy, const Tensor& q, const Tensor& k,
                                       const Tensor& v, const Tensor& mask, const Tensor& y,
                                       const Tensor& lse, const AttentionParams& params,
                                       const RandomKey& key) {
  static const backend::Kernel<void(const Context&, const Tensor& dy, const Tensor& q,
                                    const Tensor& k, const Tensor& v, const Tensor& mask,
                                    const Tensor& y, const Tensor& lse, Tensor& dq, Tensor& dk,
                                    Tensor& dv, const AttentionParams&, const RandomKey& key)>
      kernel("attention_grad", {.operands = "dy, q, k, v, mask, y, lse, dq, dk, dv"},
             [](const Tensor&, const Tensor& query, const Tensor& of, const Tensor& value,
                const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                const Tensor&, const AttentionParams& p, const RandomKey&) {
               return 2 * backend::attention_pairs(query, of, p.causal) *
                      static_cast<double>(3 * query.size(-1) + 2 * value.size(-1));
             });
  ops::AttentionGradients d{
      empty_rows(q, q.size(3)), empty_rows(k, k.size(3)), empty_rows(v, v.size(3)), {}};
  kernel(q.device(), q.dtype(), with_rows(dy), with_rows(q), with_rows(k), with_rows(v), mask, y,
         lse, d.q, d.k, d.v, params, key);
  return d;
}

/// q: (B, H, L, E), k: (B, Hkv, S, E), v: (B, Hkv, S, Ev), mask: (B, H, L, S) or undefined.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                 const AttentionParams& params, const RandomKey& key) {
  static const backend::Kernel<void(const Context&, const Tensor& q, const Tensor& k,
                                    const Tensor& v, const Tensor& mask, Tensor& y, Tensor& lse,
                                    const AttentionParams&, const RandomKey& key)>
      kernel("attention", {.operands = "q, k, v, mask, y, lse"},
             [](const Tensor& query, const Tensor& of, const Tensor& value, const Tensor&,
                const Tensor&, const Tensor&, const AttentionParams& p, const RandomKey&) {
               return 2 * backend::attention_pairs(query, of, p.causal) *
                      static_cast<double>(query.size(-1) + value.size(-1));
             });
  Tensor y = empty_rows(q, v.size(3));
  // The logarithm of each query's sum of exponentials; infinite where it sees no key.
  Tensor lse = Tensor::empty({q.size(0), q.size(1), q.size(2)}, ops::statistics_dtype(q.dtype()),
                             q.device());
  const Tensor kernel_mask = mask.defined() ? mask.detach() : mask;
  kernel(q.device(), q.dtype(), with_rows(q), with_rows(k), with_rows(v), kernel_mask, y, lse,
         params, key);
  return autograd::with_grad(
      kOp, y, {q, k, v, mask},
      [q = autograd::Saved(q), k = autograd::Saved(k), v = autograd::Saved(v),
       mask = autograd::Saved(mask), y = autograd::Saved::output(y), lse, params,
       key](autograd::GradCall& g) {
        const ops::AttentionGradients d =
            grad_enabled() || g.needs(3)
                ? ops::composed_attention_grad(g.dy(), g[q], g[k], g[v], g[mask], params, key)
                : fused_gradient(g.dy(), g[q], g[k], g[v], g[mask], g[y].detach(), lse, params,
                                 key);
        g.set_if_needed(0, [&] { return d.q; });
        g.set_if_needed(1, [&] { return d.k; });
        g.set_if_needed(2, [&] { return d.v; });
        g.set_if_needed(3, [&] { return d.mask; });
      });
}

/// The axes before (H, L, E), or none.
Shape batch_of(const Tensor& x) {
  Shape batch;
  for (int i = 0; i + 3 < x.rank(); ++i) batch.push_back(x.shape()[i]);
  return batch;
}

Shape joined(Shape batch, std::initializer_list<int64_t> rest) {
  for (const int64_t size : rest) batch.push_back(size);
  return batch;
}

int64_t heads_of(const Tensor& x) { return x.rank() > 2 ? x.size(-3) : 1; }

/// `x` of (batch, heads, rows, columns), its batch axes joined to one.
Tensor as_rank_4(const Tensor& x, const Shape& batch, int64_t heads) {
  const int64_t rows = x.size(-2), columns = x.size(-1);
  if (x.rank() == 4 && x.size(0) == batch[0] && x.size(1) == heads) return x;
  const Tensor full = x.rank() > 2 ? x.expand(joined(batch, {heads, rows, columns})) : x;
  return full.reshape({batch.numel(), heads, rows, columns});
}

void check_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  ops::check_floating(kOp, q);
  for (const Tensor& t : {k, v}) {
    (void)ops::common_device(kOp, q, t);
    (void)ops::common_dtype(kOp, q, t);
  }
  const auto shapes = [&] {
    return q.shape().str() + ", " + k.shape().str() + ", " + v.shape().str();
  };
  BRIM_CHECK(q.rank() >= 2 && q.rank() == k.rank() && q.rank() == v.rank(), ShapeError,
             "[{}] q, k, v have shapes {}; expected (.., H, L, E), (.., Hkv, S, E) and "
             "(.., Hkv, S, Ev), or all without heads",
             kOp, shapes());
  BRIM_CHECK(q.size(-1) == k.size(-1), ShapeError,
             "[{}] q, k, v have shapes {}; a query has {} features and a key {}", kOp, shapes(),
             q.size(-1), k.size(-1));
  BRIM_CHECK(k.size(-2) == v.size(-2), ShapeError,
             "[{}] q, k, v have shapes {}; there are {} keys and {} values", kOp, shapes(),
             k.size(-2), v.size(-2));
  const int64_t heads = heads_of(q), shared = heads_of(k);
  BRIM_CHECK(shared == heads_of(v) && (shared == 0 ? heads == 0 : heads % shared == 0), ShapeError,
             "[{}] q, k, v have shapes {}; k and v must have the same number of heads, which "
             "divides that of q",
             kOp, shapes());
}

/// The mask as a view of `full`, (.., H, L, S), of rank 4.
Tensor full_mask(const Tensor& mask, const Tensor& q, const Shape& full) {
  (void)ops::common_device(kOp, q, mask);
  BRIM_CHECK(mask.dtype() == DType::bool_ || mask.dtype() == q.dtype(), DTypeError,
             "[{}] the mask is {}; it must be bool (true: may be seen), or of q's dtype {} to be "
             "added to the scores",
             kOp, name(mask.dtype()), name(q.dtype()));
  bool fits = mask.rank() <= full.rank();
  for (int i = 1; fits && i <= mask.rank(); ++i)
    fits = mask.size(-i) == full[full.rank() - i] || mask.size(-i) == 1;
  BRIM_CHECK(fits, ShapeError, "[{}] the mask has shape {}, which does not broadcast to {}", kOp,
             mask.shape().str(), full.str());
  const int rank = full.rank();
  const int64_t keys = full[rank - 1], queries = full[rank - 2], heads = full[rank - 3];
  int64_t batches = 1;
  for (int i = 0; i + 3 < rank; ++i) batches *= full[i];
  const Tensor expanded = mask.shape() == full ? mask : mask.expand(full);
  return rank == 4 ? expanded : expanded.reshape({batches, heads, queries, keys});
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_low(
        [&](const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask) {
          AttentionOptions cast = options;
          cast.mask = mask;
          return scaled_dot_product_attention(query, key, value, cast);
        },
        q, k, v, options.mask);
  check_attention(q, k, v);
  BRIM_CHECK(options.dropout >= 0 && options.dropout <= 1, ValueError,
             "[{}] the probability of dropout {} is outside [0, 1]", kOp, options.dropout);
  const Shape batch =
      broadcast_shapes(broadcast_shapes(batch_of(q), batch_of(k), kOp), batch_of(v), kOp);
  const int64_t heads = heads_of(q), shared = heads_of(k), queries = q.size(-2), keys = k.size(-2);
  const AttentionParams params{
      .scale = options.scale.value_or(
          1 / std::sqrt(static_cast<double>(std::max<int64_t>(q.size(-1), 1)))),
      .causal = options.causal,
      .dropout = options.training ? options.dropout : 0};
  Generator& generator = options.generator ? *options.generator : Generator::global();
  const RandomKey key =
      params.dropout > 0 ? generator.next_of_samples(joined(batch, {heads, queries, keys}).numel())
                         : RandomKey();
  const Tensor mask = options.mask.defined()
                          ? full_mask(options.mask, q, joined(batch, {heads, queries, keys}))
                          : Tensor();
  const Tensor y = attention(as_rank_4(q, batch, heads), as_rank_4(k, batch, shared),
                             as_rank_4(v, batch, shared), mask, params, key);
  const Shape shape =
      q.rank() > 2 ? joined(batch, {heads, queries, v.size(-1)}) : Shape{queries, v.size(-1)};
  return y.shape() == shape ? y : y.reshape(shape);
}

}  // namespace brim
