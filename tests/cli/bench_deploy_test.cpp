// `brim bench deploy`: the networks and samples that bench/compare_deploy.py measures, and the way
// to it.
#include <brim/autograd/autograd.h>
#include <brim/core/tensor.h>
#include <brim/io/safetensors.h>
#include <brim/nn/models.h>
#include <brim/train/weights.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/bench_command.h"

namespace brim::tests {
namespace {

using nlohmann::json;

using BenchDeploy = BenchCommand;

TEST_F(BenchDeploy, WritesANetworkAndItsSamples) {
  const Ran ran = run_brim({"bench", "deploy", "tutorial-cnn", "--samples", folder.path(),
                            "--precision", "fp32", "--batch", "1,3"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const json about = json::parse(ran.out);
  EXPECT_EQ(about["input"], (std::vector<int64_t>{3, 32, 32}));
  EXPECT_EQ(about["flops"], 1'303'440);
  EXPECT_EQ(about["parameters"], 62'006);
  EXPECT_EQ(about["int8_layers"], 0);
  // Others compute the same with those weights.
  const NoGrad scope;
  const auto network = nn::make_model("tutorial-cnn");
  train::load_weights(train::WeightsFile(about["weights"]), *network);
  network->eval();
  const io::TensorMap samples = io::load_safetensors(about["samples"]);
  ASSERT_EQ(samples.size(), 4U);
  for (const int64_t batch : {1, 3}) {
    const Tensor& x = samples.at(std::to_string(batch) + ":input");
    EXPECT_EQ(x.shape(), Shape({batch, 3, 32, 32}));
    const Tensor y = (*network)(x), want = samples.at(std::to_string(batch) + ":output");
    ASSERT_EQ(y.shape(), want.shape());
    for (int64_t i = 0; i < y.numel(); ++i) EXPECT_EQ(y.data<float>()[i], want.data<float>()[i]);
  }
}

TEST_F(BenchDeploy, WritesLayersInIntegersAndSamplesOfThem) {
  const Ran ran = run_brim({"bench", "deploy", "mlp", "--samples", folder.path(), "--precision",
                            "int8", "--batch", "1"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const json about = json::parse(ran.out);
  EXPECT_EQ(about["int8_layers"], 3);
  EXPECT_GT(about["flops"], 0);
  // The same, out of the file.
  const Ran again = run_brim({"bench", "deploy", "--weights", about["weights"], "--samples",
                              folder.path(), "--precision", "int8", "--batch", "2"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(json::parse(again.out)["int8_layers"], 3);
  EXPECT_EQ(json::parse(again.out)["model"], "mlp");
  EXPECT_EQ(io::load_safetensors(about["samples"]).at("2:output").shape(), Shape({2, 10}));
}

TEST_F(BenchDeploy, TakesTheSizeOfInputsFromARecipe) {
  const std::string weights = folder / "w.safetensors";
  io::save_safetensors(weights, nn::make_model("tutorial-cnn")->state_dict());  // says nothing
  const std::vector<std::string> args = {"bench",     "deploy",      "--weights",   weights,
                                         "--samples", folder.path(), "--precision", "fp32",
                                         "--batch",   "1",           "--recipe"};
  const auto with = [&](const std::string& recipe) {
    std::vector<std::string> all = args;
    all.push_back(recipe);
    return all;
  };
  const Ran ran = run_brim(with("tutorial-cnn"));
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(json::parse(ran.out)["input"], (std::vector<int64_t>{3, 32, 32}));
  const std::string recipe = folder / "r.toml";
  std::ofstream(recipe) << "model = \"tutorial-cnn\"\n";
  fails(with(recipe), 1, "nor its recipe says how large an input is");
}

TEST_F(BenchDeploy, RefusesWhatDoesNotFit) {
  fails({"bench", "deploy", "resnet19"}, 2, "there is no network 'resnet19'; did you mean");
  fails({"bench", "deploy", "resnet18", "--weights", "w"}, 2, "give one of them");
  fails({"bench", "deploy", "--weights", "model.brim"}, 2, "it is an engine");
  fails({"bench", "deploy", "--recipe", "r"}, 2, "--recipe is of --weights");
  fails({"bench", "deploy", "--batch", "0"}, 2, "--batch");
  fails({"bench", "deploy", "--batch", "1,0x10"}, 2, "0x10");
  fails({"bench", "deploy", "--isa", "neon"}, 2, "--isa");
  fails({"bench", "deploy", "--side", "tensorrt"}, 2, "--side");
  fails({"bench", "deploy", "mlp", "--samples", folder.path()}, 2, "--samples takes one network");
  fails({"bench", "deploy", "mlp", "--samples", folder / "no/such", "--precision", "fp32",
         "--batch", "1"},
        1, "no/such");
  fails({"bench", "deploy", "--svg", folder / "no/such.svg"}, 1, "make the folder first");
  fails({"bench", "deploy", "--python", "/bin/true"}, 1, "does not run Python's code");
  if (std::system("python3 -c '' 2>/dev/null") != 0) GTEST_SKIP() << "there is no python3";
  std::ofstream(folder / "numpy.py") << "raise ImportError('not here')\n";
  fails({"bench", "deploy", "mlp"}, 1, "pip install numpy onnxruntime",
        "export BRIM_PYTHON=python3 PYTHONPATH=" + in_quotes(folder.path()) + ";");
}

}  // namespace
}  // namespace brim::tests
