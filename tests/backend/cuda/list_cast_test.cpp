// Casts of many tensors in one launch, and the pass of plans that joins them.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <brim/brim.h>

#include "any_bits.h"
#include "backend/fused/list_cast.h"

namespace brim {
namespace {

/// Skipped where no CUDA device (nor its emulation) is.
class CudaListCast : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Device::count(DeviceKind::cuda) == 0) GTEST_SKIP() << "no CUDA device";
    manual_seed(1);
  }
  const Device cuda = Device(DeviceKind::cuda, 0);
};

TEST_F(CudaListCast, IsWhatCopiesAre) {
  const backend::ListCastKernel kernel("list_cast");
  for (const DType from : {f32, f64, f16, bf16})
    for (const DType to : {f32, f64, f16, bf16}) {
      if (from == to) continue;
      std::vector<Tensor> x, y, want;
      const auto add = [&](const Tensor& t, MemoryFormat format = MemoryFormat::nchw) {
        x.push_back(t);
        want.push_back(t.to(Device::cpu()).to(to));
        Tensor target = empty(t.shape(), {.dtype = to, .device = cuda});
        y.push_back(t.rank() == 4 ? target.to(format) : target);
      };
      const auto drawn = [&](const Shape& shape) { return (randn(shape) * 100).to(from).to(cuda); };
      for (const Shape& shape : {Shape{3}, Shape{1025}, Shape{0, 4}, Shape{7, 11}, Shape{}})
        add(drawn(shape));
      add(drawn({5, 6}).t());
      add(drawn({9, 8}).slice(1, 1, 7, 2));
      add(drawn({4, 3, 5, 5}), MemoryFormat::nhwc);
      add(drawn({4, 3, 5, 5}).to(MemoryFormat::nhwc));
      add(drawn({2, 3, 2, 3, 2, 2}).permute({5, 0, 3, 1, 4, 2}));  // a copy of its own
      for (int i = 0; i < 100; ++i) add(drawn({i}));               // more than a table holds
      kernel(cuda, to, x, y);
      for (size_t i = 0; i < y.size(); ++i)
        EXPECT_EQ(tests::bytes_of(y[i].to(Device::cpu()).contiguous()),
                  tests::bytes_of(want[i].contiguous()))
            << name(from) << " to " << name(to) << ", tensor " << i;
    }
}

/// A network of several layers under Autocast, and what its plan does.
struct Half {
  explicit Half(Device device) {
    manual_seed(3);
    for (int i = 0; i < 3; ++i) {
      net.push<nn::Conv2d>({.in = 4, .out = 4, .kernel = 3, .padding = 1});
      net.push<nn::ReLU>();
    }
    net.push<nn::Flatten>();
    net.push<nn::Linear>({.in = 4 * 36, .out = 5});
    net.to(device);
    optimizer.emplace(net.named_parameters(), optim::SGD::Options{.lr = 0.1});
  }
  Tensor step(const Tensor& x, const Tensor& y) {
    optimizer->zero_grad();
    Tensor loss;
    {
      const Autocast scope(bf16);
      loss = cross_entropy(net(x), y);
    }
    loss.backward();
    optimizer->step();
    return loss;
  }
  nn::Sequential net;
  std::optional<optim::SGD> optimizer;
};

int count(const std::string& explain, const std::string& launch) {
  int n = 0;
  for (size_t at = 0; (at = explain.find(" " + launch + " ", at)) != std::string::npos; ++at) ++n;
  return n;
}

TEST_F(CudaListCast, JoinsTheCastsOfAStep) {
  const Tensor x = randn({2, 4, 6, 6}).to(cuda), y = randint(0, 5, {2}).to(cuda);
  std::vector<Tensor> weights[2];
  int casts[2] = {}, lists[2] = {};
  for (const bool joined : {false, true}) {
    Half half(cuda);
    auto step = compile([&](const Tensor& a, const Tensor& b) { return half.step(a, b); },
                        {.passes = joined ? "" : "-batch_casts"});
    for (int i = 0; i < 4; ++i) (void)step(x, y);
    casts[joined] = count(step.explain(), "copy");
    lists[joined] = count(step.explain(), "list_cast");
    for (const Tensor& p : half.net.parameters())
      weights[joined].push_back(p.detach().to(Device::cpu()));
  }
  EXPECT_EQ(lists[0], 0);
  EXPECT_GE(casts[0], 16) << "weights and biases of four layers, and their gradients";
  EXPECT_EQ(lists[1], 2) << "the weights', and their gradients'";
  EXPECT_LE(casts[1], casts[0] - 14);
  for (size_t i = 0; i < weights[0].size(); ++i)
    EXPECT_EQ(tests::bytes_of(weights[0][i]), tests::bytes_of(weights[1][i])) << "parameter " << i;
}

}  // namespace
}  // namespace brim
