// Training in mixed precision: loss curves against fp32, devices and plans against each other, and
// checkpoints.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include <brim/train/trainer.h>

#include "message_of.h"
#include "temporary_folder.h"
#include "train/run_folder.h"
#include "train/tiny_data.h"

namespace brim::train {
namespace {

using tests::slurp;

class PrecisionTest : public ::testing::Test {
 protected:
  PrecisionTest() {
    tests::write_tiny_cifar(folder / "data", 200);
    recipe = load_recipe("tutorial-cnn");
    recipe.data = folder / "data";
    recipe.epochs = 1;  // of 50 steps
    recipe.optimizer.lr = 0.003;
  }
  /// The loss of each step.
  std::vector<double> losses(const std::string& precision, TrainOptions options = {}) {
    recipe.precision = precision;
    std::vector<double> all;
    options.reports_per_epoch = 1000;
    options.progress = [&](const Progress& p) {
      if (p.report) all.push_back(p.loss);
    };
    Trainer trainer(recipe, options);
    result = trainer.train();
    for (const Tensor& p : trainer.model().parameters()) EXPECT_EQ(p.dtype(), f32);
    return all;
  }
  std::string error_of(const TrainOptions& options) {
    return tests::message_of([&] { Trainer(recipe, options).run(); });
  }
  /// Relative, of all steps.
  static double largest_difference(const std::vector<double>& got,
                                   const std::vector<double>& want) {
    EXPECT_EQ(got.size(), want.size());
    double most = 0;
    for (size_t i = 0; i < got.size(); ++i)
      most = std::max(most, std::abs(got[i] - want[i]) / want[i]);
    return most;
  }
  tests::TemporaryFolder folder;
  Recipe recipe;
  TrainResult result;
};

TEST_F(PrecisionTest, LossCurvesFollowFp32) {
  const std::vector<double> want = losses("fp32");
  ASSERT_EQ(want.size(), 50u);
  EXPECT_LT(want.back(), want.front());
  EXPECT_EQ(losses("tf32"), want);  // on the CPU it is fp32
  for (const auto& [precision, tolerance] : {std::pair("fp16", 0.004), std::pair("bf16", 0.03)})
    for (const bool compile : {false, true}) {
      const std::vector<double> got = losses(precision, {.compile = compile});
      ASSERT_EQ(got.size(), want.size());
      EXPECT_NE(got, want);
      EXPECT_LE(largest_difference(got, want), tolerance) << precision;
      EXPECT_EQ(result.loss_scale > 0, precision == std::string("fp16"));
      if (compile) {
        EXPECT_EQ(result.compile.fell_back, "");
      }
    }
}

TEST_F(PrecisionTest, VirtualAcceleratorsGiveTheSameBits) {
  if (Device::count(DeviceKind::sim) == 0) GTEST_SKIP() << "no virtual accelerators";
  for (const char* precision : {"fp16", "bf16"})
    for (const bool compile : {false, true})
      EXPECT_EQ(losses(precision, {.devices = {Device("sim:0")}, .compile = compile}),
                losses(precision, {.compile = compile}))
          << precision;
}

TEST_F(PrecisionTest, SeveralDevicesShareTheScale) {
  if (Device::count(DeviceKind::sim) < 2) GTEST_SKIP() << "fewer than two virtual accelerators";
  const std::vector<double> want = losses("fp32");
  const std::vector<double> got = losses("fp16", {.devices = {Device("sim:0"), Device("sim:1")}});
  EXPECT_LE(largest_difference(got, want), 0.004);
  EXPECT_EQ(result.loss_scale, 65536);
}

TEST_F(PrecisionTest, GradientsMayBeClippedInFp16) {
  recipe.optimizer.clip_norm = 0.5;
  const std::vector<double> want = losses("fp32"), got = losses("fp16");
  EXPECT_LE(largest_difference(got, want), 0.004);
}

TEST_F(PrecisionTest, Fp16GoesOnBitForBit) {
  recipe.precision = "fp16";
  recipe.optimizer = {.name = "adam", .lr = 0.001};
  recipe.epochs = 2;
  const std::string whole = folder / "whole", parts = folder / "parts";
  Trainer(recipe, {.out = whole}).run();
  Trainer(recipe, {.max_steps = 17, .out = parts}).run();
  EXPECT_NE(slurp(list_checkpoints(parts)[0] + "/state.json").find("growth_tracker"),
            std::string::npos);
  Trainer(recipe, {.max_steps = 40, .out = parts, .resume = parts}).run();
  Trainer(recipe, {.out = parts, .resume = parts}).run();
  EXPECT_EQ(slurp(whole + "/model.safetensors"), slurp(parts + "/model.safetensors"));
  for (const char* file : {"/optimizer.safetensors", "/state.json"})
    EXPECT_EQ(slurp(list_checkpoints(whole)[0] + file), slurp(list_checkpoints(parts)[0] + file))
        << file;
}

TEST_F(PrecisionTest, AnotherPrecisionIsRefusedUnlessAskedFor) {
  recipe.precision = "bf16";
  const std::string out = folder / "run";
  Trainer(recipe, {.max_steps = 5, .out = out}).run();
  recipe.precision = "fp16";
  TrainOptions options = {.max_steps = 5, .resume = out};
  const std::string error = error_of(options);
  EXPECT_NE(error.find("was trained in bf16, and now it is fp16"), std::string::npos) << error;
  EXPECT_NE(error.find("Recipe::precision=fp16"), std::string::npos) << error;
  std::vector<std::string> warnings;
  options.change_precision = true;
  options.warn = [&](const std::string& line) { warnings.push_back(line); };
  EXPECT_EQ(error_of(options), "no error");
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("was trained in bf16 and goes on in fp16"), std::string::npos);
  EXPECT_EQ(checkpoint_recipe(out).precision, "fp16");
}

TEST_F(PrecisionTest, TheRecipeSaysIt) {
  EXPECT_EQ(parse_recipe("precision = \"bf16\"", "r").precision, "bf16");
  EXPECT_EQ(parse_recipe("epochs = 1", "r").precision, "fp32");
  EXPECT_EQ(autocast_dtype(parse_recipe("precision = \"fp16\"", "r")), f16);
  EXPECT_EQ(autocast_dtype(parse_recipe("precision = \"tf32\"", "r")), f32);
  EXPECT_THROW(parse_recipe("precision = \"fp8\"", "r"), ValueError);
  EXPECT_THROW(parse_recipe("precision = 16", "r"), ValueError);
}

}  // namespace
}  // namespace brim::train
