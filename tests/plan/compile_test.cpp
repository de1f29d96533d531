// Compiled steps: they do what the eager step does, notice what a plan cannot repeat, and cost
// neither allocations nor locks.
#include <brim/plan/compile.h>

#include <gtest/gtest.h>

#include <cmath>

#include <brim/autograd/autograd.h>
#include <brim/brim.h>

#include "distance.h"
#include "message_of.h"

namespace brim {
namespace {

using tests::distance;
using tests::message_of;

/// A small network with its optimizer, and a step over both.
struct Training {
  explicit Training(double momentum = 0.9, Device device = {}) : device(device) {
    manual_seed(7);
    net.add<nn::Linear>("fc1", {.in = 12, .out = 9});
    net.add<nn::ReLU>("relu");
    net.add<nn::Linear>("fc2", {.in = 9, .out = 4});
    net.to(device);
    optimizer.emplace(net.named_parameters(), optim::SGD::Options{.lr = 0.1, .momentum = momentum});
  }
  Tensor step(const Tensor& x, const Tensor& y) {
    optimizer->zero_grad();
    Tensor loss = cross_entropy(net(x), y);
    loss.backward();
    optimizer->step();
    return loss;
  }
  auto compiled(CompileOptions options = {}) {
    return compile([this](const Tensor& x, const Tensor& y) { return step(x, y); },
                   std::move(options));
  }
  Tensor weights() {
    std::vector<Tensor> flat;
    for (const Tensor& p : net.parameters()) flat.push_back(p.detach().reshape({-1}));
    return cat(flat, 0);
  }
  Device device;
  nn::Sequential net;
  std::optional<optim::SGD> optimizer;
};

std::pair<Tensor, Tensor> batch(int64_t n, Device device = {}) {
  return {randn({n, 12}, {.device = device}), randint(0, 4, {n}, {.dtype = i64, .device = device})};
}

TEST(Compile, EqualsTheEagerStep) {
  for (const char* name : {"cpu", "sim:0"}) {
    const Device device(name);
    Training eager(0.9, device), compiled(0.9, device);
    auto step = compiled.compiled();
    for (int i = 0; i < 20; ++i) {
      const auto [x, y] = batch(6, device);
      const Tensor a = eager.step(x, y), b = step(x, y);
      EXPECT_NEAR(a.item(), b.item(), 1e-5) << name << " step " << i;
    }
    EXPECT_LT(distance(eager.weights(), compiled.weights()), 1e-5) << name;
    EXPECT_EQ(step.stats().plans, 1);
    EXPECT_EQ(step.stats().replays, 20);
  }
}

TEST(Compile, RecordsWithoutComputing) {
  Training s;
  const Tensor before = s.weights();
  int runs = 0;
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    ++runs;
    return s.step(x, y);
  });
  const auto [x, y] = batch(3);
  step(x, y);
  EXPECT_EQ(runs, 2);  // recorded twice, to see that nothing changes
  Training eager;
  EXPECT_EQ(distance(before, eager.weights()), 0);
  eager.step(x, y);
  EXPECT_LT(distance(s.weights(), eager.weights()), 1e-6) << "one step was done, not two";
  EXPECT_FALSE(s.net.parameters()[0].grad().defined());
}

TEST(Compile, MakesAPlanPerSignature) {
  Training s;
  auto step = s.compiled();
  for (const int64_t n : {4, 7, 4, 7, 1})
    for (int i = 0; i < 2; ++i) {
      const auto [x, y] = batch(n);
      step(x, y);
    }
  EXPECT_EQ(step.stats().plans, 3);
  s.net.eval();
  const auto [x, y] = batch(4);
  step(x, y);
  EXPECT_EQ(step.stats().plans, 4);
  s.net.train();
  step(x, y);
  EXPECT_EQ(step.stats().plans, 4);
}

TEST(Compile, WarnsPastAHandfulOfPlans) {
  Training s;
  std::vector<std::string> lines;
  auto step = s.compiled({.max_plans = 2, .warn = [&](const auto& l) { lines.push_back(l); }});
  for (int64_t n = 1; n <= 5; ++n) {
    const auto [x, y] = batch(n);
    step(x, y);
  }
  EXPECT_EQ(step.stats().plans, 5);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("2 signatures"), std::string::npos);
}

