// Metrics of tokens: output (N, L, V) logits, y i64 (N, L).
#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/loss.h>
#include <brim/ops/reduce.h>

#include <cmath>
#include <numbers>

#include "core/check.h"
#include "train/metric/registry.h"

namespace brim::train {
namespace {

/// The mean of -log(probability of what comes next).
class TokenLoss : public SummedMetric {
 public:
  explicit TokenLoss(const MetricOptions& o) : SummedMetric(o.device), sum_(add_sum({})) {}
  void add(const Tensor& output, const data::Batch& batch) override {
    check_shapes(output, 3, batch.y, 2, true);
    const Tensor loss = cross_entropy(output.flatten(0, 1), batch.y.flatten());
    sum_.add_(loss.to(f64) * static_cast<double>(batch.y.numel()));
    count_ += batch.y.numel();
  }

 protected:
  double nats() const { return sum_.item() / static_cast<double>(count_); }

 private:
  Tensor& sum_;
};

class Perplexity final : public TokenLoss {
 public:
  using TokenLoss::TokenLoss;
  double value() const override { return std::exp(nats()); }
};

class BitsPerByte final : public TokenLoss {
 public:
  explicit BitsPerByte(const MetricOptions& o) : TokenLoss(o) {
    BRIM_CHECK(o.outputs <= 256, ValueError,
               "[recipe] bits-per-byte is for tokens that are bytes, and there are {}; take "
               "perplexity",
               o.outputs);
  }
  double value() const override { return nats() / std::numbers::ln2; }
};

class TokenAccuracy final : public SummedMetric {
 public:
  explicit TokenAccuracy(const MetricOptions& o) : SummedMetric(o.device), correct_(add_sum({})) {}
  void add(const Tensor& output, const data::Batch& batch) override {
    check_shapes(output, 3, batch.y, 2, true);
    correct_.add_(sum(eq(argmax(output, -1), batch.y).to(f64)));
    count_ += batch.y.numel();
  }
  double value() const override { return correct_.item() / static_cast<double>(count_); }

 private:
  Tensor& correct_;
};

const bool registered_token_metrics =
    register_metric("perplexity", number_of<Perplexity>()) &&
    register_metric("bits-per-byte", number_of<BitsPerByte>()) &&
    register_metric("token-accuracy", fraction_of<TokenAccuracy>());

}  // namespace
}  // namespace brim::train
