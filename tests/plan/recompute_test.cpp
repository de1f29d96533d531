// recompute makes results of normalisations twice where that lowers the peak, and changes no bit.
#include <gtest/gtest.h>

#include <functional>

#include <brim/brim.h>

namespace brim {
namespace {

/// Convolutions, each normalised: what lies between them is kept for the backward pass.
struct Net {
  explicit Net(int64_t size) : x(randn({8, 16, size, size})) {
    for (int i = 0; i < 4; ++i) {
      conv.push_back((randn({16, 16, 3, 3}) * 0.1).set_requires_grad());
      scale.push_back(randn({16}).set_requires_grad());
    }
  }
  std::vector<Tensor> leaves() const {
    std::vector<Tensor> all = conv;
    all.insert(all.end(), scale.begin(), scale.end());
    return all;
  }
  std::vector<Tensor> run(const char* passes, CompileStats* stats, std::string* explain) {
    const std::function<Tensor(const Tensor&)> body = [&](const Tensor& input) {
      for (Tensor& t : leaves()) t.zero_grad();
      Tensor y = input;
      for (size_t i = 0; i < conv.size(); ++i)
        y = relu(batch_norm(conv2d(y, conv[i], {}, {.padding = 1}), scale[i], {}, {}, {},
                            {.training = true}));
      const Tensor loss = mean(square(y));
      loss.backward();
      return loss.detach();
    };
    auto step = compile(body, {.passes = passes, .keep_gradients = true});
    std::vector<Tensor> all{step(x).clone()};
    for (const Tensor& t : leaves()) all.push_back(t.grad().clone());
    *stats = step.stats();
    *explain = step.explain();
    return all;
  }
  Tensor x;
  std::vector<Tensor> conv, scale;
};

TEST(Recompute, LowersThePeakAndChangesNoBit) {
  manual_seed(9);
  Net net(64);
  CompileStats with, without;
  std::string explain, other;
  const auto a = net.run("-layout", &with, &explain);
  const auto b = net.run("-layout,-recompute", &without, &other);
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_EQ(max(abs(a[i] - b[i])).item(), 0) << "result " << i << "\n" << explain;
  EXPECT_NE(explain.find("batch_norm_relu_again"), std::string::npos) << explain;
  EXPECT_LT(with.arena_bytes, without.arena_bytes);
}

TEST(Recompute, LeavesSmallTensorsAlone) {
  manual_seed(9);
  Net net(6);
  CompileStats stats;
  std::string explain;
  (void)net.run("-layout", &stats, &explain);
  EXPECT_EQ(explain.find("batch_norm_relu_again"), std::string::npos) << explain;
}

}  // namespace
}  // namespace brim