TEST(Compile, LearningRatesAreInputs) {
  Training eager, compiled;
  auto step = compiled.compiled();
  for (int i = 0; i < 6; ++i) {
    const auto [x, y] = batch(5);
    for (Training* s : {&eager, &compiled}) s->optimizer->set_lr(0.1 / (i + 1));
    eager.step(x, y);
    step(x, y);
  }
  EXPECT_LT(distance(eager.weights(), compiled.weights()), 1e-6);
  EXPECT_EQ(step.stats().plans, 1);
}

TEST(Compile, AdamCountsItsSteps) {
  Training eager, compiled;
  optim::Adam a(eager.net.named_parameters(), {.lr = 0.01}),
      b(compiled.net.named_parameters(), {.lr = 0.01});
  const auto run = [](Training& s, optim::Optimizer& o, const Tensor& x, const Tensor& y) {
    o.zero_grad();
    Tensor loss = cross_entropy(s.net(x), y);
    loss.backward();
    o.step();
    return loss;
  };
  auto step = compile([&](const Tensor& x, const Tensor& y) { return run(compiled, b, x, y); });
  for (int i = 0; i < 8; ++i) {
    const auto [x, y] = batch(5);
    run(eager, a, x, y);
    step(x, y);
  }
  EXPECT_LT(distance(eager.weights(), compiled.weights()), 1e-5);
  EXPECT_EQ(b.state_dict().at("state.fc1.weight.step").item<int64_t>(), 8);
}

TEST(Compile, OptimizerStateThatWasLoadedIsNoticed) {
  Training s;
  auto step = s.compiled();
  const auto [x, y] = batch(5);
  step(x, y);
  s.optimizer->load_state_dict(s.optimizer->state_dict());
  Training eager;
  eager.step(x, y);
  eager.step(x, y);
  step(x, y);
  EXPECT_EQ(step.stats().plans, 2);
  EXPECT_LT(distance(s.weights(), eager.weights()), 1e-6);
}

TEST(Compile, AModelThatMovedIsNoticed) {
  Training s;
  auto step = s.compiled();
  const auto [x, y] = batch(5);
  step(x, y);
  s.net.to(f64);
  s.optimizer.emplace(s.net.named_parameters(), optim::SGD::Options{.lr = 0.1});
  const Tensor wide = x.to(f64), before = s.weights();
  step(wide, y);
  EXPECT_GT(distance(s.weights(), before), 0);
  s.net.to("sim:0");
  EXPECT_THROW(step(wide, y), DeviceError);
}

TEST(Compile, DropoutGoesOnDrawing) {
  const auto make = [] { return [](const Tensor& x) { return dropout(x, 0.5, true); }; };
  const Tensor x = ones({64});
  manual_seed(3);
  std::vector<std::vector<float>> eager;
  for (int i = 0; i < 4; ++i) eager.push_back(make()(x).to_vector<float>());
  manual_seed(3);
  auto step = compile(make());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(step(x).to_vector<float>(), eager[static_cast<size_t>(i)]);
  EXPECT_NE(eager[0], eager[1]);
}

TEST(Compile, ErrorsOfKernelsArriveFromAQueueToo) {
  for (const char* name : {"cpu", "sim:0"}) {
    const Device device(name);
    auto step = compile([](const Tensor& x, const Tensor& i) { return index_select(x, 0, i) + 1; });
    const Tensor x = ones({4}, {.device = device});
    const auto at = [&](int64_t i) {
      return full({2}, static_cast<double>(i), {.dtype = i64, .device = device});
    };
    EXPECT_EQ(step(x, at(3)).to_vector<float>(), std::vector<float>(2, 2.0f));
    EXPECT_THROW((void)step(x, at(4)).to_vector<float>(), IndexError) << name;
    EXPECT_EQ(step(x, at(1)).to_vector<float>(), std::vector<float>(2, 2.0f));
  }
}

TEST(Compile, ResultsInSomebodysHandsStay) {
  auto step = compile([](const Tensor& x) { return x * 2; });
  const Tensor a = step(full({3}, 1)), b = step(full({3}, 2));
  EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{2, 2, 2}));
  EXPECT_EQ(b.to_vector<float>(), (std::vector<float>{4, 4, 4}));
}

