// Networks that imitate others: the loss, what they learn by it, and what is no teacher.
#include <brim/io/safetensors.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/shape.h>
#include <brim/train/task.h>
#include <brim/train/trainer.h>
#include <brim/train/weights.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <vector>

#include "message_of.h"
#include "temporary_folder.h"
#include "train/run_folder.h"
#include "train/tiny_data.h"

namespace brim::train {
namespace {

using tests::slurp;

class DistillTest : public ::testing::Test {
 protected:
  DistillTest() {
    tests::write_tiny_cifar(folder / "data");
    recipe = load_recipe("tutorial-cnn");
    recipe.data = folder / "data";
    recipe.epochs = 4;
    recipe.batch = 10;
    recipe.optimizer.lr = 0.02;
    Trainer(recipe, {.out = folder / "teacher"}).run();
    recipe.distill = {.teacher = folder / "teacher/model.safetensors", .weight = 1};
    recipe.seed = 1;
  }
  /// How far a trained network is from its teacher, on the test split.
  double distance(Trainer& trainer) const {
    const WeightsFile file(recipe.distill.teacher);
    const auto teacher = make_network(recipe, trainer.data(), Device::cpu());
    load_weights(file, *teacher);
    teacher->eval();
    trainer.model().eval();
    const auto task = make_task(recipe);
    double sum = 0;
    for (const data::Batch& batch : trainer.test_loader()->epoch(0))
      sum += task->imitation_loss(trainer.model()(batch.x), (*teacher)(batch.x), 1).item();
    return sum;
  }
  std::string error_of() {
    return tests::message_of([&] { Trainer(recipe, {}).run(); });
  }
  tests::TemporaryFolder folder;
  Recipe recipe;
};

TEST(ImitationLoss, IsTheDivergenceOfSoftenedProbabilities) {
  const Tensor output = Tensor::from<float>({1, 2, 0, -1, 3, 0.5F}, {2, 3});
  const Tensor teacher = Tensor::from<float>({0, 2, 1, 1, 1, -4}, {2, 3});
  constexpr double kTemperature = 3;
  double wanted = 0;
  for (int n = 0; n < 2; ++n) {
    double log_sums[2] = {0, 0};
    const auto at = [&](const Tensor& t, int c) {
      return static_cast<double>(t.to_vector<float>()[static_cast<size_t>(3 * n + c)]) /
             kTemperature;
    };
    for (int c = 0; c < 3; ++c)
      log_sums[0] += std::exp(at(output, c)), log_sums[1] += std::exp(at(teacher, c));
    for (int c = 0; c < 3; ++c) {
      const double log_p = at(teacher, c) - std::log(log_sums[1]);
      const double log_q = at(output, c) - std::log(log_sums[0]);
      wanted += std::exp(log_p) * (log_p - log_q) / 2 * kTemperature * kTemperature;
    }
  }
  const auto classify = make_task({.task = "classify"});
  EXPECT_NEAR(classify->imitation_loss(output, teacher, kTemperature).item(), wanted, 1e-5);
  // A class for each pixel, or for each token: the same of what is there.
  const auto segment = make_task({.task = "segment"});
  EXPECT_NEAR(segment
                  ->imitation_loss(output.transpose(0, 1).reshape({1, 3, 1, 2}),
                                   teacher.transpose(0, 1).reshape({1, 3, 1, 2}), kTemperature)
                  .item(),
              wanted, 1e-5);
  const auto language = make_task({.task = "language"});
  EXPECT_NEAR(
      language->imitation_loss(output.reshape({1, 2, 3}), teacher.reshape({1, 2, 3}), kTemperature)
          .item(),
      wanted, 1e-5);
}

TEST(ImitationLoss, IsNothingBetweenEqualOutputs) {
  const Tensor output = Tensor::from<float>({1, 2, 0, -1, 3, 0.5F}, {2, 3});
  for (const char* name : {"classify", "multilabel", "regress", "segment"})
    EXPECT_NEAR(make_task({.task = name})->imitation_loss(output, output.clone(), 2).item(), 0,
                1e-6)
        << name;
  const Tensor other = output + 1;
  EXPECT_NEAR(make_task({.task = "regress"})->imitation_loss(output, other, 2).item(), 1, 1e-6);
  EXPECT_GT(make_task({.task = "multilabel"})->imitation_loss(output, other, 2).item(), 0.05);
}

TEST_F(DistillTest, BringsANetworkCloserToItsTeacher) {
  Trainer taught(recipe, {});
  const double before = distance(taught);
  taught.train();
  const double after = distance(taught);
  EXPECT_LT(after, before / 2);
  Recipe alone_recipe = recipe;
  alone_recipe.distill = {};
  Trainer alone(alone_recipe, {});
  alone.train();
  EXPECT_LT(after, distance(alone));
}

TEST_F(DistillTest, DoesSoInCompiledAndEagerStepsAlike) {
  const auto weights = [&](bool compile) {
    Trainer trainer(recipe, {.compile = compile, .passes = "exact"});
    const TrainResult result = trainer.train();
    EXPECT_EQ(result.compile.fell_back, compile ? "" : "switched off");
    return trainer.model().state_dict().at("fc3.weight").to_vector<float>();
  };
  const std::vector<float> eager = weights(false), compiled = weights(true);
  for (size_t i = 0; i < eager.size(); ++i) EXPECT_NEAR(compiled[i], eager[i], 1e-4);
}

TEST_F(DistillTest, GoesOnWithTheSameBits) {
  Trainer(recipe, {.out = folder / "whole"}).run();
  for (const int64_t steps : {7, 100}) {
    // The teacher may have moved.
    std::filesystem::create_directories(folder / "elsewhere");
    const std::string moved = folder / "elsewhere/teacher.safetensors";
    std::filesystem::copy_file(folder / "teacher/model.safetensors", moved,
                               std::filesystem::copy_options::overwrite_existing);
    if (steps == 100) recipe.distill.teacher = moved;
    std::filesystem::create_directories(folder / "parts");
    Trainer(recipe, {.max_steps = steps, .out = folder / "parts", .resume = folder / "parts"})
        .run();
  }
  const auto tensors = [&](const char* run) {
    return WeightsFile(folder / (std::string(run) + "/model.safetensors")).load_all();
  };
  const auto whole = tensors("whole"), parts = tensors("parts");
  for (const auto& [name, t] : whole)
    EXPECT_EQ(parts.at(name).to_vector<float>(), t.to_vector<float>()) << name;
}

TEST_F(DistillTest, GoesOnWithTheSameTeacherAlone) {
  const auto part = [&] {
    Trainer(recipe, {.max_steps = 3, .out = folder / "parts", .resume = folder / "parts"}).run();
  };
  std::filesystem::create_directories(folder / "parts");
  part();
  Recipe other = recipe;
  other.distill = {};
  other.epochs = 1;
  Trainer(other, {.out = folder / "other"}).run();
  const std::string teacher = recipe.distill.teacher;
  recipe.distill.teacher = folder / "other/model.safetensors";
  EXPECT_NE(tests::message_of(part).find("taught by another network"), std::string::npos)
      << tests::message_of(part);
  recipe.distill = {};
  EXPECT_NE(tests::message_of(part).find("with a teacher"), std::string::npos);
  recipe.distill = {.teacher = teacher, .weight = 1};
  part();
}

TEST_F(DistillTest, IsTaughtOnSeveralDevices) {
  Trainer trainer(recipe, {.devices = Device::list("sim:0,sim:1")});
  EXPECT_TRUE(std::isfinite(trainer.train().final_loss));
}

TEST_F(DistillTest, SaysWhatIsNoTeacher) {
  recipe.distill.teacher = folder / "nowhere.safetensors";
  EXPECT_NE(error_of().find("nowhere.safetensors"), std::string::npos) << error_of();

  recipe.distill.teacher = folder / "nameless.safetensors";
  io::save_safetensors(recipe.distill.teacher, {{"fc.weight", zeros({2, 2})}});
  EXPECT_NE(error_of().find("which recipe"), std::string::npos) << error_of();

  const WeightsFile teacher(folder / "teacher/model.safetensors");
  WeightsInfo info = read_weights_info(teacher);
  info.classes[0] = "another";
  recipe.distill = {};
  Trainer like(recipe, {});
  const std::string other = folder / "other.safetensors";
  save_weights(other, like.model(), info);
  recipe.distill.teacher = other;
  EXPECT_NE(error_of().find("in another order"), std::string::npos) << error_of();

  io::TensorMap damaged = teacher.load_all();
  damaged["fc3.bias"] = full(damaged["fc3.bias"].shape(), std::nan(""));
  recipe.distill.teacher = folder / "damaged.safetensors";
  io::save_safetensors(recipe.distill.teacher, damaged, teacher.metadata());
  EXPECT_NE(error_of().find("fc3.bias holds a NaN"), std::string::npos) << error_of();

  recipe.distill.teacher = folder / "teacher/model.safetensors";
  recipe.input.mean = {0.4, 0.5, 0.5};
  EXPECT_NE(error_of().find("input.mean = [0.5, 0.5, 0.5]"), std::string::npos) << error_of();
}

}  // namespace
}  // namespace brim::train
