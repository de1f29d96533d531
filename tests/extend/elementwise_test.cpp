// Elementwise ops of users' formulas: on every device, with gradients, in compiled steps.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include <brim/brim.h>

#include "backend/cpu/elementwise/own_formula.h"
#include "extend/formula_ops.h"
#include "message_of.h"
#include "own_op/own_ops.h"

namespace brim::tests {
namespace {

double error_of(const Tensor& got, const Tensor& want) {
  if (got.numel() == 0) return 0;
  const Tensor wide = got.to(Device::cpu()).to(f64);
  return max(abs(wide - want.to(Device::cpu()).to(f64))).item();
}

class OwnElementwise : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!device.available()) GTEST_SKIP() << device.str() << " is not here";
  }
  Device device{GetParam()};
};

TEST_P(OwnElementwise, ComputesEveryDTypeAndLayout) {
  const Tensor x = randn({5, 3, 7});
  for (const DType dtype : {f32, f64, f16, bf16}) {
    const double tolerance = dtype == f64   ? 1e-14
                             : dtype == f32 ? 1e-6
                             : dtype == f16 ? 2e-3
                                            : 2e-2;
    const Tensor t = x.to(dtype).to(device);
    for (const Tensor& v :
         {t, t.transpose(0, 2), t.slice(1, 0, 3, 2), t.select(2, 1).expand({2, 5, 3}),
          t.slice(0, 0, 0), t.select(0, 1).select(0, 1).select(0, 1)}) {
      const Tensor wide = v.to(Device::cpu()).to(f64);
      const Tensor y = own::softsign(v);
      EXPECT_EQ(y.dtype(), dtype);
      EXPECT_EQ(y.shape(), v.shape());
      EXPECT_LE(error_of(y, wide / (abs(wide) + 1)), tolerance) << name(dtype) << v.shape().str();
      EXPECT_LE(error_of(swish(v, 2), wide * sigmoid(wide * 2)), 2 * tolerance) << name(dtype);
    }
  }
}

TEST_P(OwnElementwise, BroadcastsTwoInputs) {
  const Tensor a = randn({4, 1, 6}, {.dtype = f64, .device = device});
  const Tensor b = randn({5, 1}, {.dtype = f64, .device = device});
  const Tensor y = logaddexp(a, b);
  EXPECT_EQ(y.shape(), Shape({4, 5, 6}));
  EXPECT_LE(error_of(y, log(exp(a) + exp(b))), 1e-13);
}

TEST_P(OwnElementwise, LargeTensorsAreSplitOverThreads) {
  const Tensor x = randn({300001}, {.device = device});
  EXPECT_LE(error_of(own::softsign(x), x / (abs(x) + 1)), 1e-6);
}

TEST_P(OwnElementwise, GradientsFollowFromTheFormula) {
  const TensorOptions leaf{.dtype = f64, .device = device, .requires_grad = true};
  const Tensor x = randn({3, 4}, leaf);
  autograd::gradcheck([](const auto& in) { return std::vector{own::softsign(in[0])}; }, {x},
                      {.second_order = true});
  autograd::gradcheck([](const auto& in) { return std::vector{swish(in[0], 1.5)}; }, {x},
                      {.second_order = true});
  autograd::gradcheck([](const auto& in) { return std::vector{logaddexp(in[0], in[1])}; },
                      {x, randn({4}, leaf)}, {.second_order = true});
}

TEST_P(OwnElementwise, CompiledStepsAreTheEagerOnes) {
  const auto body = [](const Tensor& x) {
    const Tensor y = own::softsign(x * 2) + swish(x, 0.5);
    return y * logaddexp(x, y);
  };
  const Tensor x = randn({33, 7}, {.device = device});
  auto step = compile(body);
  for (int i = 0; i < 3; ++i) EXPECT_LE(error_of(step(x), body(x)), 1e-6) << step.explain();
}

