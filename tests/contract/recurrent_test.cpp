// Contract cases of lstm and gru: both ways, sizes beside those of vectors and tiles, one step, no
// samples.
#include <brim/ops/recurrent.h>

#include <cmath>

#include <brim/autograd/autograd.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>

#include "contract/contract.h"
#include "contract/harness.h"
#include "contract/positions.h"
#include "message_of.h"
#include "threads.h"

namespace brim::contract {
namespace {

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

/// Steps, samples and units of a sequence; a cell's gates.
struct Sizes {
  int64_t steps, samples, units;
};

/// What gate `gate` of unit `u` gets of the states of sample `s` at a step.
double from_states(const Reader& weight, const std::vector<double>& states, const Sizes& sizes,
                   int64_t gate, int64_t s, int64_t u) {
  double sum = 0;
  for (int64_t k = 0; k < sizes.units; ++k)
    sum += weight({gate * sizes.units + u, k}) * states[static_cast<size_t>(s * sizes.units + k)];
  return sum;
}

Sizes sizes_of(const Tensor& gates, const Tensor& weight) {
  return {gates.size(0), gates.size(1), weight.size(1)};
}

/// Calls step(t, s, u, at: s * units + u) in the order of the steps.
template <class F>
void each_unit(const Sizes& sizes, int64_t t, const F& step) {
  for (int64_t s = 0; s < sizes.samples; ++s)
    for (int64_t u = 0; u < sizes.units; ++u)
      step(t, s, u, static_cast<size_t>(s * sizes.units + u));
}

/// The definition, one unit after the other -> {h, c} after each step.
Tensors defined_lstm(const Tensor& gates, const Tensor& weight, const Tensor& h0, const Tensor& c0,
                     bool reverse) {
  const Sizes sizes = sizes_of(gates, weight);
  const Reader x(gates), w(weight);
  std::vector<double> h = values(h0), c = values(c0);
  const size_t row = h.size();
  std::vector<double> all_h(static_cast<size_t>(sizes.steps) * row), all_c(all_h.size());
  for (int64_t i = 0; i < sizes.steps; ++i) {
    const std::vector<double> before = h;
    each_unit(
        sizes, reverse ? sizes.steps - 1 - i : i, [&](int64_t t, int64_t s, int64_t u, size_t at) {
          const auto sum = [&](int64_t gate) {
            return x({t, s, gate * sizes.units + u}) + from_states(w, before, sizes, gate, s, u);
          };
          c[at] = logistic(sum(1)) * c[at] + logistic(sum(0)) * std::tanh(sum(2));
          h[at] = logistic(sum(3)) * std::tanh(c[at]);
          all_h[static_cast<size_t>(t) * row + at] = h[at];
          all_c[static_cast<size_t>(t) * row + at] = c[at];
        });
  }
  const Shape shape = {sizes.steps, sizes.samples, sizes.units};
  return {array(all_h, shape), array(all_c, shape)};
}

Tensor defined_gru(const Tensor& gates, const Tensor& weight, const Tensor& bias, const Tensor& h0,
                   bool reverse) {
  const Sizes sizes = sizes_of(gates, weight);
  const Reader x(gates), w(weight);
  const std::vector<double> b =
      bias.defined() ? values(bias) : std::vector<double>(static_cast<size_t>(weight.size(0)));
  std::vector<double> h = values(h0), all;
  const size_t row = h.size();
  all.resize(static_cast<size_t>(sizes.steps) * row);
  for (int64_t i = 0; i < sizes.steps; ++i) {
    const std::vector<double> before = h;
    each_unit(sizes, reverse ? sizes.steps - 1 - i : i,
              [&](int64_t t, int64_t s, int64_t u, size_t at) {
                const auto input = [&](int64_t gate) { return x({t, s, gate * sizes.units + u}); };
                const auto inner = [&](int64_t gate) {
                  return from_states(w, before, sizes, gate, s, u) +
                         b[static_cast<size_t>(gate * sizes.units + u)];
                };
                const double r = logistic(input(0) + inner(0)), z = logistic(input(1) + inner(1));
                const double n = std::tanh(input(2) + r * inner(2));
                all[static_cast<size_t>(t) * row + at] = h[at] = (1 - z) * n + z * before[at];
              });
  }
  return array(all, {sizes.steps, sizes.samples, sizes.units});
}

/// gates, weight, h; weights small, as sums over units are.
std::vector<Input> inputs(int64_t gates, const Sizes& s) {
  return {{.shape = {s.steps, s.samples, gates * s.units}},
          {.shape = {gates * s.units, s.units}, .low = -0.5, .high = 0.5},
          {.shape = {s.samples, s.units}, .low = -1, .high = 1}};
}

constexpr Sizes kSizes[] = {{3, 2, 4}, {1, 3, 5}, {5, 1, 1}, {4, 5, 9}, {2, 0, 3}, {3, 9, 2}};

std::vector<std::vector<Input>> lstm_inputs() {
  std::vector<std::vector<Input>> all;
  for (const Sizes& s : kSizes) {
    all.push_back(inputs(4, s));
    all.back().push_back({.shape = {s.samples, s.units}});
  }
  return all;
}

std::vector<std::vector<Input>> gru_inputs(bool bias) {
  std::vector<std::vector<Input>> all;
  for (const Sizes& s : kSizes) {
    all.push_back(inputs(3, s));
    if (bias) all.back().push_back({.shape = {3 * s.units}});
  }
  return all;
}

Case with_tolerances(Case c) {
  // Where there is no kernel for all steps, 16 bits are rounded at each of them.
  c.tolerance_f16 = 1e-2;
  c.tolerance_bf16 = 8e-2;
  return c;
}

Case lstm_case(bool reverse) {
  return with_tolerances(
      {.op = [=](Tensor gates, Tensor weight, Tensor h,
                 Tensor c) { return lstm(gates, weight, h, c, {.reverse = reverse}); },
       .inputs = lstm_inputs(),
       .reference = [=](Tensor gates, Tensor weight, Tensor h,
                        Tensor c) { return defined_lstm(gates, weight, h, c, reverse); }});
}

Case gru_case(bool reverse) {
  return with_tolerances(
      {.op = [=](Tensor gates, Tensor weight, Tensor h,
                 Tensor bias) { return gru(gates, weight, bias, h, {.reverse = reverse}); },
       .inputs = gru_inputs(true),
       .reference = [=](Tensor gates, Tensor weight, Tensor h,
                        Tensor bias) { return defined_gru(gates, weight, bias, h, reverse); }});
}

CONTRACT(lstm) { return lstm_case(false); }
CONTRACT(lstm_reverse) { return lstm_case(true); }
CONTRACT(gru) { return gru_case(false); }
CONTRACT(gru_reverse) { return gru_case(true); }
CONTRACT(gru_without_bias) {
  return with_tolerances(
      {.op = [](Tensor gates, Tensor weight, Tensor h) { return gru(gates, weight, {}, h); },
       .inputs = gru_inputs(false),
       .reference = [](Tensor gates, Tensor weight,
                       Tensor h) { return defined_gru(gates, weight, {}, h, false); }});
}
/// Gradients through the cells alone: nothing flows into h.
CONTRACT(lstm_cells) {
  Case c = lstm_case(false);
  c.op = [](Tensor gates, Tensor weight, Tensor h, Tensor cell) {
    return lstm(gates, weight, h, cell)[1];
  };
  c.reference = [](Tensor gates, Tensor weight, Tensor h, Tensor cell) {
    return defined_lstm(gates, weight, h, cell, false)[1];
  };
  return c;
}

/// The gradients of all inputs, by the kernels and by ops that have gradients themselves.
void expect_gradients_as_by_ops(const std::function<Tensors(const Tensors&)>& op, Tensors x) {
  for (Tensor& t : x) t.set_requires_grad();
  const Tensors y = op(x), w = cotangents(y);
  const Tensors fused = gradients(y, x, w), composed = gradients(op(x), x, w, /*create=*/true);
  for (size_t i = 0; i < x.size(); ++i)
    expect_near(fused[i], composed[i].detach(), 1e-4, "gradient " + std::to_string(i));
}

TEST(Recurrent, GradientsOfManyUnitsAreThoseByOps) {
  constexpr int64_t kSteps = 7, kSamples = 13, kUnits = 130;  // several panels and row tiles
  const Tensor h = randn({kSamples, kUnits}), c = randn({kSamples, kUnits});
  for (const bool reverse : {false, true}) {
    expect_gradients_as_by_ops(
        [=](const Tensors& x) { return lstm(x[0], x[1], x[2], x[3], {.reverse = reverse}); },
        {randn({kSteps, kSamples, 4 * kUnits}), randn({4 * kUnits, kUnits}) * 0.1, h, c});
    expect_gradients_as_by_ops(
        [=](const Tensors& x) {
          return Tensors{gru(x[0], x[1], x[2], x[3], {.reverse = reverse})};
        },
        {randn({kSteps, kSamples, 3 * kUnits}), randn({3 * kUnits, kUnits}) * 0.1,
         randn({3 * kUnits}), h});
  }
}

TEST(Recurrent, ThreadsChangeNothing) {
  const Tensor gates = randn({9, 11, 4 * 66}).set_requires_grad();
  const Tensor weight = (randn({4 * 66, 66}) * 0.1).set_requires_grad();
  const Tensor h = randn({11, 66}), c = randn({11, 66});
  const auto all = [&](int threads) {
    const tests::Threads scope(threads);
    const Tensors y = lstm(gates, weight, h, c);
    const Tensors d = gradients(y, {gates, weight}, cotangents(y));
    return std::vector{values(y[0]), values(y[1]), values(d[0]), values(d[1])};
  };
  EXPECT_EQ(all(1), all(4));
}

TEST(Recurrent, ErrorsSayWhatDoesNotFit) {
  using tests::message_of;
  const Tensor state = zeros({2, 3});
  EXPECT_EQ(message_of([&] {
              lstm(zeros({5, 2, 9}), zeros({12, 3}), state, state);
            }),
            "[lstm] gates (5, 2, 9) with weight_hh (12, 3): expected (T, N, 4 H) and (4 H, H)");
  EXPECT_EQ(message_of([&] {
              lstm(zeros({0, 2, 12}), zeros({12, 3}), state, state);
            }),
            "[lstm] gates of shape (0, 2, 12) have no steps");
  EXPECT_EQ(message_of([&] {
              gru(zeros({5, 2, 9}), zeros({9, 3}), zeros({3}), state);
            }),
            "[gru] bias_hh (3) with weight_hh (9, 3): expected (9)");
  EXPECT_EQ(message_of([&] {
              gru(zeros({5, 4, 9}), zeros({9, 3}), {}, state);
            }),
            "[gru] a state of shape (2, 3) for gates (5, 4, 9); expected (4, 3)");
  EXPECT_THROW(gru(zeros({5, 2, 9}), zeros({9, 3}, {.dtype = f64}), {}, state), DTypeError);
}

}  // namespace
}  // namespace brim::contract
