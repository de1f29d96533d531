// Trainings that prune: rounds that go back to where the run was, and whole channels before the
// first step.
#include <brim/compress/prune.h>
#include <brim/train/trainer.h>
#include <brim/train/weights.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "message_of.h"
#include "temporary_folder.h"
#include "train/tiny_data.h"

namespace brim::train {
namespace {

using Numbers = std::map<std::string, std::vector<float>>;

Numbers numbers_of(nn::Module& network) {
  Numbers all;
  for (const auto& [name, value] : network.state_dict()) all[name] = value.to_vector<float>();
  return all;
}

class PruneTraining : public ::testing::Test {
 protected:
  PruneTraining() {
    tests::write_tiny_cifar(folder / "data", 40);
    recipe = load_recipe("tutorial-cnn");
    recipe.data = folder / "data";
    recipe.epochs = 2;
    recipe.batch = 10;
    recipe.optimizer.lr = 0.05;
    recipe.optimizer.momentum = 0.9;
    recipe.schedule = {.name = "step", .step_size = 1, .gamma = 0.5};
  }
  void prune_in_rounds(int64_t rounds) {
    recipe.prune = {.pattern = "unstructured",
                    .sparsity = 0.75,
                    .schedule = "iterative",
                    .rounds = rounds,
                    .dense = {"fc3"}};
  }
  /// A training that is stopped after so many steps, where a round has begun and has no step yet.
  std::unique_ptr<Trainer> stopped_in_a_round(int64_t steps) {
    std::atomic<int> stop{0};
    TrainOptions options{.stop = &stop};
    options.progress = [&](const Progress& p) { stop = p.epoch_done && p.step == steps ? 1 : 0; };
    auto trainer = std::make_unique<Trainer>(recipe, options);
    EXPECT_EQ(trainer->train().steps, steps);
    return trainer;
  }
  static double zeros(nn::Module& network, const Recipe& r) {
    return compress::sparsity_of(compress::pruned_layers(
        network, {.pattern = compress::parse_pattern(r.prune.pattern), .dense = r.prune.dense}));
  }
  std::string error_of(const TrainOptions& options = {}) {
    return tests::message_of([&] { Trainer(recipe, options).run(); });
  }
  tests::TemporaryFolder folder;
  Recipe recipe;
};

TEST_F(PruneTraining, GoesBackToEarlierWeights) {
  Trainer dense(recipe, {});
  const Numbers first = numbers_of(dense.model());
  const int64_t steps = dense.run().steps;
  const Numbers trained = numbers_of(dense.model());
  (void)compress::Masks(
      dense.model(),
      {.pattern = compress::parse_pattern("unstructured"), .sparsity = 0.75, .dense = {"fc3"}});
  const Numbers masked = numbers_of(dense.model());

  prune_in_rounds(1);
  Trainer stopped(recipe, {.max_steps = steps});
  EXPECT_EQ(stopped.train().steps, steps);
  EXPECT_EQ(numbers_of(stopped.model()), trained);  // the only round has not begun
  Numbers wanted = first;
  size_t zeros = 0;
  for (auto& [name, values] : wanted)
    for (size_t i = 0; i < values.size(); ++i)
      if (masked.at(name)[i] == 0) values[i] = 0, ++zeros;
  EXPECT_GT(zeros, 1000U);
  EXPECT_EQ(numbers_of(stopped_in_a_round(steps)->model()), wanted);
}

TEST_F(PruneTraining, GoesBackToTheEndOfAnEpochAndToItsLearningRate) {
  prune_in_rounds(2);
  recipe.prune.rewind_epoch = 1;
  recipe.epochs = 3;
  std::vector<std::pair<int64_t, int64_t>> epochs;  // with their rounds
  std::vector<double> rates;
  TrainOptions options{.reports_per_epoch = 1};
  options.progress = [&](const Progress& p) {
    if (!p.epoch_done) return;
    epochs.emplace_back(p.round, p.epoch);
    rates.push_back(p.learning_rate);
    EXPECT_EQ(p.rounds, 2);
  };
  Trainer trainer(recipe, options);
  const TrainResult result = trainer.run();
  EXPECT_EQ(result.steps, (3 + 2 + 2) * 4);
  EXPECT_EQ(result.epochs_done, 7);
  const std::vector<std::pair<int64_t, int64_t>> wanted = {{0, 0}, {0, 1}, {0, 2}, {1, 1},
                                                           {1, 2}, {2, 1}, {2, 2}};
  EXPECT_EQ(epochs, wanted);
  // Those of the step that comes next: at the end of a round, of the next one's first.
  const std::vector<double> next = {0.025, 0.0125, 0.025, 0.0125, 0.025, 0.0125, 0.00625};
  ASSERT_EQ(rates.size(), next.size());
  for (size_t i = 0; i < next.size(); ++i) EXPECT_DOUBLE_EQ(rates[i], next[i]) << i;
  EXPECT_NEAR(zeros(trainer.model(), recipe), 0.75, 1e-3);
}

TEST_F(PruneTraining, ReachesItsSparsityByEqualShares) {
  prune_in_rounds(2);
  const int64_t per_round = 2 * 4;
  std::vector<double> sparsities;
  for (const int64_t rounds : {1, 2})
    sparsities.push_back(zeros(stopped_in_a_round(rounds * per_round)->model(), recipe));
  EXPECT_NEAR(sparsities[0], 0.5, 1e-3);
  EXPECT_NEAR(sparsities[1], 0.75, 1e-3);
}

TEST_F(PruneTraining, LearningRateAloneKeepsTheWeights) {
  prune_in_rounds(1);
  recipe.prune.rewind = "learning-rate";
  Trainer dense(recipe, {.max_steps = 7});
  dense.train();
  const double before = zeros(dense.model(), recipe);
  EXPECT_LT(before, 0.01);
  const std::unique_ptr<Trainer> trainer = stopped_in_a_round(8);
  EXPECT_NEAR(zeros(trainer->model(), recipe), 0.75, 1e-3);
  // What is kept is as the last step of the dense training left it.
  Recipe same = recipe;
  same.prune = {};
  Trainer unpruned(same, {});
  unpruned.train();
  const Numbers trained = numbers_of(unpruned.model());
  for (const auto& [name, values] : numbers_of(trainer->model()))
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_TRUE(values[i] == 0 || values[i] == trained.at(name)[i]) << name;
}

TEST_F(PruneTraining, IsTheSameWhereItGoesOn) {
  for (const auto& [name, scope] :
       {std::pair{"unstructured", "layer"}, {"vector:4", "layer"}, {"vector:8", "network"}}) {
    const std::string pattern = name;
    prune_in_rounds(2);
    recipe.prune.pattern = pattern;
    recipe.prune.scope = scope;
    recipe.prune.rewind_epoch = 1;
    const std::string whole = folder / (pattern + "-whole"), parts = folder / (pattern + "-parts");
    Trainer all(recipe, {.out = whole});
    all.run();
    // Amid the dense epochs, at the beginning of a round, and amid the last one.
    for (const int64_t steps : {2, 6, 3, 4}) {
      Trainer part(recipe, {.max_steps = steps, .out = parts, .resume = parts});
      part.train();
    }
    Trainer last(recipe, {.out = parts, .resume = parts});
    const TrainResult result = last.run();
    EXPECT_EQ(result.total_steps, (2 + 1 + 1) * 4) << pattern;
    EXPECT_EQ(numbers_of(last.model()), numbers_of(all.model())) << pattern;
    EXPECT_EQ(tests::slurp(whole + "/model.safetensors"),
              tests::slurp(parts + "/model.safetensors"));
  }
}

TEST_F(PruneTraining, IsTheSameHoweverItsStepsRun) {
  prune_in_rounds(2);
  recipe.optimizer.clip_norm = 1;
  Trainer plain(recipe, {.passes = "exact"});
  plain.run();
  Trainer resident(recipe, {.data_on_device = true, .steps_per_graph = 2, .passes = "exact"});
  resident.run();
  EXPECT_EQ(numbers_of(resident.model()), numbers_of(plain.model()));
  recipe.virtual_ranks = 2;
  Trainer one(recipe, {.passes = "exact"});
  one.run();
  EXPECT_NEAR(zeros(one.model(), recipe), 0.75, 1e-3);
  if (Device::count("sim") < 2) return;
  Trainer two(recipe, {.devices = {Device::sim(0), Device::sim(1)}, .passes = "exact"});
  two.run();
  EXPECT_EQ(numbers_of(two.model()), numbers_of(one.model()));
}

TEST_F(PruneTraining, BeginsWithTrainedWeightsAndThoseOfAFile) {
  Trainer(recipe, {.max_steps = 2, .out = folder / "early"}).run();
  Trainer(recipe, {.out = folder / "dense"}).run();
  prune_in_rounds(1);
  recipe.prune.is_trained = true;
  recipe.prune.rewind_weights = folder / "early/model.safetensors";
  recipe.optimizer.lr = 0;  // what is rewound to stays
  recipe.optimizer.momentum = 0;
  recipe.optimizer.weight_decay = 0;
  Trainer trainer(recipe, {.weights = folder / "dense/model.safetensors"});
  const TrainResult result = trainer.run();
  EXPECT_EQ(result.steps, 2 * 4);
  EXPECT_EQ(result.epochs_done, 2);
  EXPECT_NEAR(zeros(trainer.model(), recipe), 0.75, 1e-3);
  const auto early = WeightsFile(recipe.prune.rewind_weights).load_all();
  for (const auto& [name, values] : numbers_of(trainer.model())) {
    const std::vector<float> wanted = early.at(name).to_vector<float>();
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_TRUE(values[i] == 0 || values[i] == wanted[i]) << name;
  }
  recipe.prune.rewind_weights = folder / "none.safetensors";
  EXPECT_NE(error_of({.weights = folder / "dense/model.safetensors"}).find("none.safetensors"),
            std::string::npos);
}

TEST_F(PruneTraining, RefusesRoundsThatMakeNoSense) {
  const auto refused = [&](auto change, const char* part) {
    prune_in_rounds(2);
    change(recipe.prune);
    const std::string message = error_of();
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  refused([](PruneRecipe& p) { p.pattern = "2:4"; }, "2 rounds of pruning");
  refused([](PruneRecipe& p) { p.rewind_epoch = 2; }, "leaves nothing to train");
  refused([](PruneRecipe& p) { p.is_trained = true, p.rewind_epoch = 1; }, "prune.rewind_weights");
  refused([](PruneRecipe& p) { p.rewind_weights = "x", p.rewind = "learning-rate"; }, "rewound to");
  refused([](PruneRecipe& p) { p.rewind = "all"; }, "'all'");
  refused([](PruneRecipe& p) { p.schedule = "cubic"; }, "'cubic'");
  refused([](PruneRecipe& p) { p.scope = "all"; }, "'all'");
  refused([](PruneRecipe& p) { p.pattern = "2:4", p.scope = "network"; }, "prune.scope");
  refused([](PruneRecipe& p) { p = {.pattern = "channels", .scope = "network"}; }, "prune.scope");
}

TEST_F(PruneTraining, LeavesOutChannelsBeforeTheFirstStep) {
  Trainer(recipe, {.out = folder / "dense"}).run();
  recipe.prune = {.pattern = "channels", .sparsity = 0.5, .dense = {"fc1"}};
  const std::string whole = folder / "whole", parts = folder / "parts";
  const std::string weights = folder / "dense/model.safetensors";
  Trainer trainer(recipe, {.out = whole, .weights = weights});
  trainer.run();
  const WeightsFile file(whole + "/model.safetensors");
  EXPECT_EQ(file.info("conv2.weight").shape, (Shape{8, 3, 5, 5}));
  EXPECT_EQ(file.info("fc1.weight").shape[0], 120);
  EXPECT_EQ(file.info("fc2.weight").shape[0], 48);
  const Recipe saved = *read_weights_info(file).recipe;
  EXPECT_TRUE(saved.prune.pattern.empty()) << "it is pruned";
  EXPECT_EQ(saved.channels.outputs.at("conv2"), 8);

  // A run that goes on has the channels of the checkpoint.
  Trainer(recipe, {.max_steps = 3, .out = parts, .weights = weights}).train();
  Trainer second(recipe, {.out = parts, .resume = parts});
  second.run();
  EXPECT_EQ(numbers_of(second.model()), numbers_of(trainer.model()));
  EXPECT_FALSE(checkpoint_recipe(parts).channels.outputs.empty());

  // At random, with a warning.
  std::string warning;
  Trainer random(recipe, {.warn = [&](const std::string& line) { warning = line; }});
  EXPECT_NE(warning.find("by chance"), std::string::npos) << warning;
  recipe.prune.epochs = 1;
  EXPECT_NE(error_of().find("leave prune.epochs out"), std::string::npos) << error_of();
  recipe.prune = {.pattern = "channels", .schedule = "iterative"};
  EXPECT_NE(error_of().find("leave prune.schedule out"), std::string::npos) << error_of();
  recipe.prune = {.pattern = "channels", .dense = {"conv9"}};
  EXPECT_NE(error_of().find("conv9"), std::string::npos) << error_of();
}

}  // namespace
}  // namespace brim::train
