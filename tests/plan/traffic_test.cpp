// What launches read and write, and what a step launches eagerly and compiled.
#include "plan/traffic.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include <brim/brim.h>

#include "diag/span.h"
#include "plan/recorder.h"

namespace brim::plan {
namespace {

using Body = std::function<Tensor(const Tensor&)>;

Step step_of(const Body& body) {
  return [body](std::span<const Tensor> in) { return std::vector<Tensor>{body(in[0])}; };
}

/// Bytes of the launches of `body`, in their order.
std::vector<int64_t> bytes(const Body& body, const Tensor& x) {
  const Recording recording = record(step_of(body), {&x, 1}, false);
  std::vector<int64_t> list;
  for (const auto& launch : recording.program.launches) list.push_back(bytes_of(*launch));
  return list;
}

using Bytes = std::vector<int64_t>;

TEST(Traffic, CountsWhatIsReadAndWrittenOnce) {
  const Tensor x = rand({3, 5}), row = rand({5});
  EXPECT_EQ(bytes([](const Tensor& t) { return relu(t); }, x), Bytes{2 * 60});
  EXPECT_EQ(bytes([](const Tensor& t) { return t * t; }, x), Bytes{2 * 60}) << "twice the same";
  EXPECT_EQ(bytes([&](const Tensor& t) { return t + row; }, x), Bytes{2 * 60 + 20});
  EXPECT_EQ(bytes([](const Tensor& t) { return sum(t, {0}); }, x), Bytes{60 + 20});
  EXPECT_EQ(bytes([](const Tensor& t) { return t.to(f16); }, x), Bytes{60 + 30});
  EXPECT_EQ(bytes([](const Tensor& t) { return relu(t.slice(1, 0, 2)); }, x), Bytes{2 * 24});
  EXPECT_EQ(bytes(
                [](const Tensor& t) {
                  return t.slice(0, 0, 1).expand({4, 5}).contiguous();
                },
                x),
            Bytes{20 + 80})
      << "what is broadcast lies in memory once";
  EXPECT_EQ(bytes([](const Tensor& t) { return matmul(t, t.t()); }, x), Bytes{2 * 60 + 36})
      << "two views of the same elements in another order are two operands";
  EXPECT_EQ(bytes([](const Tensor& t) { return relu(t); }, rand({0, 5})), Bytes{0});
}

TEST(Traffic, CountsWhatIsWrittenInPlace) {
  Tensor state = zeros({3, 5});
  const Body add = [&](const Tensor& t) {
    state.add_(t);
    return t;
  };
  EXPECT_EQ(bytes(add, rand({3, 5})), Bytes{3 * 60});
}

/// The gradient of what was taken apart is put together once, without zeros to add to.
TEST(Traffic, GradientsOfPartsAreJoinedOnce) {
  Tensor x = rand({3, 4, 5}).set_requires_grad();
  const auto gradient_bytes = [&](const auto& parts_of) {
    const Body body = [&](const Tensor& dy) {
      const std::vector<Tensor> parts = parts_of(x);
      return autograd::grad(std::vector<Tensor>{parts[0], parts[1], parts[2]},
                            std::vector<Tensor>{x}, std::vector<Tensor>{dy, dy, dy})[0];
    };
    return bytes(body, rand({4, 5}));
  };
  const Bytes copies(3, 2 * 4 * 5 * 4);
  EXPECT_EQ(gradient_bytes([](const Tensor& t) { return unbind(t); }), copies);
  x = rand({12, 5}).set_requires_grad();
  EXPECT_EQ(gradient_bytes([](const Tensor& t) { return split(t, 4); }), copies);
}

/// Where most parts have no gradient, only those that have one are written.
TEST(Traffic, PartsWithoutAGradientAreZeros) {
  Tensor x = rand({3, 4, 5}).set_requires_grad();
  for (const bool bound : {true, false}) {
    const Body body = [&](const Tensor& dy) {
      const Tensor part = bound ? unbind(x)[2] : split(x, 1)[2];
      return autograd::grad(std::vector<Tensor>{part}, std::vector<Tensor>{x},
                            std::vector<Tensor>{dy})[0];
    };
    EXPECT_EQ(bytes(body, rand(bound ? Shape{4, 5} : Shape{1, 4, 5})), (Bytes{240, 160}));
  }
}

TEST(Traffic, AnOptimizerReadsWhatItUpdates) {
  Tensor weight = rand({3, 5}).set_requires_grad();
  optim::AdamW optimizer({weight}, {});
  const Body step = [&](const Tensor& t) {
    optimizer.zero_grad();
    const Tensor loss = sum(t * weight);
    loss.backward();
    optimizer.step();
    return loss;
  };
  const Tensor x = rand({3, 5});
  step(x);
  EXPECT_EQ(bytes(step, x).back(), (1 + 2 * 3) * 60) << "gradient; parameter, mean, mean square";
}

/// Launches of a thread, by name.
class Launches final : public diag::SpanListener {
 public:
  Launches() { diag::active_meter = &meter_; }
  ~Launches() override { diag::active_meter = before_; }
  void opened(const char* name, diag::Cause cause, uint64_t) override {
    if (cause == diag::Cause::compute && depth_++ == 0) ++counts[name];
  }
  void closed(const char*, diag::Cause cause, uint64_t, uint64_t, diag::Cause) override {
    if (cause == diag::Cause::compute) --depth_;
  }
  std::map<std::string, int> counts;