TEST_P(OwnElementwise, CompiledTrainingIsTheEagerOne) {
  const auto weights_after = [&](bool compiled) {
    manual_seed(3);
    Tensor w = randn({6}, {.device = device, .requires_grad = true});
    optim::SGD optimizer({{"w", w}}, {.lr = 0.1});
    const std::function<Tensor(const Tensor&)> body = [&](const Tensor& x) {
      optimizer.zero_grad();
      const Tensor loss = mean(swish(logaddexp(x, w), 2));
      loss.backward();
      optimizer.step();
      return loss;
    };
    auto step = compile(body);
    for (int i = 0; i < 4; ++i) {
      const Tensor x = randn({5, 6}, {.device = device});
      compiled ? step(x) : body(x);
    }
    return w.detach();
  };
  EXPECT_LE(error_of(weights_after(true), weights_after(false)), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Cpu, OwnElementwise, testing::Values("cpu", "sim:0"));

TEST(OwnElementwiseOnCpu, AreFusedWithTheirNeighbours) {
  auto step = compile([](const Tensor& x) { return own::softsign(relu(x) + 1) * x; });
  (void)step(randn({64}));
  EXPECT_EQ(step.stats().recorded_launches, 4);
  EXPECT_EQ(step.stats().launches, 1) << step.explain();
}

TEST(OwnElementwiseOnCpu, LaunchesDifferByTheFormulasNumbers) {
  const auto body = [](const Tensor& x) { return swish(x, 1) + swish(x, 1) * swish(x, 2); };
  auto step = compile(body, {.passes = "common_subexpressions"});
  const Tensor x = randn({8});
  EXPECT_EQ(error_of(step(x), body(x)), 0);
  EXPECT_EQ(step.stats().recorded_launches, 5);
  EXPECT_EQ(step.stats().launches, 4) << step.explain();
}

TEST(OwnElementwiseOnCpu, AGradientOfOnesOwnIsTaken) {
  for (const bool recorded : {false, true}) {
    const Tensor x = Tensor::from<float>({-1, 2}, {2}).set_requires_grad();
    const Tensor y[] = {sum(guided_relu(x))};
    const std::vector<Tensor> dx = autograd::grad(y, {&x, 1}, {}, {.create_graph = recorded});
    EXPECT_EQ(dx[0].to_vector<float>(), (std::vector<float>{0, 3})) << recorded;
  }
}

TEST(OwnElementwiseOnCpu, HaveTwoDerivatives) {
  const Tensor x = full({}, 0.5, {.dtype = f64}).set_requires_grad();
  Tensor y = own::softsign(x);
  for (int i = 0; i < 2; ++i) y = autograd::grad({&y, 1}, {&x, 1}, {}, {.create_graph = true})[0];
  EXPECT_NEAR(y.item(), -2 / std::pow(1.5, 3), 1e-14);
  EXPECT_NE(message_of<AutogradError>([&] { y.backward(); }).find("first and second derivatives"),
            std::string::npos);
}

TEST(OwnElementwiseOnCpu, TakePartInAutocast) {
  const Tensor x = randn({4}), narrow = x.to(bf16);
  const Autocast scope(bf16);
  EXPECT_EQ(own::softsign(narrow).dtype(), bf16);
  EXPECT_EQ(logaddexp(x, narrow).dtype(), f32);
}

TEST(OwnElementwiseOnCpu, ErrorsNameTheOp) {
  const std::string integers =
      message_of<DTypeError>([] { (void)own::softsign(zeros({2}, {.dtype = i32})); });
  EXPECT_NE(integers.find("[softsign] needs a floating dtype, got i32"), std::string::npos);
  EXPECT_NE(message_of<DTypeError>([] {
              (void)logaddexp(zeros({2}), zeros({2}, {.dtype = f64}));
            }).find("[test_logaddexp] dtypes f32 and f64 differ"),
            std::string::npos);
  const Tensor x = full({2}, std::nan(""));
  const AnomalyMode anomaly;
  const std::string nan = message_of<AutogradError>([&] { (void)own::softsign(x); });
  EXPECT_NE(nan.find("softsign made the first NaN"), std::string::npos) << nan;
}

/// Its members leave a gap.
struct Gap : extend::Formula {
  static constexpr const char* kName = "test_gap";
  float lo = 0;
  double hi = 1;
  template <class T>
  BRIM_FORMULA T operator()(T x) const {
    return x < T(lo) ? T(lo) : x > T(hi) ? T(hi) : x;
  }
};

TEST(OwnElementwiseOnCpu, GapsBetweenMembersAreNotCompared) {
  const auto params = [](unsigned char before) {
    Gap gap;
    std::memset(static_cast<void*>(&gap), before, sizeof(gap));
    gap.lo = -2;
    gap.hi = 2;
    return extend::params_of(gap);
  };
  EXPECT_EQ(params(0), params(0xff));
  EXPECT_EQ(extend::formula_of<Gap>(params(0xff)).lo, -2);
  EXPECT_EQ(extend::formula_of<Gap>(params(0xff)).hi, 2);
  const Tensor x = Tensor::from<float>({-3, 3}, {2});
  EXPECT_EQ(extend::elementwise(Gap{.lo = -2, .hi = 2}, x).to_vector<float>(),
            (std::vector<float>{-2, 2}));
}

struct Sine : extend::Formula {
  static constexpr const char* kName = "test_sine";
  template <class T>
  BRIM_FORMULA T operator()(T x) const {
    return sin(x);
  }
};
struct Cosine : extend::Formula {
  static constexpr const char* kName = "test_cosine";
  template <class T>
  BRIM_FORMULA T operator()(T x) const {
    return cos(x);
  }
};

TEST(OwnElementwiseOnCpu, SinAndCosOfLargeNumbers) {
  std::vector<float> values;
  for (int i = 0; i < 37; ++i)  // more than a vector, and a rest
    values.push_back(i % 3 == 0 ? 1e9f + 64.0f * float(i) : i % 3 == 1 ? -1e10f : float(i));
  for (const size_t n : {size_t{1}, values.size()}) {
    const Tensor x = Tensor::from<float>(std::span(values).first(n), {int64_t(n)});
    const Tensor leaf = x.clone().set_requires_grad();
    sum(extend::elementwise(Sine{}, leaf)).backward();
    const std::vector<float> s = extend::elementwise(Sine{}, x).to_vector<float>();
    const std::vector<float> c = extend::elementwise(Cosine{}, x).to_vector<float>();
    const std::vector<float> slope = leaf.grad().to_vector<float>();
    for (size_t i = 0; i < n; ++i) {
      EXPECT_NEAR(s[i], std::sin(double(values[i])), 2e-7) << values[i];
      EXPECT_NEAR(c[i], std::cos(double(values[i])), 2e-7) << values[i];
      EXPECT_NEAR(slope[i], std::cos(double(values[i])), 2e-7) << values[i];
    }
  }
}

template <int kExponent>
struct Power : extend::Formula {
  static constexpr const char* kName = kExponent == 0   ? "test_power_0"
                                       : kExponent == 1 ? "test_power_1"
                                                        : "test_power_2";
  template <class T>
  BRIM_FORMULA T operator()(T x) const {
    return pow(x, kExponent);
  }
};
template <int kExponent>
std::vector<double> slopes_at_zero() {
  const Tensor x = zeros({}, {.dtype = f64}).set_requires_grad();
  Tensor y = extend::elementwise(Power<kExponent>{}, x);
  std::vector<double> slopes;
  for (int i = 0; i < 2; ++i) {
    y = autograd::grad({&y, 1}, {&x, 1}, {}, {.create_graph = true})[0];
    slopes.push_back(y.item());
  }
  return slopes;
}

TEST(OwnElementwiseOnCpu, PowersHaveDerivativesAtZero) {
  EXPECT_EQ(slopes_at_zero<0>(), (std::vector<double>{0, 0}));
  EXPECT_EQ(slopes_at_zero<1>(), (std::vector<double>{1, 0}));
  EXPECT_EQ(slopes_at_zero<2>(), (std::vector<double>{0, 2}));
}

struct SineGrad : Cosine {
  static constexpr const char* kName = "test_sine_grad";
};
struct SineSlope : Cosine {
  static constexpr const char* kName = "test_sine_slope0";
};

TEST(OwnElementwiseOnCpu, NamesOfDerivativesMeetNoOther) {
  for (const bool recorded : {false, true}) {
    const Tensor x = zeros({2}).set_requires_grad();
    (void)extend::elementwise(SineGrad{}, x);
    (void)extend::elementwise(SineSlope{}, x);
    const Tensor y[] = {sum(extend::elementwise(Sine{}, x))};
    EXPECT_EQ(autograd::grad(y, {&x, 1}, {}, {.create_graph = recorded})[0].to_vector<float>(),
              std::vector<float>(2, 1));
  }
}

TEST(OwnElementwiseOnCpu, EveryKindOfAvx512HasItsLoop) {
  for (const char* const isa : {"avx512", "avx3", "avx3_dl", "avx3_zen4", "avx3_spr", "avx10_2"})
    EXPECT_EQ(cpu::level_of(isa), extend::CpuLevel::avx512) << isa;
  EXPECT_EQ(cpu::level_of("avx2"), extend::CpuLevel::avx2);
  for (const char* const isa : {"sse4", "sse2", "scalar", "neon"})
    EXPECT_EQ(cpu::level_of(isa), extend::CpuLevel::baseline) << isa;
}

struct Taken : extend::Formula {
  static constexpr const char* kName = "relu";
  template <class T>
  BRIM_FORMULA T operator()(T x) const {
    return x;
  }
};

TEST(OwnElementwiseOnCpu, ANameThatIsTakenIsRefused) {
  const Tensor x = Tensor::from<float>({-1}, {1});
  const std::string message = message_of([&] { (void)extend::elementwise(Taken{}, x); });
  EXPECT_NE(message.find("'relu' has a kernel for cpu and f32 already"), std::string::npos)
      << message;
  EXPECT_EQ(relu(x).item(), 0);
}

TEST(OwnElementwiseOnCpu, AreInTheAccount) {
  const Tensor x = randn({100000});
  const diag::Accountant accountant;
  for (int i = 0; i < 10; ++i) (void)own::softsign(x);
  const diag::Account a = accountant.read();  // on a busy machine all of it may count as stolen
  EXPECT_GT(a.fraction(diag::Cause::compute) + a.fraction(diag::Cause::stolen), 0);
}

}  // namespace
}  // namespace brim::tests
