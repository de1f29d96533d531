// See layout.h.
#include "bench/command/layout.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <brim/nn/models.h>
#include <brim/ops/create.h>
#include <brim/ops/loss.h>
#include <brim/optim/sgd.h>
#include <brim/plan/compile.h>

#include "bench/command/measure.h"
#include "plan/layout.h"

namespace brim::command {
namespace {

using Json = nlohmann::ordered_json;

/// Sizes at which the models are usually trained.
Shape input_of(const std::string& model) {
  if (!model.starts_with("resnet")) return {128, 3, 32, 32};
  if (model.ends_with("-cifar")) return {64, 3, 32, 32};
  return {16, 3, 224, 224};
}

struct Candidate {
  std::string name;
  std::optional<MemoryFormat> format;
  std::vector<double> ms;  // by round

  /// How much longer than `other` it takes: the median over the rounds, since the machine's speed
  /// changes from one to the next.
  double over(const Candidate& other) const {
    std::vector<double> ratios;
    for (size_t i = 0; i < ms.size(); ++i) ratios.push_back(ms[i] / other.ms[i]);
    return median(std::move(ratios));
  }
};

/// Of one call, over as many as a sample needs.
template <class F>
double milliseconds(const F& call) {
  using Milliseconds = std::chrono::duration<double, std::milli>;
  constexpr Milliseconds kSample(20);
  const auto begin = std::chrono::steady_clock::now();
  Milliseconds took(0);
  int calls = 0;
  for (; took < kSample; ++calls) {
    call();
    took = std::chrono::steady_clock::now() - begin;
  }
  return took.count() / calls;
}

Json measure_model(const std::string& model, int rounds, bool print) {
  manual_seed(0);
  const auto net = nn::make_model(model, {.classes = 10});
  optim::SGD optimizer(net->named_parameters(), {.lr = 0.001, .momentum = 0.9});
  const Shape shape = input_of(model);
  const Tensor x = randn(shape), y = randint(0, 10, {shape[0]});
  const auto body = [&](const Tensor& images, const Tensor& labels) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy((*net)(images), labels);
    loss.backward();
    optimizer.step();
    return loss;
  };
  std::vector<Candidate> candidates{{"chosen", std::nullopt, {}}};
  for (const MemoryFormat format : plan::kFormats)
    candidates.push_back({plan::name(format), format, {}});
  std::vector<decltype(compile(body))> steps;
  for (const Candidate& c : candidates) {
    steps.push_back(compile(body));
    plan::forced_layout = c.format;
    (void)steps.back()(x, y);  // makes the plan
    plan::forced_layout.reset();
  }
  for (int round = 0; round < rounds; ++round)
    for (size_t i = 0; i < steps.size(); ++i) {
      // Every other round backwards: whoever always came first would have the colder caches.
      const size_t at = round % 2 == 0 ? i : steps.size() - 1 - i;
      candidates[at].ms.push_back(milliseconds([&] { (void)steps[at](x, y); }));
    }
  Json json{{"model", model}, {"batch", shape[0]}};
  double of_best = 0;
  for (const Candidate& c : candidates) {
    json[c.name + "_ms"] = median(c.ms);
    if (c.format) of_best = std::max(of_best, candidates[0].over(c));
  }
  json["of_best_fixed"] = of_best;
  if (print) {
    fmt::print("{:<18}", fmt::format("{} b{}", model, shape[0]));
    for (const Candidate& c : candidates) fmt::print("{:>11.3f}", median(c.ms));
    fmt::print("{:>10.3f}\n", of_best);
    std::fflush(stdout);
  }
  return json;
}

}  // namespace

Json run_layout_bench(int rounds, bool print) {
  if (print)
    fmt::print("{:<18}{:>11}{:>11}{:>11}{:>11}{:>10}\n", "ms per step", "chosen", "nchw", "nhwc",
               "chwn", "of best");
  Json results = Json::array();
  for (const std::string& model : nn::model_names())
    results.push_back(measure_model(model, rounds, print));
  return {{"results", results}};
}

}  // namespace brim::command
