// Contract cases of attention: masks, shared heads, sizes beside those of tiles, dropout, and what
// queries get that see nothing.
#include <brim/ops/attention.h>

#include <cmath>
#include <limits>

#include <brim/autograd/autocast.h>
#include <brim/autograd/autograd.h>
#include <brim/core/allocator.h>
#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/create.h>
#include <brim/ops/dropout.h>
#include <brim/ops/matmul.h>
#include <brim/ops/reduce.h>
#include <brim/ops/shape.h>
#include <brim/ops/softmax.h>
#include <brim/ops/unary.h>
#include <brim/plan/compile.h>

#include "contract/contract.h"
#include "contract/harness.h"
#include "contract/positions.h"
#include "message_of.h"
#include "threads.h"

namespace brim::contract {
namespace {

/// The definition, one query after the other. q: (B, H, L, E), k: (B, Hkv, S, E),
/// v: (B, Hkv, S, Ev), mask: (B, H, L, S) or undefined; bool or added.
Tensor defined_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                         bool causal, double scale) {
  const Reader query(q), key(k), value(v);
  const std::optional<Reader> masked = mask.defined() ? std::optional<Reader>(mask) : std::nullopt;
  const int64_t group = q.size(1) / k.size(1), keys = k.size(2);
  const auto weights = [&](int64_t b, int64_t h, int64_t i) {
    std::vector<double> w;
    for (int64_t j = 0; j < keys; ++j) {
      double score = 0;
      for (int64_t e = 0; e < q.size(3); ++e)
        score += query({b, h, i, e}) * key({b, h / group, j, e});
      score *= scale;
      const double m = masked ? (*masked)({b, h, i, j}) : 0;
      const bool is_bool = masked && mask.dtype() == bool_;
      if ((causal && j > i) || (is_bool && m == 0))
        w.push_back(0);
      else
        w.push_back(std::exp(score + (is_bool ? 0 : m)));
    }
    const double sum = total(w);
    for (double& x : w) x = sum > 0 ? x / sum : 0;
    return w;
  };
  return build({q.size(0), q.size(1), q.size(2), v.size(3)}, [&](const Shape& at) {
    const std::vector<double> w = weights(at[0], at[1], at[2]);
    double sum = 0;
    for (int64_t j = 0; j < keys; ++j)
      sum += w[static_cast<size_t>(j)] * value({at[0], at[1] / group, j, at[3]});
    return sum;
  });
}

std::vector<Input> inputs(int64_t batch, int64_t heads, int64_t shared, int64_t queries,
                          int64_t keys, int64_t features, int64_t value_features) {
  return {{{batch, heads, queries, features}},
          {{batch, shared, keys, features}},
          {{batch, shared, keys, value_features}}};
}

/// Single queries and keys, sizes beside those of vectors and tiles, several tiles, no keys,
/// nothing at all.
std::vector<std::vector<Input>> sizes() {
  return {inputs(2, 3, 3, 5, 7, 4, 6),    inputs(1, 2, 2, 1, 1, 1, 1),
          inputs(1, 1, 1, 103, 70, 9, 5), inputs(1, 2, 2, 33, 130, 16, 8),
          inputs(1, 2, 2, 3, 0, 4, 4),    inputs(2, 1, 1, 0, 3, 4, 2),
          inputs(0, 2, 2, 3, 4, 5, 6),    inputs(1, 1, 1, 130, 3, 4, 33)};
}

Case attention_case(bool causal, std::optional<double> scale = {}) {
  return {.op =
              [=](Tensor q, Tensor k, Tensor v) {
                return scaled_dot_product_attention(q, k, v, {.causal = causal, .scale = scale});
              },
          .inputs = sizes(),
          .reference =
              [=](Tensor q, Tensor k, Tensor v) {
                const double usual = 1 / std::sqrt(static_cast<double>(q.size(3)));
                return defined_attention(q, k, v, {}, causal, scale.value_or(usual));
              },
          .tolerance_f64 = 1e-11};
}

CONTRACT(attention) { return attention_case(false); }
CONTRACT(attention_causal) { return attention_case(true); }
CONTRACT(attention_scale) {
  Case c = attention_case(true, 0.7);
  c.inputs.resize(1);
  return c;
}
CONTRACT(attention_shared_heads) {
  Case c = attention_case(false);
  c.inputs = {inputs(2, 4, 2, 5, 7, 4, 6), inputs(1, 6, 1, 33, 9, 8, 8),
              inputs(1, 6, 2, 101, 66, 4, 4)};
  return c;
}

/// With a mask of `shape` or, of the second situation, of one (L, S) for all.
Case masked_case(const Input& mask, bool causal) {
  std::vector<Input> whole = inputs(2, 4, 2, 5, 7, 4, 6), shared = inputs(1, 2, 2, 101, 66, 4, 4);
  whole.push_back(mask);
  whole.back().shape = {2, 4, 5, 7};
  std::vector<Input> of_keys = inputs(2, 2, 2, 5, 7, 4, 6);
  of_keys.push_back(mask);
  of_keys.back().shape = {2, 1, 1, 7};
  shared.push_back(mask);
  shared.back().shape = {101, 66};
  return {.op =
              [=](Tensor q, Tensor k, Tensor v, Tensor m) {
                return scaled_dot_product_attention(q, k, v, {.mask = m, .causal = causal});
              },
          .inputs = {whole, of_keys, shared},
          .reference =
              [=](Tensor q, Tensor k, Tensor v, Tensor m) {
                const Tensor full = m.expand({q.size(0), q.size(1), q.size(2), k.size(2)});
                return defined_attention(q, k, v, full, causal, 0.5);
              },
          .tolerance_f64 = 1e-11};
}
CONTRACT(attention_bool_mask) { return masked_case({.shape = {}, .dtype = bool_}, false); }
CONTRACT(attention_bool_mask_causal) { return masked_case({.shape = {}, .dtype = bool_}, true); }
CONTRACT(attention_added_mask) { return masked_case({.shape = {}, .gradient = false}, false); }
CONTRACT(attention_added_mask_gradient) { return masked_case({.shape = {}}, true); }

CONTRACT(attention_dropout) {
  const auto options = [](Generator& generator) {
    return AttentionOptions{.causal = true, .dropout = 0.3, .generator = &generator};
  };
  const auto weights = [](Tensor q, Tensor k) {
    const Tensor scores = matmul(q, k.transpose(-1, -2)) * 0.5;
    const Tensor hidden = triu(ones_like(scores), 1).to(bool_);
    return softmax(masked_fill(scores, hidden, -std::numeric_limits<double>::infinity()), -1);
  };
  return {.op =
              [=](Tensor q, Tensor k, Tensor v) {
                Generator generator(7);
                return scaled_dot_product_attention(q, k, v, options(generator));
              },
          .inputs = {inputs(2, 3, 3, 5, 7, 4, 6), inputs(1, 2, 2, 101, 66, 4, 4)},
          .reference =
              [=](Tensor q, Tensor k, Tensor v) {
                Generator generator(7);
                return matmul(dropout(weights(q, k), 0.3, true, &generator), v);
              },
          .tolerance_f64 = 1e-11};
}

/// Gradients of sum(y^2) by q, k and v, and y.
Tensors results(const Tensors& from, const AttentionOptions& options = {}) {
  Tensors x;
  for (const Tensor& t : from) x.push_back(t.detach().set_requires_grad());
  const Tensor y = scaled_dot_product_attention(x[0], x[1], x[2], options);
  Tensors all = brim::autograd::grad(Tensors{sum(square(y))}, x);
  all.push_back(y.detach());
  return all;
}

Tensors random_inputs(const Shape& q, const Shape& kv, const TensorOptions& like = {}) {
  return {randn(q, like), randn(kv, like), randn(kv, like)};
}

TEST(Attention, QueriesThatSeeNothingGetZeros) {
  const double hidden = -std::numeric_limits<double>::infinity();
  for (const Device device : devices())
    for (const bool is_bool : {true, false})
      for (const bool composed : {true, false}) {
        SCOPED_TRACE(device.str() + (is_bool ? ", bool" : ", added"));
        Tensor mask = is_bool ? ones({5, 7}, {.dtype = bool_}) : zeros({5, 7});
        mask.slice(0, 2, 4).fill_(is_bool ? 0 : hidden);
        mask = mask.to(device);
        Tensors x = random_inputs({1, 2, 5, 4}, {1, 2, 7, 4});
        for (Tensor& t : x) t = t.to(device).set_requires_grad();
        const Tensor y = scaled_dot_product_attention(x[0], x[1], x[2], {.mask = mask});
        const auto d =
            brim::autograd::grad(Tensors{sum(square(y))}, x, {}, {.create_graph = composed});
        for (const Tensor& t : {y, d[0]}) {
          const Tensor per_query = sum(abs(t.detach()), {0, 1, 3});
          const std::vector<double> sums = values(per_query);
          for (size_t i = 0; i < 5; ++i) EXPECT_EQ(sums[i] == 0, i == 2 || i == 3) << i;
        }
        for (const Tensor& t : d) EXPECT_TRUE(std::isfinite(values(sum(abs(t.detach())))[0]));
      }
}

TEST(Attention, LargeScoresDoNotOverflow) {
  for (const Device device : devices()) {
    const Tensor q = full({1, 1, 2, 4}, 1e4).to(device), v = randn({1, 1, 3, 4}).to(device);
    Tensor k = full({1, 1, 3, 4}, -1e4);
    k.slice(2, 1, 2).fill_(1e4);
    const Tensor y = scaled_dot_product_attention(q, k.to(device), v);
    EXPECT_EQ(values(y), values(v.slice(2, 1, 2).expand({1, 1, 2, 4})));
  }
}

TEST(Attention, NanReachesItsQueryOnly) {
  for (const Device device : devices()) {
    Tensors x = random_inputs({1, 1, 40, 4}, {1, 1, 9, 4});
    x[0].slice(2, 30, 31).slice(3, 1, 2).fill_(NAN);
    for (Tensor& t : x) t = t.to(device);
    const std::vector<double> y = values(scaled_dot_product_attention(x[0], x[1], x[2]));
    for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i / 4 == 30) << i;
  }
}