 private:
  diag::Meter* before_ = diag::active_meter;
  diag::Meter meter_{.listener = this};
  int depth_ = 0;
};

/// Launches of one more step, as they run.
int launches_of(const Body& step, const Tensor& x, const char* counted = nullptr) {
  Launches listener;
  step(x);
  int all = 0;
  for (const auto& [name, count] : listener.counts)
    if (!counted || name == counted) all += count;
  return all;
}

TEST(Traffic, EagerAttentionLaunchesWhatIsCounted) {
  Tensor weight = rand({24, 8}).set_requires_grad();
  optim::SGD optimizer({weight}, {.lr = 0.1});
  const Body step = [&](const Tensor& x) {  // (N, T, C), two heads
    optimizer.zero_grad();
    const std::vector<Tensor> heads =
        unbind(linear(x, weight).view({2, 3, 3, 2, 4}).permute({2, 0, 3, 1, 4}));
    const Tensor p = softmax(matmul(heads[0], heads[1].transpose(-1, -2)) * 0.5, -1);
    const Tensor y = matmul(dropout(p, 0.1), heads[2]).transpose(1, 2).reshape({2, 3, 8});
    const Tensor loss = mean(square(x + y));
    loss.backward();
    optimizer.step();
    return loss;
  };
  const Tensor x = rand({2, 3, 8});
  step(x);
  const int launches = launches_of(step, x);
  EXPECT_EQ(eager_traffic(step_of(step), {&x, 1}).launches, launches);
}

/// A linear layer's gradients are one launch eagerly, and three that passes fuse in a plan.
TEST(Traffic, EagerStepsLaunchWhatIsCounted) {
  nn::Sequential net;
  net.push<nn::LayerNorm>({.shape = {6}})
      .push<nn::Linear>({.in = 6, .out = 8})
      .push<nn::GELU>()
      .push<nn::Linear>({.in = 8, .out = 6});
  optim::AdamW optimizer(net.named_parameters(), {});
  const Tensor x = rand({4, 6}), y = randint(0, 6, {4});
  const Body step = [&](const Tensor& in) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(in + net(in), y);
    loss.backward();
    optimizer.step();
    return loss;
  };
  step(x);
  const int launches = launches_of(step, x);
  EXPECT_EQ(launches_of(step, x, "linear_grad"), 2);
  const Traffic eager = eager_traffic(step_of(step), {&x, 1});
  EXPECT_EQ(eager.launches, launches);

  auto compiled = compile(Body(step));
  compiled(x);
  const CompileStats stats = compiled.stats();
  EXPECT_EQ(stats.recorded_launches, launches + 2 * 2);
  EXPECT_GT(stats.recorded_operand_bytes, eager.bytes) << "dy is read three times";
  EXPECT_LT(stats.operand_bytes, eager.bytes);
  const std::string told = compiled.explain();
  const std::string line = "launches: " + std::to_string(stats.launches) + " instead of " +
                           std::to_string(stats.recorded_launches) + ", ";
  EXPECT_NE(told.find(line), std::string::npos) << told;
}

}  // namespace
}  // namespace brim::plan
