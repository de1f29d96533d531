// `brim bench`: measurements and fixed numbers of steps, eager and compiled, and the way to
// PyTorch.
#include <brim/io/safetensors.h>
#include <brim/ops/create.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bench/command/flops.h"
#include "cli/bench_command.h"
#include "sanitized.h"

namespace brim::tests {
namespace {

using command::mlp_flops;
using command::resnet_flops;
using command::tutorial_flops;

using nlohmann::json;

using Bench = BenchCommand;

/// Every case, some steps of each, is tried by hand and in `brim bench compare`; here the quick
/// ones.
TEST_F(Bench, MeasuresEagerAndCompiled) {
  for (const std::string mode : {"eager", "compiled"}) {
    const Ran ran = run_brim({"bench", "mlp-784-128-10-b8", "chain-1k", "--mode", mode, "--rounds",
                              "1", "--seconds", "0.01", "--json", "-"});
    ASSERT_EQ(ran.code, 0) << ran.err;
    const json results = json::parse(ran.out)["results"];
    ASSERT_EQ(results.size(), 2U);
    const json& mlp = results[0];
    EXPECT_EQ(mlp["mode"], mode);
    EXPECT_GT(mlp["us_per_step"], 0);
    EXPECT_GT(mlp["share_of_peak"], 0);
    EXPECT_EQ(mlp["flops"], 8 * mlp_flops({784, 128, 10}));
    EXPECT_EQ(mlp.contains("compile"), mode == "compiled");
    EXPECT_EQ(results[1]["launches"], mode == "compiled" ? 1 : 5)
        << "a * b + c, two activations, * a";
    EXPECT_FALSE(results[1].contains("flops")) << "elementwise ops have no products";
  }
}

/// What blocks launch eagerly; a plan may only do with less.
TEST_F(Bench, CountsLaunchesAndBytesOfBlocks) {
  struct Eager {
    const char* name;
    int64_t launches, bytes;
  };
  for (const Eager& want : {Eager{"transformer-block", 36, 175'299'604},
                            {"transformer-block-dropout", 42, 192'076'820},
                            {"convnext-block", 24, 132'387'604},
                            {"mlp-block", 43, 319'127'572}}) {
    const auto ran = [&](const char* mode) {
      const Ran done =
          run_brim({"bench", want.name, "--mode", mode, "--steps", "2", "--json", "-"});
      EXPECT_EQ(done.code, 0) << done.err;
      return json::parse(done.out);
    };
    const json eager = ran("eager"), compiled = ran("compiled");
    EXPECT_EQ(eager["launches"], want.launches) << want.name;
    EXPECT_EQ(eager["operand_bytes"], want.bytes) << want.name;
    EXPECT_LE(compiled["launches"], want.launches) << want.name;
    EXPECT_LT(compiled["operand_bytes"], want.bytes) << want.name;
    EXPECT_EQ(compiled["launches"], compiled["compile"]["launches"]);
  }
}

TEST_F(Bench, EveryOpRunsCompiled) {
  const Ran ran =
      run_brim({"bench", "add-16", "relu-16", "matmul-32", "conv-8x14x14", "softmax-8x100",
                "layer-norm-8x64", "sum-1m", "--mode", "compiled", "--steps", "2", "--json", "-"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const json all = json::parse(ran.out);
  for (const json& result : all["results"]) EXPECT_EQ(result["compile"]["replays"], 2) << result;
}

TEST_F(Bench, OnAVirtualAccelerator) {
  for (const std::string mode : {"eager", "compiled"}) {
    const Ran ran = run_brim({"bench", "mlp-784-128-10-b8", "add-1m", "--device", "sim:1", "--mode",
                              mode, "--rounds", "1", "--seconds", "0.01", "--json", "-"});
    ASSERT_EQ(ran.code, 0) << ran.err;
    const json results = json::parse(ran.out)["results"];
    const json &mlp = results[0], &add = results[1];
    EXPECT_EQ(mlp["device"], "sim:1");
    EXPECT_GT(mlp["gflops"], 0);
    EXPECT_FALSE(mlp.contains("share_of_peak")) << "the peak is the CPU's";
    double sum = 0;
    for (const auto& [cause, fraction] : mlp["account"].items()) sum += fraction.get<double>();
    EXPECT_NEAR(sum, 1, 1e-9);
    EXPECT_GT(mlp["account"]["compute"], 0);
    for (const char* key : {"gb_per_s", "copy_gb_per_s", "share_of_copy"})
      EXPECT_GT(add[key], 0) << key;
  }
}

TEST_F(Bench, OpsThatMemoryDecidesAreToldBesideACopy) {
  if (BRIM_SANITIZED)
    GTEST_SKIP() << "64 MiB take minutes; sanitizers see these ops in their tests";
  for (const char* precision : {"fp32", "bf16"}) {
    const Ran ran =
        run_brim({"bench", "softmax-16m", "layer-norm-16m", "batch-norm-16m", "chain-16m",
                  "--rounds", "1", "--seconds", "0.001", "--precision", precision, "--json", "-"});
    ASSERT_EQ(ran.code, 0) << ran.err;
    const json results = json::parse(ran.out)["results"];
    ASSERT_EQ(results.size(), 4);
    const double element = precision == std::string("fp32") ? 4 : 2;
    // x and the result; in batch norm x twice; in the chain three operands.
    const std::vector<double> accesses{2, 2, 3, 4};
    for (size_t i = 0; i < results.size(); ++i) {
      const json& result = results[i];
      EXPECT_NEAR(result["gb_per_s"].get<double>() * result["us_per_step"].get<double>() * 1e3,
                  accesses[i] * element * (1 << 24), 1)
          << result;
      EXPECT_NEAR(result["share_of_copy"].get<double>(),
                  result["gb_per_s"].get<double>() / result["copy_gb_per_s"].get<double>(), 1e-6)
          << result;
    }
  }
}

TEST_F(Bench, OnTheEmulationOfCuda) {
  const std::string build = std::filesystem::path(brim_path()).parent_path().parent_path();
  const std::string backend = build + "/emulated/libbrim_cuda_emulated.so";
  if (access(backend.c_str(), R_OK) != 0) GTEST_SKIP() << "the emulation is not built";
  const Ran ran = run_brim({"bench", "matmul-32", "add-16", "--device", "cuda:1", "--mode",
                            "compiled", "--steps", "3", "--json", "-"},
                           "export BRIM_BACKEND_PATH=" + in_quotes(backend) + ";");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const json all = json::parse(ran.out);
  for (const json& result : all["results"]) {
    EXPECT_EQ(result["device"], "cuda:1");
    EXPECT_EQ(result["compile"]["replays"], 3);
    EXPECT_GT(result["peak_memory"], 0);
  }
}

TEST_F(Bench, ExplainsThePlan) {
  const Ran ran = run_brim({"bench", "mlp-784-128-10-b8", "--mode", "compiled", "--explain",
                            "--rounds", "1", "--seconds", "0.01"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const char* part : {"launches", "linear_step: ", " of operands\n", " in1(8, 784) own"})
    EXPECT_NE(ran.out.find(part), std::string::npos) << part << "\n" << ran.out;
}

TEST_F(Bench, SeveralStepsAtOnce) {
  const Ran ran =
      run_brim({"bench", "mlp-784-128-10-b8", "--mode", "compiled", "--steps-per-graph", "4",
                "--rounds", "1", "--seconds", "0.01", "--device", "sim:0", "--json", "-"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const json result = json::parse(ran.out);
  EXPECT_EQ(result["steps_per_graph"], 4);
  EXPECT_EQ(result["steps"].get<int64_t>() % 4, 0);
  EXPECT_GE(result["compile"]["replays"], result["steps"]);
  fails({"bench", "tutorial-b4", "--steps-per-graph", "4"}, 2, "needs --mode compiled");
  fails({"bench", "relu-16", "--mode", "compiled", "--steps-per-graph", "4"}, 2,
        "trains no network");
}

TEST_F(Bench, InOtherPrecisions) {
  for (const std::string precision : {"bf16", "fp16"})
    for (const std::string mode : {"eager", "compiled"}) {
      const Ran ran = run_brim({"bench", "mlp-784-128-10-b8", "matmul-32", "--precision", precision,
                                "--mode", mode, "--steps", "3", "--json", "-"});
      ASSERT_EQ(ran.code, 0) << ran.err;
      EXPECT_EQ(json::parse(ran.out)["results"][0]["precision"], precision);
    }
}

TEST_F(Bench, FmaPeak) {
  const Ran ran = run_brim({"bench", "fma-peak", "--json", "-"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const json peak = json::parse(ran.out);
  EXPECT_GT(peak["gflops_one_thread"], 0);
  EXPECT_GT(peak["gflops"], 0);
}

TEST_F(Bench, UsefulOperations) {
  EXPECT_EQ(tutorial_flops(), 3204720);
  EXPECT_EQ(mlp_flops({784, 128, 10}), 2 * (3 * (784 * 128 + 128 * 10) - 784 * 128));
  // torchvision tells so many products for a forward pass.
  for (const auto& [depth, products] : {std::pair{18, 1.814e9}, {34, 3.664e9}, {50, 4.089e9}})
    EXPECT_NEAR(resnet_flops(depth, 224, 1000, false) / 2, 3 * products - 118e6, 2e6) << depth;
}

TEST_F(Bench, StepsFromGivenWeightsOnGivenBatches) {
  const std::string first = folder / "first", batches = folder / "batches";
  ASSERT_EQ(run_brim({"bench", "mlp-784-128-10-b8", "--steps", "1", "--save", first}).code, 0);
  io::save_safetensors(batches, {{"x", rand({3, 8, 784})}, {"y", randint(0, 10, {3, 8})}});
  for (const std::string mode : {"eager", "compiled"}) {
    const Ran ran =
        run_brim({"bench", "mlp-784-128-10-b8", "--mode", mode, "--weights", first, "--batches",
                  batches, "--steps", "7", "--save", folder / mode, "--json", "-"});
    ASSERT_EQ(ran.code, 0) << ran.err;
    const json result = json::parse(ran.out);
    EXPECT_EQ(result["steps"], 7);
    for (const char* key : {"first_step_ms", "peak_rss", "peak_memory"})
      EXPECT_GT(result[key], 0) << key;
  }
  const auto before = io::load_safetensors(first), eager = io::load_safetensors(folder / "eager"),
             compiled = io::load_safetensors(folder / "compiled");
  for (const auto& [name, tensor] : before) {
    double change = 0, difference = 0;
    for (int64_t i = 0; i < tensor.numel(); ++i) {
      const float e = eager.at(name).data<float>()[i];
      change += std::pow(e - tensor.data<float>()[i], 2);
      difference += std::pow(e - compiled.at(name).data<float>()[i], 2);
    }
    EXPECT_GT(change, 0) << name;
    EXPECT_LE(std::sqrt(difference), 1e-4 * std::sqrt(change)) << name;
  }
}

TEST_F(Bench, RefusesWhatDoesNotFit) {
  const std::string bad = folder / "bad";
  io::save_safetensors(bad, {{"x", rand({3, 4, 784})}, {"y", randint(0, 10, {3, 4})}});
  fails({"bench", "mlp-784-128-10-b8", "--batches", bad, "--steps", "1"}, 1,
        "f32 batches of (8, 784)");
  fails({"bench", "tutorial-b4", "--weights", bad, "--steps", "1"}, 1, "does not fit the network");
  fails({"bench", "relu-16", "--weights", bad}, 2, "trains no network");
  fails({"bench", "relu-16", "--steps", "1", "--save", bad}, 2, "has none");
  fails({"bench", "tutorial-b4", "--save", bad}, 2, "--save needs one benchmark and --steps");
  fails({"bench", "add-16-grad", "--mode", "compiled"}, 2, "--mode eager");
  fails({"bench", "relu-16", "list"}, 2, "`brim bench list` stands alone");
  fails({"bench", "tutorial-b4", "--passes", "-no_such_pass"}, 1, "no_such_pass");
  fails({"bench", "relu-16", "--explain"}, 2, "--explain needs --mode compiled");
  fails({"bench", "relu-16", "--device", "sim:40"}, 1, "sim:40 does not exist");
  fails({"bench", "relu-16", "--device", "tpu"}, 1, "tpu");
  fails({"bench", "relu-16", "--precision", "fp8"}, 2, "--precision");
  fails({"bench", "relu-16", "--precision", "tf32"}, 2, "on cpu use --precision fp32");
  fails({"bench", "relu-16", "--precision", "tf32", "--device", "sim:0"}, 2,
        "on sim:0 use --precision fp32");
  fails({"bench", "layout", "--device", "sim:0"}, 2, "it takes no --device");
  fails({"bench"}, 2, "name a benchmark");
}

TEST_F(Bench, CompareSaysWhatIsMissing) {
  fails({"bench", "compare", "--python", "/no/such/python"}, 1,
        "/no/such/python cannot be started (No such file or directory); name a Python");
  for (const std::string program : {"/bin/true", "/bin/false", "/bin/echo", "/bin/sh"})
    fails({"bench", "compare", "--python", program}, 1,
          program + " does not run Python's code; name a Python");
  fails({"bench", "compare"}, 1, "/no/python cannot be started", "export BRIM_PYTHON=/no/python;");
  fails({"bench", "compare", "--svg", folder / "no/such.svg"}, 1, "make the folder first");
  fails({"bench", "compare", "--part", "nothing"}, 2, "nothing");
  if (std::system("python3 -c '' 2>/dev/null") != 0) GTEST_SKIP() << "there is no python3";
  // A Python whose torch cannot be imported.
  std::ofstream(folder / "torch.py") << "raise ImportError('not here')\n";
  fails({"bench", "compare", "tutorial-b4"}, 1, "pip install torch",
        "export BRIM_PYTHON=python3 PYTHONPATH=" + in_quotes(folder.path()) + ";");
}

}  // namespace
}  // namespace brim::tests
