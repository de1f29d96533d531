// The rewriter: what patterns say, what they find, and where launches may be replaced.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <brim/brim.h>
#include <brim/formula/formula.h>

#include "backend/kernel.h"
#include "backend/rewrite.h"
#include "plan/pattern.h"
#include "plan/plan.h"
#include "plan/replace.h"
#include "plan/rewriter.h"

namespace brim::plan {
namespace {

using StepBody = std::function<Tensor(const Tensor&)>;
using LaunchNames = std::vector<std::string>;

Program recorded(const StepBody& body, const Tensor& x) {
  return record([&](std::span<const Tensor> in) { return std::vector<Tensor>{body(in[0])}; },
                {&x, 1}, false)
      .program;
}

LaunchNames names_of(const Program& program) {
  LaunchNames list;
  for (const auto& launch : program.launches) list.emplace_back(launch->name());
  return list;
}

// --- patterns

TEST(Pattern, IsReadLineByLine) {
  const Pattern p = read_pattern(R"(
    @fill(y: ones)
    first = matmul|linear(a: dz.T, x, bias?, y: -)
    ---
    ?sgd[](params: w)
    ~relu(x: z, y)
  )");
  ASSERT_EQ(p.launches.size(), 4u);
  EXPECT_EQ(p.parts, 2u);
  using Kind = PatternLaunch::Kind;
  EXPECT_EQ(p.launches[0].kind, Kind::witness);
  EXPECT_EQ(p.launches[0].operands[0].operand, "y");
  EXPECT_EQ(p.launches[0].operands[0].name, "ones");
  const PatternLaunch& first = p.launches[1];
  EXPECT_EQ(first.label, "first");
  EXPECT_EQ(first.kernels, (LaunchNames{"matmul", "linear"}));
  EXPECT_TRUE(first.operands[0].transposed);
  EXPECT_EQ(first.operands[0].name, "dz");
  EXPECT_EQ(first.operands[1].name, "x");
  EXPECT_TRUE(first.operands[2].may_be_left_out);
  EXPECT_TRUE(first.operands[3].left_out);
  EXPECT_TRUE(p.launches[2].element);
  EXPECT_EQ(p.launches[2].part, 1u);
  EXPECT_EQ(p.launches[3].kind, Kind::bridged);
  EXPECT_EQ(p.launches[3].label, "relu");
}

TEST(Pattern, MistakesAreNamed) {
  const auto error_of = [](const char* text) -> std::string {
    try {
      (void)read_pattern(text);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(error_of("relu x").find("'relu x' is no launch"), std::string::npos);
  EXPECT_NE(error_of("relu(x: Y)").find("'x: Y' in 'relu(x: Y)' is no operand"), std::string::npos);
  EXPECT_NE(error_of("relu(x)\nrelu(y)").find("two launches are called 'relu'"), std::string::npos);
  EXPECT_NE(error_of("?relu(x)").find("no launch is required"), std::string::npos);
}

TEST(Pattern, AllThatAreRegisteredCanBeRead) {
  for (const backend::Rewrite* r : backend::rewrites()) {
    EXPECT_FALSE(r->patterns.empty()) << r->name;
    for (const std::string& text : r->patterns)
      EXPECT_NO_THROW((void)read_pattern(text)) << r->name;
  }
}

// --- what is found

using CopyKernel = backend::Kernel<void(const Context&, const Tensor&, Tensor&)>;

/// -(-x) is a copy of x.
backend::Rewrite no_negation() {
  return {.name = "no_negation",
          .what = "",
          .patterns = {"inner = neg(x, y: m) \n outer = neg(x: m, y)"},
          .build = [](backend::Match& m) {
            Tensor y = m["y"];
            return backend::one(CopyKernel("copy").launch(m.device(), m.dtype(), m["x"], y));
          }};
}

/// The names of what is left, and that the results are the same.
LaunchNames without_negations(const StepBody& body) {
  const Tensor x = randn({3, 4});
  Program program = recorded(body, x);
  (void)apply_rewrite(no_negation(), program);
  return names_of(program);
}

TEST(Rewriter, ReplacesWhatItFinds) {
  EXPECT_EQ(without_negations([](const Tensor& x) { return exp(neg(neg(x))); }),
            (LaunchNames{"copy", "exp"}));
  EXPECT_EQ(without_negations([](const Tensor& x) { return neg(neg(neg(neg(neg(x))))); }),
            (LaunchNames{"copy", "copy", "neg"}));
  // In another shape, and with something else in between.
  EXPECT_EQ(without_negations([](const Tensor& x) {
              const Tensor m = neg(x), other = exp(x);
              return neg(m.reshape({12})) + other.reshape({12});
            }),
            (LaunchNames{"copy", "exp", "add"}));
}

TEST(Rewriter, LeavesWhatOthersSee) {
  const LaunchNames both{"neg", "neg", "add"};
  EXPECT_EQ(without_negations([](const Tensor& x) {
              const Tensor m = neg(x);
              return neg(m) + m;
            }),
            both);
  Tensor kept = zeros({3, 4});
  EXPECT_EQ(without_negations([&](const Tensor& x) {
              Tensor m = neg(x);
              const Tensor y = neg(m);
              m.add_(x);  // written again, which nobody reads: yet it is not the same any more
              return y + m;
            }),
            (LaunchNames{"neg", "neg", "add", "add"}));
}

TEST(Rewriter, MindsWritesInBetween) {
  Tensor w = zeros({3, 4});
  // w changes after it was read: the copy has to be made before.
  EXPECT_EQ(without_negations([&](const Tensor& x) {
              const Tensor m = neg(w);
              w.add_(x);
              return neg(m);
            }),
            (LaunchNames{"copy", "add"}));
  // What is written is read in between, and what is read is written: there is no place.
  Tensor target = zeros({3, 4});
  EXPECT_EQ(without_negations([&](const Tensor& x) {
              const Tensor m = neg(w);
              w.add_(target);
              target.copy_(x);
              Tensor y = neg(m);
              return y;
            }),
            (LaunchNames{"copy", "add", "copy"}));
}

TEST(Rewriter, AsksForKernelsAndWhetherItPays) {
  const Tensor x = randn({3, 4});
  const StepBody body = [](const Tensor& t) { return neg(neg(t)); };
  backend::Rewrite r = no_negation();
  r.kernels = {"no_such_kernel"};
  Program program = recorded(body, x);
  EXPECT_EQ(apply_rewrite(r, program), 0);
  r = no_negation();
  r.pays = [](const backend::Match& m) { return m["x"].numel() > 12; };
  EXPECT_EQ(apply_rewrite(r, program), 0);
  r.pays = [](const backend::Match& m) { return m["z"].defined(); };
  EXPECT_THROW((void)apply_rewrite(r, program), Error);
}

/// Everything may be missing but the exponential.
TEST(Rewriter, WhatMayBeMissing) {
  std::vector<std::string> found;
  const backend::Rewrite r{.name = "looks",
                           .what = "",
                           .patterns = {R"(
                             ~neg(x, y: m)
                             exp(x: m, y: e)
                             ?sin(x: e, y: s)
                             @abs(x: raw, y: x)
                           )"},
                           .build = [&](backend::Match& m) {
                             found.push_back(std::string(m.find("neg") ? "neg " : "") + "exp" +
                                             (m.find("sin") ? " sin" : ""));
                             EXPECT_EQ(m["s"].defined(), m.find("sin") != nullptr);
                             EXPECT_TRUE(m["raw"].defined());
                             return backend::Launches();  // not possible after all
                           }};
  const auto looked = [&](const StepBody& body) {
    found.clear();
    Program program = recorded(body, ones({4}));
    EXPECT_EQ(apply_rewrite(r, program), 0);
    return found.empty() ? "" : found[0];
  };
  EXPECT_EQ(looked([](const Tensor& x) { return sin(exp(neg(abs(x)))); }), "neg exp sin");
  EXPECT_EQ(looked([](const Tensor& x) { return cos(exp(neg(abs(x)))); }), "neg exp");
  EXPECT_EQ(looked([](const Tensor& x) { return sin(exp(abs(x))); }), "exp sin");
  EXPECT_EQ(looked([](const Tensor& x) { return sin(exp(neg(x))); }), "");
}

TEST(Rewriter, WitnessesGoWhereNobodyElseLooks) {
  backend::Rewrite r = no_negation();
  r.patterns = {"@abs(x: a, y: m) \n outer = neg(x: m, y)"};
  r.build = [](backend::Match& m) {
    Tensor y = m["y"];
    return backend::one(CopyKernel("copy").launch(m.device(), m.dtype(), m["a"], y));
  };
  const auto left = [&](const StepBody& body) {
    Program program = recorded(body, ones({4}));
    (void)apply_rewrite(r, program);
    return names_of(program);
  };
  EXPECT_EQ(left([](const Tensor& x) { return neg(abs(x)); }), LaunchNames{"copy"});
  EXPECT_EQ(left([](const Tensor& x) {
              const Tensor m = abs(x);
              return neg(m) + m;
            }),
            (LaunchNames{"abs", "copy", "add"}));
}

/// What the new launch reads of a witness is read at another place than before.
TEST(Rewriter, WitnessesStayWhereTheNewLaunchLooks) {
  using AddKernel = backend::Kernel<void(const Context&, const Tensor&, const Tensor&, Tensor&,
                                         const formula::Params&)>;
  const backend::Rewrite r{
      .name = "moves_an_add",
      .what = "",
      .patterns = {"@abs(x: a, y: m) \n sin(x: b, y: s) \n add(a: m, b: s, y)"},
      .build = [](backend::Match& m) {
        Tensor y = m["y"];
        return backend::one(
            AddKernel("add").launch(m.device(), m.dtype(), m["m"], m["b"], y, {.a = 1}));
      }};
  Program program = recorded(
      [](const Tensor& x) {
        const Tensor m = abs(x), s = sin(x);
        return m + s;
      },
      ones({4}));
  EXPECT_EQ(apply_rewrite(r, program), 1);
  EXPECT_EQ(names_of(program), (LaunchNames{"abs", "add"}));
}

TEST(Rewriter, KernelsThatOthersMakeComeBehindThose) {
  const auto order = rewrites_in_order();
  ASSERT_EQ(order.size(), backend::rewrites().size());
  const auto place = [&](const char* name) {
    return std::find_if(order.begin(), order.end(),
                        [&](const backend::Rewrite* r) { return r->name == name; }) -
           order.begin();
  };
  for (const char* before : {"linear_relu", "linear_grad", "softmax_cross_entropy"})
    EXPECT_LT(place(before), place("classifier_head")) << before;
  EXPECT_LT(place("batch_norm_relu"), place("batch_norm_relu_grad"));
  EXPECT_LT(place("linear_step"), place("linear_grad"));  // the longer one first
}

// --- kernels' declarations

TEST(KernelTraits, NamesAreThoseOfTheSignature) {
  using Kernel = backend::Kernel<void(const Context&, const Tensor& x, Tensor& y)>;
  EXPECT_THROW(Kernel("test_traits_few", {.operands = "x"}), Error);
  EXPECT_THROW(Kernel("test_traits_many", {.operands = "x, y, z"}), Error);
  EXPECT_THROW(Kernel("test_traits_rw", {.operands = "rw x, y"}), Error);
  EXPECT_THROW(Kernel("test_traits_name", {.operands = "x, y", .activations = "z"}), Error);
  Kernel("test_traits", {.operands = "x, rw y"});
  EXPECT_NO_THROW(Kernel("test_traits", {.operands = "x, rw y"}));
  EXPECT_THROW(Kernel("test_traits", {.operands = "x, y"}), Error);
}

TEST(KernelTraits, EveryRecordedLaunchNamesItsOperands) {
  manual_seed(1);
  nn::Sequential net;
  net.push<nn::Conv2d>({.in = 3, .out = 4, .kernel = 3});
  net.push<nn::BatchNorm2d>({.features = 4});
  net.push<nn::ReLU>();
  net.push<nn::MaxPool2d>({.kernel = 2});
  net.push<nn::Flatten>();
  net.push<nn::Linear>({.in = 4 * 3 * 3, .out = 5});
  optim::AdamW optimizer(net.named_parameters(), {});
  const std::vector<Tensor> batch{randn({2, 3, 8, 8}), zeros({2}, {.dtype = i64})};
  const Program p = record(
                        [&](std::span<const Tensor> in) {
                          optimizer.zero_grad();
                          Tensor loss = cross_entropy(net(in[0]), in[1]);
                          loss.backward();
                          optimizer.step();
                          return std::vector<Tensor>{loss};
                        },
                        batch, false)
                        .program;
  for (const auto& launch : p.launches)
    for (const Operand& o : launch->operands())
      EXPECT_FALSE(launch->traits(o).name.empty()) << launch->name();
}

TEST(KernelTraits, UnknownOperandsAreErrors) {
  const Program p = recorded([](const Tensor& x) { return exp(x); }, ones({4}));
  EXPECT_EQ(p.launches[0]->operand("x").numel(), 4);
  EXPECT_THROW((void)p.launches[0]->operand("z"), Error);
}

}  // namespace
}  // namespace brim::plan
