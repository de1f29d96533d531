// Forms of layers: what they cost, which are chosen, and what a network computes in them.
#include <brim/autograd/autograd.h>
#include <brim/compress/shrink.h>
#include <brim/core/random.h>
#include <brim/nn/activation.h>
#include <brim/nn/container.h>
#include <brim/nn/models.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "message_of.h"

namespace brim::compress {
namespace {

using tests::message_of;

struct ShrinkNet : nn::Module {
  nn::Conv2d& conv = add<nn::Conv2d>("conv", {.in = 3, .out = 16, .kernel = 3, .padding = 1});
  nn::Conv2d& grouped =
      add<nn::Conv2d>("grouped", {.in = 16, .out = 16, .kernel = 3, .padding = 1, .groups = 16});
  nn::Linear& fc = add<nn::Linear>("fc", {.in = 16 * 64, .out = 64});
  nn::Linear& head = add<nn::Linear>("head", {.in = 64, .out = 5});
  nn::Linear& unused = add<nn::Linear>("unused", {.in = 64, .out = 8});
  Tensor forward(const Tensor& x) override {
    return head(relu(fc(relu(grouped(relu(conv(x)))).flatten(1))));
  }
};

double mean_square(const Tensor& a, const Tensor& b) { return mean(square(a - b)).item(); }

FormOptions options_of(int batches = 2) {
  FormOptions o{.timed = rand({1, 3, 8, 8}), .distance = mean_square};
  for (int i = 0; i < batches; ++i) o.inputs.push_back(rand({4, 3, 8, 8}));
  return o;
}

std::vector<LayerCosts> measured(nn::Module& net, FormOptions o) {
  FormMeter meter(net, std::move(o));
  std::vector<LayerCosts> costs;
  for (size_t i = 0; i < meter.layers(); ++i) costs.push_back(meter.measure(i));
  return costs;
}

TEST(FormMeter, MeasuresWhatLayersCanBe) {
  manual_seed(3);
  ShrinkNet net;
  net.train();
  const std::vector<LayerCosts> costs = measured(net, options_of());
  ASSERT_EQ(costs.size(), 5U);
  EXPECT_EQ(costs[0].name, "conv");
  ASSERT_EQ(costs[2].name, "fc");
  // f32, int8, and both at three sparsities.
  ASSERT_EQ(costs[2].forms.size(), 8U);
  const auto of = [&](const char* form) {
    const auto found = std::ranges::find_if(
        costs[2].forms, [&](const FormCost& cost) { return cost.form.str() == form; });
    EXPECT_NE(found, costs[2].forms.end()) << form;
    return *found;
  };
  EXPECT_TRUE(costs[2].forms[0].form.is_dense());
  EXPECT_EQ(costs[2].forms[0].distance, 0);
  EXPECT_EQ(costs[2].forms[0].bytes, 4 * 64 * 1024);
  for (const FormCost& cost : costs[2].forms) EXPECT_GT(cost.seconds, 0) << cost.form.str();
  EXPECT_LT(of("75 % zeros").bytes, of("50 % zeros").bytes);
  EXPECT_LT(of("90 % zeros").bytes, of("75 % zeros").bytes);
  EXPECT_LT(of("int8, 90 % zeros").bytes, of("90 % zeros").bytes / 2);
  EXPECT_GT(of("50 % zeros").distance, 0);
  EXPECT_LT(of("int8").distance, of("50 % zeros").distance / 10);
  EXPECT_NEAR(of("int8, 50 % zeros").distance, of("50 % zeros").distance,
              0.2 * of("50 % zeros").distance);
  EXPECT_EQ(costs[1].forms.size(), 1U);
  EXPECT_NE(costs[1].why.find("16 groups"), std::string::npos) << costs[1].why;
  EXPECT_EQ(costs[3].forms.size(), 2U) << "its 5 outputs are fewer than a vector";
  EXPECT_EQ(costs[4].forms.size(), 1U);
  EXPECT_EQ(costs[4].why, "the network does not run it");
  EXPECT_TRUE(net.training() && net.fc.training());
}

TEST(FormMeter, LeavesTheNetworkAsItWas) {
  manual_seed(4);
  ShrinkNet net;
  net.eval();
  const NoGrad scope;
  const Tensor x = rand({2, 3, 8, 8});
  const std::vector<float> before = net(x).to_vector<float>();
  (void)measured(net, options_of());
  EXPECT_EQ(net(x).to_vector<float>(), before);
}

TEST(FormMeter, RefusesNonsense) {
  ShrinkNet net;
  const auto error_of = [&](auto change) {
    FormOptions o = options_of();
    change(o);
    return message_of([&] { (void)measured(net, o); });
  };
  EXPECT_NE(error_of([](FormOptions& o) { o.inputs.clear(); }).find("inputs"), std::string::npos);
  EXPECT_NE(error_of([](FormOptions& o) { o.timed = {}; }).find("timed"), std::string::npos);
  EXPECT_NE(error_of([](FormOptions& o) { o.vector = 5; }).find("vectors of 5"), std::string::npos);
  EXPECT_NE(error_of([](FormOptions& o) { o.sparsities = {1}; }).find("below 1"),
            std::string::npos);
  EXPECT_NE(error_of([](FormOptions& o) { o.keep = {"fcc"}; }).find("'fcc'"), std::string::npos);
  EXPECT_NE(error_of([](FormOptions& o) {
              o.inputs[0] = full({4, 3, 8, 8}, std::numeric_limits<double>::infinity());
            }).find("not finite"),
            std::string::npos);
}

/// Layers of random costs; forms that cost less are mostly further off.
std::vector<LayerCosts> random_costs(std::mt19937& random, size_t layers) {
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<LayerCosts> all;
  for (size_t i = 0; i < layers; ++i) {
    LayerCosts layer{.name = std::to_string(i)};
    const double seconds = 1e-4 * (0.2 + uniform(random));
    const double bytes = 1e5 * (0.2 + uniform(random));
    layer.forms.push_back({.seconds = seconds, .bytes = static_cast<int64_t>(bytes)});
    for (int f = 1; f < 5; ++f) {
      const double distance = uniform(random) * uniform(random);
      layer.forms.push_back({.form = {.sparsity = f / 10.0},
                             .seconds = seconds * std::min(1.2, 1 - distance + uniform(random) / 2),
                             .bytes = static_cast<int64_t>(
                                 bytes * std::clamp(1 - distance + uniform(random) / 4, 0.1, 1.0)),
                             .distance = distance});
    }
    all.push_back(std::move(layer));
  }
  return all;
}

/// The least distance within the limits, of all choices there are; infinite: none is.
double exact_distance(const std::vector<LayerCosts>& layers, const Limits& limits) {
  double best = std::numeric_limits<double>::infinity();
  std::vector<size_t> forms(layers.size(), 0);
  while (true) {
    double seconds = 0, distance = 0;
    int64_t bytes = 0;
    for (size_t i = 0; i < layers.size(); ++i) {
      const FormCost& cost = layers[i].forms[forms[i]];
      seconds += cost.seconds, bytes += cost.bytes, distance += cost.distance;
    }
    if (seconds <= limits.seconds && bytes <= limits.bytes) best = std::min(best, distance);
    size_t i = 0;
    while (i < forms.size() && ++forms[i] == layers[i].forms.size()) forms[i++] = 0;
    if (i == forms.size()) return best;
  }
}

TEST(ChooseForms, IsNearlyAsGoodAsAllChoices) {
  std::mt19937 random(7);
  double of_found = 0, of_exact = 0;
  int reached = 0, missed = 0;
  for (int round = 0; round < 60; ++round) {
    const std::vector<LayerCosts> layers = random_costs(random, 6);
    const Choice dense = form_frontier(layers, 1, 0).front();
    const Limits limits{.seconds = round % 3 == 1 ? 1 : 0.8 * dense.seconds,
                        .bytes = round % 3 == 0 ? dense.bytes : dense.bytes * 7 / 10};
    const double exact = exact_distance(layers, limits);
    if (!std::isfinite(exact)) {
      EXPECT_THROW((void)choose_forms(layers, limits), ValueError);
      continue;
    }
    Choice found;
    try {
      found = choose_forms(layers, limits);
    } catch (const ValueError&) {
      ++missed;
      continue;
    }
    ++reached;
    EXPECT_LE(found.seconds, limits.seconds * (1 + 1e-9));
    EXPECT_LE(found.bytes, limits.bytes);
    EXPECT_GE(found.distance, exact - 1e-12);
    of_found += found.distance;
    of_exact += exact;
  }
  EXPECT_GT(reached, 40);
  EXPECT_LE(missed, 1);
  EXPECT_LT(of_found, 1.05 * of_exact);
}

TEST(ChooseForms, KeepsAllDenseWhereThereIsRoom) {
  std::mt19937 random(8);
  const std::vector<LayerCosts> layers = random_costs(random, 4);
  const Choice choice = choose_forms(layers, {});
  EXPECT_EQ(choice.distance, 0);
  EXPECT_TRUE(forms_of(layers, choice).empty());
}

TEST(ChooseForms, SaysWhatIsInReach) {
  std::mt19937 random(9);
  const std::vector<LayerCosts> layers = random_costs(random, 4);
  const std::string message =
      message_of([&] { (void)choose_forms(layers, {.seconds = 1e-9, .bytes = 10}); });
  EXPECT_NE(message.find("out of reach"), std::string::npos) << message;
  EXPECT_NE(message.find("ms at least"), std::string::npos) << message;
}

TEST(FormFrontier, SparesMoreForLessFirst) {
  std::mt19937 random(10);
  const std::vector<LayerCosts> layers = random_costs(random, 12);
  const std::vector<Choice> frontier = form_frontier(layers, 1, 0);
  ASSERT_GT(frontier.size(), 6U);
  double slope = 0;
  for (size_t i = 1; i < frontier.size(); ++i) {
    const double spared = frontier[i - 1].seconds - frontier[i].seconds;
    ASSERT_GT(spared, 0);
    const double next = std::max(0.0, frontier[i].distance - frontier[i - 1].distance) / spared;
    EXPECT_GE(next, slope * (1 - 1e-9)) << i;
    slope = next;
  }
  double least = 0;
  for (const LayerCosts& layer : layers)
    least += std::ranges::min(layer.forms, {}, &FormCost::seconds).seconds;
  EXPECT_NEAR(frontier.back().seconds, least, 1e-12);
}

TEST(ChannelMeter, MeasuresGroupsAndPutsThemBack) {
  manual_seed(6);
  const auto net = nn::make_model("cifar-resnet8", {.classes = 7, .input = {3, 32, 32}});
  const Tensor x = rand({4, 3, 32, 32});
  net->eval();
  const NoGrad scope;
  const std::vector<float> before = (*net)(x).to_vector<float>();
  const int64_t parameters = net->num_parameters();
  std::vector<int64_t> passes;
  ChannelMeter meter(*net, {.inputs = {x},
                            .distance = mean_square,
                            .pass_seconds =
                                [&] {
                                  passes.push_back(net->num_parameters());
                                  return static_cast<double>(passes.back());
                                },
                            .keep = {"layer1.0.conv1"}});
  ASSERT_GT(meter.groups(), 3U);
  LayerForms all;
  for (size_t i = 0; i < meter.groups(); ++i) {
    EXPECT_NE(meter.name(i), "layer1.0.conv1");
    const LayerCosts costs = meter.measure(i);
    ASSERT_GT(costs.forms.size(), 1U) << costs.name << costs.why;
    for (size_t f = 1; f < costs.forms.size(); ++f) {
      EXPECT_LT(costs.forms[f].seconds, costs.forms[f - 1].seconds);
      EXPECT_LT(costs.forms[f].bytes, costs.forms[f - 1].bytes);
      EXPECT_GT(costs.forms[f].distance, 0);
    }
    all[costs.name] = costs.forms.back().form;
  }
  EXPECT_EQ(net->num_parameters(), parameters);
  EXPECT_EQ((*net)(x).to_vector<float>(), before);
  EXPECT_GT(meter.distance(all), 0);
  EXPECT_EQ((*net)(x).to_vector<float>(), before);
  EXPECT_NE(message_of([&] {
              (void)meter.distance({{"conv9", {.channels = 0.5}}});
            }).find("conv9"),
            std::string::npos);
  const ShrunkNetwork shrunk = meter.shrink(all);
  EXPECT_FALSE(shrunk.channels.empty());
  EXPECT_LT(2 * net->num_parameters(), parameters);
  EXPECT_EQ((*net)(x).shape(), (Shape{4, 7}));
}

TEST(UseForms, MakesLayersSparseAndIntegers) {
  manual_seed(5);
  ShrinkNet net;
  net.eval();
  const Tensor x = rand({4, 3, 8, 8});
  const LayerForms forms = {{"fc", {.sparsity = 0.75}}, {"conv", {.int8 = true}}};
  (void)Masks(net, {.pattern = parse_pattern("vector:8"),
                    .dense = {"conv", "grouped", "head", "unused"},
                    .layers = {{"fc", 0.75}}});
  const NoGrad scope;
  const std::vector<float> masked = net(x).to_vector<float>();
  const auto layers = use_forms(net, forms, 8, [&] { (void)net(x); });
  const std::string shown = net.str();
  EXPECT_NE(shown.find("int8"), std::string::npos) << shown;
  EXPECT_NE(shown.find("sparse"), std::string::npos) << shown;
  EXPECT_EQ(int8_layers(layers).size(), 1U);
  const std::vector<float> now = net(x).to_vector<float>();
  for (size_t i = 0; i < now.size(); ++i) EXPECT_NEAR(now[i], masked[i], 0.02);
  EXPECT_NE(message_of([&] {
              (void)use_forms(net, {{"fcc", {.int8 = true}}}, 8, [&] { (void)net(x); });
            }).find("'fcc'"),
            std::string::npos);
}

}  // namespace
}  // namespace brim::compress