TEST(Attention, OtherRanksAreThatOfFour) {
  const Tensors x = random_inputs({6, 5, 4}, {6, 7, 4});
  const auto as = [&](const std::vector<int64_t>& batch, bool first) {
    Tensors y;
    for (const Tensor& t : x) {
      Shape shape;
      for (const int64_t size : batch) shape.push_back(size);
      shape.push_back(t.size(-2)), shape.push_back(t.size(-1));
      y.push_back(first ? t.slice(0, 0, 1).reshape(shape) : t.reshape(shape));
    }
    return scaled_dot_product_attention(y[0], y[1], y[2], {.causal = true});
  };
  const Tensor want = as({1, 6}, false);
  EXPECT_EQ(as({6}, false).shape(), Shape({6, 5, 4}));
  EXPECT_EQ(as({}, true).shape(), Shape({5, 4}));
  EXPECT_EQ(as({3, 1, 2}, false).shape(), Shape({3, 1, 2, 5, 4}));
  EXPECT_EQ(values(as({6}, false)), values(want));
  EXPECT_EQ(values(as({3, 1, 2}, false)), values(want));
  EXPECT_EQ(values(as({}, true)), values(want.slice(1, 0, 1)));
}

TEST(Attention, BatchAxesAreBroadcast) {
  const Tensor q = randn({3, 1, 2, 5, 4}), k = randn({2, 1, 7, 4}), v = randn({1, 1, 1, 7, 4});
  const Tensor k5 = k.unsqueeze(0), mask = rand({2, 1, 5, 1}) - 0.5;
  const Tensors full = {q.expand({3, 2, 2, 5, 4}).contiguous(),
                        k5.expand({3, 2, 1, 7, 4}).contiguous(),
                        v.expand({3, 2, 1, 7, 4}).contiguous()};
  EXPECT_EQ(values(scaled_dot_product_attention(q, k5, v, {.mask = mask})),
            values(scaled_dot_product_attention(full[0], full[1], full[2], {.mask = mask})));
}

