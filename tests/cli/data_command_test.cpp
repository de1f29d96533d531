// `brim data` from one format to the next, and damaged pictures on their way through training.
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "cli/run_brim.h"
#include "data/scratch.h"

namespace brim::tests {
namespace {

namespace dt = data::tests;

class DataCommand : public ::testing::Test {
 protected:
  DataCommand() {
    for (int i = 0; i < 24; ++i) {
      const std::string name = (i < 16 ? "train/" : "test/") + std::string(i % 2 ? "a/" : "b/");
      dt::write_bytes(folder / ("pictures/" + name + std::to_string(i) + ".jpg"),
                      dt::jpeg(32, 32, i));
    }
  }
  std::string recipe(const std::string& input) {
    std::ofstream(folder / "r.toml") << "epochs = 1\n[input]\n" << input << "\n";
    return folder / "r.toml";
  }
  TemporaryFolder folder;
  const std::string pictures = folder / "pictures";
};

TEST_F(DataCommand, EveryFormatPassesVerification) {
  for (const std::string format : {"cifar10", "folder", "tar", "safetensors"}) {
    const std::string out = folder / format;
    const Ran convert = run_brim({"data", "convert", pictures, out, "--to", format});
    ASSERT_EQ(convert.code, 0) << convert.err;
    EXPECT_NE(convert.out.find("16 training and 8 test images of 2 classes"), std::string::npos)
        << convert.out;
    EXPECT_EQ(run_brim({"data", "verify", out}).code, 0) << format;
  }
  const Ran shards = run_brim({"data", "convert", pictures, folder / "s", "--to", "shards"});
  EXPECT_EQ(shards.code, 0) << shards.err;
  EXPECT_EQ(run_brim({"data", "verify", folder / "s/train-{000000..000000}.tar"}).code, 0);
  const Ran unknown = run_brim({"data", "convert", pictures, folder / "x", "--to", "zip"});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_NE(unknown.err.find("unknown format 'zip'"), std::string::npos) << unknown.err;
}

TEST_F(DataCommand, WhatAKilledConversionLeftGoesWithTheNext) {
  const std::string out = folder / "out", left = folder / ".out.*.tmp";
  const Ran killed = run_brim({"data", "convert", "shapes10", out, "--to", "folder"},
                              signal_when("ls -d " + left + " >/dev/null 2>&1", "KILL"));
  ASSERT_EQ(killed.code, 128 + SIGKILL) << killed.err;
  ASSERT_EQ(std::system(("ls -d " + left + " >/dev/null 2>&1").c_str()), 0);
  const Ran ran = run_brim({"data", "convert", pictures, out, "--to", "folder"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(std::system(("ls -d " + left + " >/dev/null 2>&1").c_str()), 0);
}

TEST_F(DataCommand, GetSaysWhatWentWrong) {
  const Ran unknown = run_brim({"data", "get", "cifar"});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_NE(unknown.err.find("no known data set 'cifar'"), std::string::npos) << unknown.err;
}

TEST_F(DataCommand, RandomPartsOfDamagedPicturesAreSkippedAndCounted) {
  const std::string bad = pictures + "/train/a/bad.jpg";
  const auto good = dt::jpeg(32, 32, 1);
  dt::write_bytes(bad, {good.begin(), good.end() - 40});
  const std::string input = "size = 32\nrandom_resized_crop = true\n";
  Ran ran = run_brim({"train", recipe(input), "--data", pictures});
  EXPECT_EQ(ran.code, 1);
  EXPECT_NE(ran.err.find(bad + ": damaged or truncated JPEG"), std::string::npos) << ran.err;

  const std::string json = folder / "r.json";
  ran = run_brim(
      {"train", recipe(input + "on_corrupt = \"skip\""), "--data", pictures, "--json", json});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("1 corrupt samples were left out"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("loader: "), std::string::npos) << ran.out;
  const auto result = nlohmann::json::parse(slurp(json));
  EXPECT_EQ(result["skipped"], 1);
  EXPECT_EQ(result["loader"]["workers"], result["workers"]);
  EXPECT_GE(result["loader"]["slots"], 1);
  EXPECT_FALSE(result["loader"]["decisions"].empty());
}

}  // namespace
}  // namespace brim::tests