TEST(Compile, SeveralResultsAndNone) {
  auto pair = compile([](const Tensor& x, const Tensor& y) {
    return std::vector<Tensor>{x + y, x, (x - y).flatten(0).slice(0, 1, 2)};
  });
  for (int i = 1; i < 4; ++i) {
    const std::vector<Tensor> r = pair(full({2}, i), ones({2}));
    EXPECT_EQ(r[0].to_vector<float>(), std::vector<float>(2, static_cast<float>(i + 1)));
    EXPECT_EQ(r[1].to_vector<float>(), std::vector<float>(2, static_cast<float>(i)));
    EXPECT_EQ(r[2].to_vector<float>(), std::vector<float>(1, static_cast<float>(i - 1)));
  }
  Tensor count = zeros({});
  auto none = compile([&] { count.add_(ones({})); });
  for (int i = 0; i < 3; ++i) none();
  EXPECT_EQ(count.item(), 3);
}

TEST(Compile, GradientsStayIfAsked) {
  Training eager, compiled;
  auto step = compiled.compiled({.keep_gradients = true});
  for (int i = 0; i < 3; ++i) {
    const auto [x, y] = batch(5);
    eager.step(x, y);
    step(x, y);
    EXPECT_LT(distance(eager.net.parameters()[0].grad(), compiled.net.parameters()[0].grad()),
              1e-6);
  }
}

TEST(Compile, GradientsThatTheStepDoesNotClearAreSummed) {
  Tensor w = ones({3}).set_requires_grad(), v = ones({3}).set_requires_grad();
  const auto body = [](const Tensor& p, const Tensor& x) {
    const Tensor loss = sum(p * x);
    loss.backward();
    return loss;
  };
  auto step = compile([&](const Tensor& x) { return body(w, x); });
  for (int i = 1; i <= 4; ++i) {
    const Tensor x = full({3}, i);
    step(x);
    body(v, x);
    EXPECT_EQ(w.grad().to_vector<float>(), v.grad().to_vector<float>()) << i;
    if (i == 2) w.zero_grad(), v.zero_grad();
  }
}

TEST(Compile, TensorsLeftBehindAreWritten) {
  Tensor seen;
  auto step = compile([&](const Tensor& x) {
    seen = x + 1;
    return sum(seen);
  });
  for (int i = 0; i < 3; ++i) {
    step(full({2}, i));
    EXPECT_EQ(seen.to_vector<float>(), std::vector<float>(2, static_cast<float>(i + 1)));
  }
}

// NaN is a number like others, though it does not equal itself.
TEST(Compile, NumbersMayBeNan) {
  const Tensor x = Tensor::from<float>({1, -2, 3, 0.5}, {2, 2});
  using Op = std::function<Tensor(const Tensor&)>;
  const std::pair<const char*, Op> ops[] = {
      {"add", [](const Tensor& t) { return t + NAN; }},
      {"mul", [](const Tensor& t) { return t * NAN; }},
      {"div", [](const Tensor& t) { return t / NAN; }},
      {"pow", [](const Tensor& t) { return pow(t, NAN); }},
      {"clamp", [](const Tensor& t) { return clamp(t, NAN, 1); }},
      {"masked_fill", [](const Tensor& t) { return masked_fill(t, t > 0, NAN); }},
      {"compare", [](const Tensor& t) { return (t > NAN).to(f32); }},
      {"full", [](const Tensor& t) { return t + full({2}, NAN); }},
      {"elu", [](const Tensor& t) { return elu(t, NAN); }},
      {"leaky_relu", [](const Tensor& t) { return leaky_relu(t, NAN); }},
      {"pad",
       [](const Tensor& t) {
         return pad(t, {1, 0}, PadMode::constant, NAN);
       }},
      {"var", [](const Tensor& t) { return var(t, {0}, NAN); }},
      {"layer_norm", [](const Tensor& t) { return layer_norm(t, {2}, {}, {}, NAN); }},
      {"batch_norm",
       [](const Tensor& t) {
         return batch_norm(t, {}, {}, {}, {}, {.training = true, .eps = NAN});
       }},
      {"chain", [](const Tensor& t) { return exp(masked_fill(t, t > 0, NAN) * 2 + NAN); }}};
  for (const auto& op : ops) {
    auto step = compile([&](const Tensor& t) { return op.second(t); });
    const std::vector<double> want = op.second(x).to(f64).to_vector<double>(),
                              got = step(x).to(f64).to_vector<double>();
    ASSERT_EQ(got.size(), want.size()) << op.first;
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i])))
          << op.first << " " << got[i] << " for " << want[i];
  }
}

// --- what a plan cannot repeat

