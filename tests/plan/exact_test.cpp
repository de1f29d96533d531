// What each pass says of its numbers: exact, or so many units in the last place.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include <brim/brim.h>

#include "environment.h"
#include "plan/layout.h"
#include "plan/pass.h"
#include "temporary_folder.h"

namespace brim::plan {
namespace {

using Results = std::vector<Tensor>;
using Body = std::function<Results(const Tensor&)>;

Tensor leaf(const Shape& shape) { return (randn(shape) * 0.2).set_requires_grad(); }

/// A loss, what it is made of, and the gradients of the leaves.
Results with_gradients(const Tensor& loss, const Tensor& y, const Results& leaves) {
  Results all = autograd::grad(std::vector<Tensor>{loss}, leaves);
  all.push_back(loss.detach());
  all.push_back(y.detach());
  return all;
}

/// The largest distance in f32 units in the last place of the largest element.
double ulps(const Results& got, const Results& want) {
  double most = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double unit = max(abs(want[i])).item() * std::numeric_limits<float>::epsilon();
    most = std::max(most, max(abs(got[i].to(f64) - want[i].to(f64))).item() / unit);
  }
  return most;
}

/// Where a pass that is not exact has something to do.
struct Work {
  const char* pass;
  Shape x;
  Body body;
  std::optional<MemoryFormat> format = {};  // that `layout` has to choose
};

std::vector<Work> works() {
  const Tensor images = leaf({6, 3, 5, 5}), shift = leaf({6}), heavy = leaf({64, 32, 3, 3});
  const Tensor labels = randint(0, 10, {64}, {.dtype = i64}), logits = leaf({64, 10});
  const Body convolution = [=](const Tensor& x) {
    const Tensor y = relu(conv2d(x, heavy, {}, {.padding = 1}));
    return with_gradients(mean(square(y)), y, {heavy});
  };
  return {{"softmax_cross_entropy",
           {64, 10},
           [=](const Tensor& x) {
             const Tensor y = x * logits;
             return with_gradients(cross_entropy(y, labels), y, {logits});
           }},
          {"conv2d_relu_pool",
           {8, 3, 32, 32},
           [=](const Tensor& x) {
             const Tensor y = max_pool2d(relu(conv2d(x, images, shift)), 2);
             return with_gradients(mean(square(y)), y, {images, shift});
           }},
          {"conv2d_relu", {8, 32, 32, 32}, convolution},
          {"elide_copies",
           {40, 64},
           [=](const Tensor& x) {
             const Tensor y = matmul(x, logits).t().contiguous();
             return with_gradients(mean(square(y)), y, {logits});
           }},
          {"layout", {8, 32, 32, 32}, convolution, MemoryFormat::nhwc},
          {"layout", {8, 32, 32, 32}, convolution, MemoryFormat::chwn}};
}

TEST(ExactPasses, TheOthersStayWithinWhatTheySay) {
  const tests::TemporaryFolder folder;  // of measured layouts
  const tests::Environment cache("XDG_CACHE_HOME", folder.path());
  for (int seed = 0; seed < 5; ++seed) {
    manual_seed(static_cast<uint64_t>(seed));
    for (const Work& work : works()) {
      forced_layout = work.format;
      const Tensor x = randn(work.x);
      const Results eager = work.body(x);
      auto step = compile(Body(work.body), {.passes = std::string("exact,") + work.pass});
      for (const Pass& pass : all_passes())
        if (work.pass == std::string_view(pass.name)) {
          EXPECT_GT(pass.ulp, 0) << work.pass;
          EXPECT_LE(ulps(step(x), eager), pass.ulp) << work.pass << "\n" << step.explain();
        }
      auto exact = compile(Body(work.body), {.passes = kExactPasses});
      EXPECT_EQ(ulps(exact(x), eager), 0) << work.pass << "\n" << exact.explain();
    }
  }
  forced_layout.reset();
}

/// The weight of a linear layer after two steps.
Tensor trained_weight(const Tensor& x, const Tensor& dy, const Tensor& first, bool compiled) {
  const Tensor w = first.clone().set_requires_grad();
  optim::SGD optimizer(std::vector<Tensor>{w}, {.lr = 0.01, .momentum = 0.9});
  auto step = [&](const Tensor& batch) {
    optimizer.zero_grad();
    const Tensor loss = sum(linear(batch, w) * dy);
    loss.backward();
    optimizer.step();
    return loss;
  };
  auto plan = compile(step, {.passes = "exact"});
  for (int i = 0; i < 2; ++i) compiled ? plan(x) : step(x);
  return w.detach();
}

TEST(ExactPasses, SumGradientsOfLinearLayersAlike) {
  manual_seed(7);
  for (const DType dtype : {f32, f64})
    for (const int64_t batch : {20, 200, 300})
      for (const int64_t inputs : {32, 64, 512})
        for (const int64_t outputs : {24, 64, 256}) {
          const Tensor x = randn({batch, inputs}).to(dtype), dy = randn({batch, outputs}).to(dtype);
          const Tensor w = randn({outputs, inputs}).to(dtype);
          EXPECT_EQ(
              max(abs(trained_weight(x, dy, w, true) - trained_weight(x, dy, w, false))).item(), 0)
              << name(dtype) << ", " << batch << " x " << inputs << " x " << outputs;
        }
}

/// Rows of 16 bits have a kernel of their own, and ends that are no vector.
TEST(ExactPasses, KeepLayerNormsOf16Bits) {
  manual_seed(3);
  for (const DType dtype : {f16, bf16})
    for (const int64_t n : {17, 31, 48, 63, 1000}) {
      const Tensor x = randn({500, n}, {.dtype = dtype}), r = randn({500, n}, {.dtype = dtype});
      const Tensor w = randn({n}, {.dtype = dtype}), b = randn({n}, {.dtype = dtype});
      const auto body = [&](const Tensor& in) { return layer_norm(in + r, {n}, w, b); };
      auto step = compile(body, {.passes = "exact"});
      EXPECT_EQ(max(abs(step(x) - body(x))).item(), 0) << n << " " << name(dtype);
    }
}

TEST(ExactPasses, AreAGroupAmongTheNames) {
  const PassSelection exact(kExactPasses), more("exact,softmax_cross_entropy"), others("-exact");
  EXPECT_TRUE(exact.contains(kMemoryPass));
  EXPECT_FALSE(others.contains(kMemoryPass));
  for (const Pass& pass : all_passes()) {
    EXPECT_EQ(exact.contains(pass.name), pass.ulp == 0) << pass.name;
    EXPECT_EQ(others.contains(pass.name), pass.ulp != 0 && !pass.only_if_named) << pass.name;
  }
  EXPECT_TRUE(more.contains("softmax_cross_entropy"));
  EXPECT_FALSE(more.contains("layout"));
}

TEST(ExactPasses, ExplanationsTell) {
  const Tensor logits = leaf({4, 10}), labels = zeros({4}, {.dtype = i64});
  const Body body = [&](const Tensor& x) {
    const Tensor y = x * logits;
    return with_gradients(cross_entropy(y, labels), y, {logits});
  };
  for (const auto& [passes, expected] :
       {std::pair("exact", "bit for bit those of the eager step"),
        std::pair("", "within 2 ulp of the eager ops' (softmax_cross_entropy)")}) {
    auto step = compile(Body(body), {.passes = passes});
    step(ones({4, 10}));
    EXPECT_NE(step.explain().find(expected), std::string::npos) << step.explain();
  }
}

}  // namespace
}  // namespace brim::plan
