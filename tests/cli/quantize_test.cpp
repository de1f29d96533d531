// `brim quantize`, and what others make of its files.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/trained_tutorial_cnn.h"

namespace brim::tests {
namespace {

using nlohmann::json;

class Quantize : public TrainedTutorialCnn<Quantize> {
 protected:
  static Ran quantize(const std::vector<std::string>& more) {
    std::vector<std::string> args = {"quantize", "--data", data(), "--device", "cpu"};
    if (std::ranges::find(more, "--weights") == more.end())
      args.insert(args.end(), {"--weights", weights()});
    args.insert(args.end(), more.begin(), more.end());
    return run_brim(args);
  }
  static json read(const std::string& path) {
    std::ifstream file(path);
    return json::parse(file);
  }
};

TEST_F(Quantize, TellsAndSavesWhatOthersRead) {
  const std::string out = *folder() / "int8";
  const Ran ran = quantize({"--all", "--out", out, "--json", out + ".json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const char* part : {"dense ", "int8 ", "95 %:", "conv1 ", "error ", "batches of 16:"})
    EXPECT_NE(ran.out.find(part), std::string::npos) << ran.out;
  const json found = read(out + ".json");
  EXPECT_EQ(found["layers"].size(), 5u);
  for (const json& layer : found["layers"]) {
    EXPECT_TRUE(layer["f32_because"].is_null()) << layer;
    EXPECT_LT(layer["error"].get<double>(), 0.05) << layer;
    EXPECT_GT(layer["scale"].get<double>(), 0);
  }
  EXPECT_EQ(found["samples"], 48);
  EXPECT_TRUE(found["int8"]["accuracy_difference"].contains("low"));
  EXPECT_TRUE(found["fine_tuned"].is_null());
  EXPECT_GT(found["times"][0]["int8_s"], 0);
  EXPECT_LT(std::filesystem::file_size(out + "/model.safetensors"),
            std::filesystem::file_size(weights()) / 3);

  const std::string file = out + "/model.safetensors";
  const Ran eval = run_brim({"eval", "--weights", file, "--data", data(), "--device", "cpu",
                             "--json", out + "-eval.json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_NE(eval.out.find("5 layers compute in 8-bit integers"), std::string::npos) << eval.out;
  EXPECT_NEAR(read(out + "-eval.json")["loss"].get<double>(), found["int8"]["loss"].get<double>(),
              1e-5);

  // Dense again, for others.
  const std::string dense = *folder() / "dense-again.safetensors";
  ASSERT_EQ(run_brim({"convert", file, dense}).code, 0);
  const Ran plain = run_brim({"eval", "--weights", dense, "--data", data(), "--device", "cpu"});
  ASSERT_EQ(plain.code, 0) << plain.err;
  EXPECT_EQ(plain.out.find("integers"), std::string::npos) << plain.out;
  // In training they are floats.
  const Ran tuned = run_brim({"train", "tutorial-cnn", "--weights", file, "--data", data(),
                              "--device", "cpu", "--epochs", "1", "--out", *folder() / "tuned"});
  EXPECT_EQ(tuned.code, 0) << tuned.err;
}

TEST_F(Quantize, LeavesOutWhatWasPruned) {
  const std::string pruned = *folder() / "pruned", out = *folder() / "sparse-int8";
  const Ran prune = run_brim({"prune", "--data", data(), "--device", "cpu", "--weights", weights(),
                              "--pattern", "vector:8", "--finetune", "1", "--out", pruned});
  ASSERT_EQ(prune.code, 0) << prune.err;
  const Ran ran = quantize(
      {"--weights", pruned + "/model.safetensors", "--all", "--out", out, "--json", out + ".json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("% of its columns"), std::string::npos) << ran.out;
  const json found = read(out + ".json");
  int sparse = 0;
  for (const json& layer : found["layers"]) {
    if (layer["density"].is_null()) continue;
    EXPECT_LT(layer["density"].get<double>(), 0.4) << layer;
    ++sparse;
  }
  EXPECT_EQ(sparse, 4);  // the first convolution has too few outputs to be pruned
  const std::string file = out + "/model.safetensors";
  EXPECT_LT(std::filesystem::file_size(file), std::filesystem::file_size(weights()) / 6);

  const auto loss_of = [&](const std::string& path, const char* what) {
    const Ran eval = run_brim(
        {"eval", "--weights", path, "--data", data(), "--device", "cpu", "--json", path + ".json"});
    EXPECT_EQ(eval.code, 0) << eval.err;
    EXPECT_NE(eval.out.find(what), std::string::npos) << eval.out;
    return read(path + ".json")["loss"].get<double>();
  };
  const double loss = found["int8"]["loss"].get<double>();
  EXPECT_NEAR(
      loss_of(file, "5 layers compute in 8-bit integers, 4 of them without their columns of zeros"),
      loss, 1e-5);
  // Floats of them, which are pruned still.
  const std::string dense = *folder() / "floats.safetensors";
  ASSERT_EQ(run_brim({"convert", file, dense}).code, 0);
  EXPECT_NEAR(loss_of(dense, "layers have columns of zeros"), loss, 0.05 * loss);
  const Ran refused = run_brim({"convert", file, *folder() / "no.safetensors", "--sparse", "8"});
  EXPECT_NE(refused.code, 0);
  EXPECT_NE(refused.err.find("8-bit integers"), std::string::npos) << refused.err;
}

TEST_F(Quantize, FineTunesAndKeeps) {
  const std::string out = *folder() / "tuned-int8";
  const Ran ran =
      quantize({"--all", "--finetune", "1", "--lr", "0.0001", "--calibration", "entropy",
                "--samples", "16", "--keep", "fc3", "--out", out, "--json", out + ".json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("fine-tuned "), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("f32: as asked for"), std::string::npos) << ran.out;
  const json found = read(out + ".json");
  EXPECT_EQ(found["samples"], 16);
  EXPECT_TRUE(found["fine_tuned"]["metrics"].contains("accuracy"));
  const Ran eval = run_brim({"eval", "--weights", out + "/model.safetensors", "--data", data(),
                             "--device", "cpu", "--json", out + "-eval.json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_NE(eval.out.find("4 layers compute"), std::string::npos) << eval.out;
  EXPECT_NEAR(read(out + "-eval.json")["loss"].get<double>(),
              found["fine_tuned"]["loss"].get<double>(), 1e-5);
}

TEST_F(Quantize, RefusesNonsense) {
  const auto error = [&](const std::vector<std::string>& args) {
    const Ran ran = quantize(args);
    EXPECT_NE(ran.code, 0);
    return ran.err;
  };
  EXPECT_NE(error({"--calibration", "max", "--out", *folder() / "never"}).find("--calibration"),
            std::string::npos);
  EXPECT_NE(error({"--calibration", "percentile", "--percentile", "20"}).find("--percentile 20"),
            std::string::npos);
  EXPECT_NE(error({"--samples", "0", "--out", *folder() / "never"}).find("--samples"),
            std::string::npos);
  EXPECT_NE(error({"--keep", "conv7"}).find("--keep conv7: no"), std::string::npos);
  EXPECT_NE(error({"--weights", "nothing.safetensors"}).find("nothing.safetensors"),
            std::string::npos);
  EXPECT_NE(error({"--tensorboard", *folder() / "never"}).find("--finetune 0"), std::string::npos);
  EXPECT_NE(error({"--percentile", "99"}).find("--calibration percentile"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(*folder() / "never"));
  // Weights are never replaced, another file only where that is asked for.
  const std::string dense = *folder() / "dense", other = *folder() / "there";
  EXPECT_NE(error({"--out", dense, "--overwrite"}).find("would replace the weights"),
            std::string::npos);
  ASSERT_EQ(quantize({"--all", "--out", other}).code, 0);
  EXPECT_NE(error({"--out", other}).find("give --overwrite"), std::string::npos);
  for (const char* own : {"history.jsonl", "monitor.jsonl"}) {
    EXPECT_NE(
        error({"--out", other, "--json", other + "/" + own, "--overwrite"}).find("in the way"),
        std::string::npos);
    std::ofstream(other + "/" + own) << "of the run before\n";
  }
  EXPECT_EQ(quantize({"--all", "--out", other, "--overwrite"}).code, 0);
  for (const char* own : {"history.jsonl", "monitor.jsonl"}) {
    std::ifstream file(other + "/" + own);
    std::string line;
    std::getline(file, line);
    EXPECT_NE(line, "of the run before");
  }
}

}  // namespace
}  // namespace brim::tests