TEST(CompileError, NamesWhatCannotBeRecorded) {
  const Tensor x = ones({3});
  Tensor kept = ones({3});
  optim::SGD sgd({kept.set_requires_grad()}, {.lr = 1});
  optim::StepLR schedule(sgd, {.step_size = 1});
  nn::Sequential net;
  const auto says = [&](const auto& f, const char* part) {
    auto step = compile([&](const Tensor& t) {
      f(t);
      return t + 1;
    });
    EXPECT_NE(message_of<CompileError>([&] { step(x); }).find(part), std::string::npos)
        << part << ": " << message_of<CompileError>([&] { step(x); });
  };
  says([](const Tensor& t) { (void)sum(t).item(); }, "host read");
  says([](const Tensor& t) { (void)(t + 1).data<float>(); }, "data");
  says([](const Tensor&) { (void)Tensor::from<float>({1}, {1}); }, "before the step");
  says([](const Tensor& t) { (void)t.to("sim:0"); }, "one device");
  says([](const Tensor& t) { Tensor(t).add_(t); }, "clone()");
  says([](const Tensor& t) { (void)nonzero(t); }, "nonzero inside");
  says([](const Tensor& t) { (void)masked_select(t, t > 0); }, "masked_select inside");
  says([](const Tensor& t) { (void)one_hot(t.to(i64)); }, "one_hot inside");
  says(
      [](const Tensor& t) {
        (void)repeat_interleave(t, std::vector<int64_t>{1, 2, 0});
      },
      "repeat_interleave inside");
  says([](const Tensor& t) { (void)repeat_interleave(t, t.to(i64)); }, "repeat_interleave inside");
  says([&](const Tensor&) { schedule.step(); }, "after the compiled step");
  says([&](const Tensor&) { net.eval(); }, "train()");
  says([](const Tensor&) { manual_seed(1); }, "seed");
  // Nothing of the failed recordings is left.
  EXPECT_EQ((x + 1).to_vector<float>(), std::vector<float>(3, 2.0f));
}

TEST(CompileError, NumbersThatChangeAreNoticed) {
  int calls = 0;
  auto step = compile([&](const Tensor& t) { return t * ++calls; });
  EXPECT_NE(message_of<CompileError>([&] { step(ones({3})); }).find("'mul"), std::string::npos)
      << message_of<CompileError>([&] { step(ones({3})); });
  double zero = 0;
  auto signs = compile([&](const Tensor& t) { return t * (zero = -zero); });
  EXPECT_NE(message_of<CompileError>([&] { signs(ones({3})); }).find("'mul"), std::string::npos);
  bool flip = false;
  auto branch = compile([&](const Tensor& t) {
    flip = !flip;
    return flip ? t + 1 : exp(t);
  });
  EXPECT_NE(message_of<CompileError>([&] { branch(ones({3})); }).find("same twice"),
            std::string::npos);
}

TEST(CompileError, FallsBackIfAsked) {
  std::vector<std::string> lines;
  double read = 0;
  auto step = compile(
      [&](const Tensor& t) {
        read = sum(t).item();
        return t + 1;
      },
      {.fall_back = true, .warn = [&](const auto& l) { lines.push_back(l); }});
  for (int i = 1; i < 4; ++i) {
    EXPECT_EQ(step(full({2}, i)).to_vector<float>(),
              std::vector<float>(2, static_cast<float>(i + 1)));
    EXPECT_EQ(read, 2 * i);
  }
  EXPECT_EQ(lines.size(), 1u);
  EXPECT_EQ(step.stats().eager_steps, 3);
  EXPECT_NE(step.stats().fell_back.find("host read"), std::string::npos);
}

TEST(CompileError, ErrorsOfTheStepArriveAndLeaveNothing) {
  Training s;
  auto step = s.compiled();
  const auto [x, y] = batch(4);
  EXPECT_THROW(step(x.reshape({6, 8}), y), ShapeError);
  const RandomKey key = Generator::global().state();
  auto dropping = compile([](const Tensor& t) { return matmul(dropout(t, 0.5, true), t); });
  EXPECT_THROW(dropping(ones({2, 3})), ShapeError);
  EXPECT_EQ(Generator::global().state(), key);
  EXPECT_FALSE(s.net.parameters()[0].grad().defined());
  step(x, y);
}

TEST(CompileError, UnknownPasses) {
  const auto body = [](const Tensor& x) { return x; };
  EXPECT_THROW(compile(body, {.passes = "-memry"}), ValueError);
  EXPECT_THROW(compile(body, {.passes = "memory,-dead_code"}), ValueError);
}

}  // namespace
}  // namespace brim