// As projections give them: heads side by side in a row.
TEST(Attention, HeadsThatLieSideBySideStaySo) {
  for (const Device device : devices()) {
    const Tensor rows = randn({2, 9, 3, 4, 5}).to(device);
    const auto heads = unbind(rows.permute({2, 0, 3, 1, 4}));
    const Tensor y = scaled_dot_product_attention(heads[0], heads[1], heads[2]);
    EXPECT_TRUE(y.transpose(1, 2).is_contiguous());
    const Tensor dense = scaled_dot_product_attention(heads[0].contiguous(), heads[1].contiguous(),
                                                      heads[2].contiguous());
    EXPECT_TRUE(dense.is_contiguous());
    EXPECT_EQ(values(y), values(dense));
  }
}

TEST(Attention, DropoutIsThatOfTraining) {
  const Tensors x = random_inputs({1, 2, 5, 4}, {1, 2, 7, 4});
  const auto run = [&](const AttentionOptions& options) {
    return values(scaled_dot_product_attention(x[0], x[1], x[2], options));
  };
  EXPECT_EQ(run({.dropout = 0.5, .training = false}), run({}));
  EXPECT_EQ(run({.dropout = 1}), std::vector<double>(40, 0));
  const RandomKey before = Generator::global().state();
  (void)run({.dropout = 0.5, .training = false});
  EXPECT_EQ(Generator::global().state(), before);
  EXPECT_NE(run({.dropout = 0.5}), run({.dropout = 0.5}));
}

