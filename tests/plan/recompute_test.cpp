// recompute makes results of normalisations twice where that lowers the peak, and changes no bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include <brim/brim.h>

#include "backend/options/norm_params.h"
#include "plan/fit_model.h"
#include "plan/fit_rewriting.h"
#include "plan/memory.h"
#include "plan/pass.h"
#include "plan/recorder.h"

namespace brim {
namespace {

/// Convolutions, each normalised: what lies between them is kept for the backward pass.
struct DeepNet {
  explicit DeepNet(int64_t size) : x(randn({8, 16, size, size})) {
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
  std::vector<Tensor> run(const char* passes, CompileStats* stats, std::string* explain,
                          DType precision = f32) {
    const std::function<Tensor(const Tensor&)> body = [&](const Tensor& input) {
      for (Tensor& t : leaves()) t.zero_grad();
      Tensor loss;
      {
        const Autocast scope(precision);
        Tensor y = input;
        for (size_t i = 0; i < conv.size(); ++i)
          y = relu(batch_norm(conv2d(y, conv[i], {}, {.padding = 1}), scale[i], {}, {}, {},
                              {.training = true}));
        loss = mean(square(y));
      }
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

void expect_lower_peak(int64_t size, DType precision) {
  manual_seed(9);
  DeepNet net(size);
  CompileStats with, without;
  std::string explain, other;
  const auto a = net.run("-layout", &with, &explain, precision);
  const auto b = net.run("-layout,-recompute", &without, &other, precision);
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_EQ(max(abs(a[i] - b[i])).item(), 0) << "result " << i << "\n" << explain;
  EXPECT_NE(explain.find("batch_norm_again"), std::string::npos) << explain;
  EXPECT_LT(with.arena_bytes, without.arena_bytes);
}

TEST(Recompute, LowersThePeakAndChangesNoBit) {
  expect_lower_peak(64, f32);
  expect_lower_peak(80, bf16);  // with weights and statistics of f32
}

TEST(Recompute, LeavesSmallTensorsAlone) {
  manual_seed(9);
  DeepNet net(6);
  CompileStats stats;
  std::string explain;
  (void)net.run("-layout", &stats, &explain);
  EXPECT_EQ(explain.find("batch_norm_again"), std::string::npos) << explain;
}

/// Launches of a step after the passes up to recompute, and what recompute says.
std::string recomputed(const std::function<Tensor(const Tensor&)>& body, const Tensor& x,
                       size_t* before, size_t* after) {
  const plan::Step step = [&](std::span<const Tensor> in) {
    const NoGrad guard;
    return std::vector<Tensor>{body(in[0])};
  };
  plan::Program program = plan::record(step, {&x, 1}, false).program;
  (void)plan::run_pass("batch_norm_relu,batch_norm_relu_grad", program);
  *before = plan_memory(program, true).bytes;
  const size_t launches = program.launches.size();
  const std::string text = plan::recompute(program);
  *after = plan_memory(program, true).bytes;
  EXPECT_EQ(text.empty(), program.launches.size() == launches) << text;
  return text;
}

/// A normalised x of 4 MB, used before and after `between`.
Tensor used_twice(const Tensor& x, const std::function<Tensor()>& between) {
  const Tensor y = relu(batch_norm(x, {}, {}, {}, {}, {.training = true}));
  const Tensor early = sum(y);
  const Tensor other = between();
  const Tensor late = sum(y);
  return early + other + late + sum(x);
}

TEST(Recompute, ResultsInPlaceOfOthersTakeNoMemory) {
  const Tensor x = empty({4, 16, 128, 128}), a = empty({1024, 2}), b = empty({2, 2560});
  size_t before = 0, after = 0;
  const auto body = [&](const Tensor& in) {
    const Tensor wide = matmul(a, b), wide2 = matmul(a, b);  // 20 MB: the peak
    const Tensor most = sum(wide) + sum(wide2);
    return most + used_twice(in, [&] { return sum(exp(matmul(a, b))); });  // 14 MB
  };
  EXPECT_EQ(recomputed(body, x, &before, &after), "");
  EXPECT_EQ(before, after);
}

TEST(Recompute, NotWhereAnotherPeakIsAsHigh) {
  const Tensor x = empty({4, 16, 128, 128}), a = empty({1024, 2}), b = empty({2, 2560});
  size_t before = 0, after = 0;
  int64_t size = 0;
  Tensor small = empty({16});
  const auto body = [&](const Tensor& in) {
    const Tensor first = used_twice(in, [&] { return sum(matmul(a, b)); });
    const Tensor u = empty({size}), v = softmax(u, 0), w = softmax(small, 0);
    return first + sum(u) + sum(v) + sum(w);
  };
  EXPECT_NE(recomputed(body, x, &before, &after), "");
  EXPECT_LT(after, before);
  // Now u and v together are a little smaller than the peak that could be lowered, to larger.
  const auto half = static_cast<int64_t>(before / 2 / sizeof(float));
  for (const int64_t n : {16, 32}) {
    small = empty({n});
    for (size = half - 128; size <= half + 128; size += 16) {
      const std::string text = recomputed(body, x, &before, &after);
      EXPECT_EQ(after < before, !text.empty()) << size << ": " << text;
    }
  }
  EXPECT_EQ(before, after);
}

/// What brim's own kernel makes again it has to make in the first place, as long as it does.
TEST(Recompute, HasBlocksMadeByTheKernelThatCanRepeatThem) {
  manual_seed(9);
  const Tensor weight = (randn({16, 16, 3, 3}) * 0.1).set_requires_grad();
  const Tensor scale = randn({16}).set_requires_grad(), shift = randn({16}).set_requires_grad();
  const Tensor x = randn({4, 16, 32, 32});
  const plan::Step step = [&](std::span<const Tensor> in) {
    Tensor y = in[0];
    for (int i = 0; i < 3; ++i)
      y = relu(batch_norm(conv2d(y, weight, {}, {.padding = 1}), scale, shift, {}, {},
                          {.training = true}) +
               y);
    const Tensor loss = mean(square(y));
    loss.backward();
    return std::vector<Tensor>{loss.detach()};
  };
  plan::Program program = plan::record(step, {&x, 1}, false).program;
  (void)plan::run_pass("batch_norm_relu,batch_norm_relu_grad", program);
  program.may_recompute = true;
  const auto repeatable = [&] {
    return std::ranges::count_if(program.launches, [](const auto& launch) {
      const auto* params = launch->template option<backend::BatchNormParams>();
      return plan::is(*launch, "batch_norm_relu") && params->repeatable;
    });
  };
  const plan::FitModel model(program);
  plan::Solution solution{.choices = {}, .schedule = {}};
  for (const plan::Activation& a : model.problem().activations)
    solution.choices.push_back(a.recompute != plan::kImpossible && !a.made_of.empty() &&
                                       a.first_after > a.last_before + 1
                                   ? plan::Choice::recompute
                                   : plan::Choice::keep);
  solution.schedule = plan::schedule(model.problem(), solution.choices);
  EXPECT_EQ(repeatable(), 0);
  plan::FitRewriting rewriting(program, model, solution);
  EXPECT_GE(repeatable(), 2);
  rewriting.take_back();
  EXPECT_EQ(repeatable(), 0);
}

}  // namespace
}  // namespace brim
