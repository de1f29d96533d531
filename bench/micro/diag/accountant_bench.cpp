// What measuring where the time goes costs: blocks of steps of the tutorial's network, of batch 4,
// with an Accountant and without one in turns, which of them begins drawn. JSON: the quartiles of
// the ratios of pairs, beside pairs without any Accountant, and nanoseconds a span. The machine
// should have nothing else to do.
//
//   build/bench/accountant_bench [PAIRS] [DEVICE]
#include <brim/brim.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <optional>
#include <random>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "diag/span.h"

namespace {

using namespace brim;

constexpr double kBlockSeconds = 0.02;

/// Seconds of so many steps, the making and the end of an Accountant left out.
double block(const std::function<void()>& step, int steps, Device device, bool is_measured) {
  std::optional<diag::Accountant> accountant;
  if (is_measured) accountant.emplace(std::vector{device});
  const double begin = steady_seconds();
  for (int i = 0; i < steps; ++i) step();
  synchronize(device);
  return steady_seconds() - begin;
}

void compare(std::string_view name, const std::function<void()>& step, Device device, int pairs,
             bool is_measured) {
  constexpr int kWarmUp = 20;
  (void)block(step, kWarmUp, device, false);
  const double seconds = block(step, kWarmUp, device, false) / kWarmUp;
  const int steps = std::max(1, static_cast<int>(kBlockSeconds / seconds));
  std::mt19937 random(1);
  std::vector<double> ratios;
  for (int i = 0; i < pairs; ++i) {
    const bool begins = random() % 2 == 0;
    const double first = block(step, steps, device, begins && is_measured);
    const double second = block(step, steps, device, !begins && is_measured);
    ratios.push_back(begins ? first / second : second / first);
  }
  std::ranges::sort(ratios);
  const auto quantile = [&](double q) {
    return ratios[static_cast<size_t>(q * static_cast<double>(ratios.size() - 1))];
  };
  fmt::print(
      "{{\"steps\": \"{}\", \"device\": \"{}\", \"measured\": {}, \"pairs\": {}, "
      "\"microseconds\": {:.1f}, \"ratio\": {:.4f}, \"quartiles\": [{:.4f}, {:.4f}]}}\n",
      name, device.str(), is_measured, pairs, 1e6 * seconds, quantile(0.5), quantile(0.25),
      quantile(0.75));
}

void time_spans() {
  constexpr int kSpans = 1'000'000;
  for (const bool is_measured : {false, true}) {
    std::optional<diag::Accountant> accountant;
    if (is_measured) accountant.emplace();
    double best = 1;
    for (int repetition = 0; repetition < 5; ++repetition) {
      const double begin = steady_seconds();
      for (int i = 0; i < kSpans; ++i) const diag::Span span("bench", diag::Cause::dispatch);
      best = std::min(best, steady_seconds() - begin);
    }
    fmt::print("{{\"measured\": {}, \"nanoseconds_per_span\": {:.1f}}}\n", is_measured,
               1e9 * best / kSpans);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int pairs = argc > 1 ? std::max(1, std::atoi(argv[1])) : 400;
  const Device device(argc > 2 ? argv[2] : "cpu");
  time_spans();
  manual_seed(0);
  nn::TutorialCnn net({.device = device});
  optim::SGD optimizer(net.named_parameters(), {.lr = 0.001, .momentum = 0.9});
  const Tensor x = rand({4, 3, 32, 32}, {.device = device});
  const Tensor y = zeros({4}, {.dtype = i64, .device = device});
  const auto eager = [&](const Tensor& inputs, const Tensor& labels) {
    optimizer.zero_grad();
    cross_entropy(net(inputs), labels).backward();
    optimizer.step();
  };
  auto compiled = compile(eager);
  for (const bool is_measured : {false, true}) {
    compare(
        "eager", [&] { eager(x, y); }, device, pairs, is_measured);
    compare(
        "compiled", [&] { compiled(x, y); }, device, pairs, is_measured);
  }
}
