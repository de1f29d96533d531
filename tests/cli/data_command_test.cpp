// `brim data` from one format to the next, its checks, and damaged pictures on their way through
// training.
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "cli/run_brim.h"
#include "data/idx_files.h"
#include "data/scratch.h"

namespace brim::tests {
namespace {

namespace dt = data::tests;
namespace fs = std::filesystem;
using nlohmann::json;

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
  EXPECT_EQ(result["input"]["on_corrupt"], "skip");
  EXPECT_EQ(result["loader"]["workers"], result["workers"]);
  EXPECT_GE(result["loader"]["slots"], 1);
  EXPECT_FALSE(result["loader"]["decisions"].empty());
  const auto& workers = result["loader"]["worker_seconds"];
  ASSERT_EQ(workers["each"].size(), result["workers"]);
  // On a busy machine all of so short a run may count as stolen.
  const auto& sum = workers["sum"];
  EXPECT_GT(sum["decode"].get<double>() + sum["stolen"].get<double>(), 0);
  EXPECT_NE(ran.out.find("beside it 1 worker: "), std::string::npos) << ran.out;
}

TEST_F(DataCommand, ReplacedPicturesAreNotSaidToBeLeftOut) {
  dt::write_bytes(pictures + "/train/a/bad.jpg", {1, 2, 3});
  const std::string json = folder / "r.json";
  const Ran ran = run_brim({"train", recipe("size = 32\non_corrupt = \"skip\""), "--data", pictures,
                            "--virtual-ranks", "2", "--json", json});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("1 corrupt samples were replaced by others"), std::string::npos)
      << ran.out;
  const auto result = nlohmann::json::parse(slurp(json));
  EXPECT_EQ(result["skipped"], 1);
  EXPECT_EQ(result["input"]["on_corrupt"], "replace");
}

TEST_F(DataCommand, ConvertCopiesCifar) {
  write_tiny_cifar(folder / "data");
  const Ran ran = run_brim({"data", "convert", folder / "data", folder / "copy"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(fs::file_size(folder / "copy/data_batch_1.bin"), 60U * 3073);
  EXPECT_EQ(fs::file_size(folder / "copy/test_batch.bin"), 20U * 3073);
  EXPECT_EQ(run_brim({"data", "convert", folder / "data", folder / "copy"}).code, 1);
}

/// An MNIST of 12 training and 4 test pictures.
void write_mnist(const std::string& path) {
  fs::create_directories(path);
  const auto write = [&](const std::string& name, const std::vector<uint8_t>& bytes) {
    std::ofstream(path + "/" + name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  };
  write("train-images-idx3-ubyte", idx_images(12));
  write("train-labels-idx1-ubyte", idx_labels({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1}));
  write("t10k-images-idx3-ubyte", idx_images(4));
  write("t10k-labels-idx1-ubyte", idx_labels({3, 2, 1, 0}));
}

TEST_F(DataCommand, Mnist) {
  write_mnist(folder / "mnist");
  Ran ran = run_brim({"train", "tutorial-cnn", "--data", folder / "mnist", "--json", "-"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const json r = json::parse(ran.out);
  EXPECT_EQ(r["steps"], 6);
  EXPECT_TRUE(r["per_class"].contains("9"));
  ran = run_brim({"data", "convert", folder / "mnist", folder / "copy", "--resize"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(fs::file_size(folder / "copy/test_batch.bin"), 4U * 3073);
}

TEST_F(DataCommand, Verify) {
  write_mnist(folder / "mnist");
  write_tiny_cifar(folder / "data");
  for (const std::string set : {"mnist", "data"}) {
    const Ran ran = run_brim({"data", "verify", folder / set, "--json", folder / "v.json"});
    ASSERT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(ran.err, "");
    EXPECT_NE(ran.out.find("no damage was found"), std::string::npos) << ran.out;
    const json v = json::parse(slurp(folder / "v.json"));
    EXPECT_EQ(v["sound"], true);
    EXPECT_EQ(v["images"], set == "mnist" ? 16 : 80);
    EXPECT_EQ(v["sizes"][0]["width"], set == "mnist" ? 28 : 32);
    EXPECT_EQ(v["splits"]["train"]["per_class"].size(), 10U);
  }
  for (int i = 0; i < 30; ++i) {
    const std::string name = folder / ("set/train/a/" + std::to_string(100 + i) + ".png");
    fs::create_directories(fs::path(name).parent_path());
    write_pixel_png(name);
    if (i % 5 != 0) std::ofstream(name) << "no picture";
  }
  Ran ran = run_brim({"data", "verify", folder / "set"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
  EXPECT_NE(ran.err.find("set: 24 of 30 images are damaged"), std::string::npos) << ran.err;
  EXPECT_NE(ran.out.find("damaged: train 1: " + (folder / "set/train/a/101.png: ")),
            std::string::npos)
      << ran.out;
  EXPECT_NE(ran.out.find("... and 4 more"), std::string::npos) << ran.out;
  ran = run_brim({"data", "verify", folder / "set", "--workers", "0", "--json", "-"});
  EXPECT_EQ(ran.code, 1);
  const json v = json::parse(ran.out);
  EXPECT_EQ(v["damaged"], 24);
  EXPECT_EQ(v["damage"].size(), 24U);
  EXPECT_EQ(v["damage"][0]["index"], 1);
}

}  // namespace
}  // namespace brim::tests