TEST(Attention, CompiledStepsDrawTheSameDropout) {
  for (const Device device : devices()) {
    Tensors x = random_inputs({2, 2, 9, 4}, {2, 1, 9, 4});
    for (Tensor& t : x) t = t.to(device);
    const auto step = [](const Tensor& q, const Tensor& k, const Tensor& v) {
      Tensors leaves = {q.detach().set_requires_grad(), k.detach().set_requires_grad(),
                        v.detach().set_requires_grad()};
      const Tensor y = scaled_dot_product_attention(leaves[0], leaves[1], leaves[2],
                                                    {.causal = true, .dropout = 0.4});
      return brim::autograd::grad(Tensors{sum(square(y))}, leaves);
    };
    auto compiled = compile(step);
    std::vector<double> runs[2];
    for (const bool plan : {false, true}) {
      manual_seed(11);
      for (int i = 0; i < 3; ++i)
        for (const Tensor& t : plan ? compiled(x[0], x[1], x[2]) : step(x[0], x[1], x[2]))
          for (const double value : values(t)) runs[plan].push_back(value);
    }
    EXPECT_EQ(runs[0], runs[1]) << device.str();
  }
}

TEST(Attention, ThreadsDoNotChangeBits) {
  const Tensors many = random_inputs({2, 6, 300, 32}, {2, 2, 500, 32});
  const Tensors few = random_inputs({1, 1, 700, 64}, {1, 1, 700, 64});
  std::vector<double> first;
  for (int threads = 1; threads <= 3; ++threads) {
    const tests::Threads guard(threads);
    std::vector<double> all;
    for (const Tensors& x : {many, few})
      for (const bool causal : {false, true})
        for (const Tensor& t : results(x, {.causal = causal}))
          for (const double value : values(t)) all.push_back(value);
    if (threads == 1) first = all;
    EXPECT_TRUE(all == first) << threads;
  }
}

