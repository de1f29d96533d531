// How far the making of an engine is, and what is refused before it begins.
#include <brim/deploy/engine.h>
#include <brim/nn/models.h>
#include <brim/ops/create.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "diag/machine/parts.h"
#include "temporary_folder.h"

namespace brim::tests {
namespace {

TEST(EngineProgress, GrowsWithinEachPart) {
  const TemporaryFolder folder;
  const auto network = nn::make_model("tutorial-cnn");
  std::vector<std::string> parts;
  double last = 0;
  int64_t calls = 0;
  const auto progress = [&](const std::string& what, double fraction) {
    if (parts.empty() || parts.back() != what) {
      EXPECT_EQ(fraction, 0) << what;
      parts.push_back(what);
      last = 0;
    }
    EXPECT_GE(fraction, last) << what;
    EXPECT_LE(fraction, 1) << what;
    last = fraction;
    ++calls;
  };
  deploy::save_engine(folder / "model.brim", *network, randn({1, 3, 32, 32}),
                      {.threads = 1, .progress = progress});
  EXPECT_EQ(parts, (std::vector<std::string>{"samples drawn", "samples computed", "layers measured",
                                             "batches verified"}));
  EXPECT_GT(calls, 20) << "layer by layer";
}

TEST(EngineProgress, NothingIsComputedOfWhatCannotFit) {
  const TemporaryFolder folder;
  // The input takes a 32nd of the memory that is free, the output twice as much as there is.
  const auto side = static_cast<int64_t>(std::sqrt(diag::usable_memory() / 128.0));
  nn::Sequential network;
  network.push<nn::Conv2d>({.in = 1, .out = 64, .kernel = 1});
  bool began = false;
  EXPECT_THROW(deploy::save_engine(folder / "model.brim", network,
                                   Tensor::empty({1, 1, side, side}, f32, Device::cpu()),
                                   {.progress = [&](const std::string&, double) { began = true; }}),
               OutOfMemory);
  EXPECT_FALSE(began);
  EXPECT_FALSE(std::filesystem::exists(folder / "model.brim"));
}

}  // namespace
}  // namespace brim::tests