// Of several parts, each of which sums what keys get.
TEST(Attention, PartsSumToTheWhole) {
  const Tensors x = random_inputs({1, 2, 700, 16}, {1, 1, 300, 16});
  Tensors exact;
  for (const Tensor& t : x) exact.push_back(t.to(f64));
  for (const bool causal : {false, true}) {
    const Tensors got = results(x, {.causal = causal});
    const Tensors want = results(exact, {.causal = causal});
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_LT(amax(abs(got[i].to(f64) - want[i])).item(), 1e-4) << i;
  }
}

TEST(Attention, MemoryGrowsWithTheLength) {
  const auto peak = [](int64_t length) {
    Allocator& allocator = Allocator::of(Device::cpu());
    const Tensors x = random_inputs({1, 16, length, 8}, {1, 16, length, 8});
    const int64_t before = allocator.stats().live;
    allocator.reset_peak();
    (void)results(x, {.causal = true});
    return allocator.stats().peak_live - before;
  };
  const tests::Threads guard(1);
  const int64_t of_1024 = peak(1024);
  EXPECT_LT(peak(2048), 2 * of_1024 + (1 << 16));
  EXPECT_LT(peak(2048), 16 * 2048 * 2048 / 8);  // of 4 bytes each the scores take 32 times that
}

TEST(Attention, TakesPartInAutocast) {
  const Tensors x = random_inputs({1, 2, 5, 8}, {1, 2, 7, 8});
  const Autocast autocast(bf16);
  const Tensor y = scaled_dot_product_attention(x[0], x[1], x[2], {.mask = zeros({5, 7})});
  EXPECT_EQ(y.dtype(), bf16);
  EXPECT_EQ(values(y),
            values(scaled_dot_product_attention(x[0].to(bf16), x[1].to(bf16), x[2].to(bf16))));
}

TEST(Attention, ChecksItsInput) {
  const auto message = [](const Tensor& q, const Tensor& k, const Tensor& v,
                          const AttentionOptions& options = {}) {
    return tests::message_of([&] { (void)scaled_dot_product_attention(q, k, v, options); });
  };
  const Tensor x = zeros({2, 3, 4, 5});
  EXPECT_EQ(message(x, zeros({2, 3, 4, 6}), x),
            "[scaled_dot_product_attention] q, k, v have shapes (2, 3, 4, 5), (2, 3, 4, 6), "
            "(2, 3, 4, 5); a query has 5 features and a key 6");
  EXPECT_EQ(message(x, x, zeros({2, 3, 6, 5})),
            "[scaled_dot_product_attention] q, k, v have shapes (2, 3, 4, 5), (2, 3, 4, 5), "
            "(2, 3, 6, 5); there are 4 keys and 6 values");
  EXPECT_EQ(message(x, zeros({2, 2, 4, 5}), zeros({2, 2, 4, 5})),
            "[scaled_dot_product_attention] q, k, v have shapes (2, 3, 4, 5), (2, 2, 4, 5), "
            "(2, 2, 4, 5); k and v must have the same number of heads, which divides that of q");
  EXPECT_EQ(message(x, x, x, {.mask = zeros({4, 4}, {.dtype = i64})}),
            "[scaled_dot_product_attention] the mask is i64; it must be bool (true: may be seen), "
            "or of q's dtype f32 to be added to the scores");
  EXPECT_EQ(message(x, x, x, {.mask = zeros({4, 3})}),
            "[scaled_dot_product_attention] the mask has shape (4, 3), which does not broadcast to "
            "(2, 3, 4, 4)");
  EXPECT_EQ(message(x, x, x, {.dropout = 1.5}),
            "[scaled_dot_product_attention] the probability of dropout 1.5 is outside [0, 1]");
  EXPECT_THROW(scaled_dot_product_attention(zeros({5}), zeros({5}), zeros({5})), ShapeError);
  EXPECT_THROW(scaled_dot_product_attention(x, x, zeros({3, 4, 5})), ShapeError);
  EXPECT_THROW(scaled_dot_product_attention(x, x, x.to(f64)), DTypeError);
  EXPECT_THROW(scaled_dot_product_attention(x, zeros({3, 3, 4, 5}), x), ShapeError);
}

}  // namespace
}  // namespace brim::contract
