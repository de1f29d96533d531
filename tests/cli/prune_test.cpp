// `brim prune`, and fine-tuning by `brim train --weights`.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/trained_tutorial_cnn.h"

namespace brim::tests {
namespace {

using nlohmann::json;

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Prune : public TrainedTutorialCnn<Prune> {
 protected:
  /// With these options instead of, and besides, some that are always there.
  static Ran prune(const std::vector<std::string>& more) {
    std::vector<std::string> args = {"prune", "--data", data(), "--device", "cpu"};
    const auto by_default = [&](const char* name, const std::string& value) {
      if (std::ranges::find(more, name) == more.end()) args.insert(args.end(), {name, value});
    };
    by_default("--weights", weights());
    by_default("--pattern", "vector:8");
    args.insert(args.end(), more.begin(), more.end());
    return run_brim(args);
  }
};

TEST_F(Prune, KeepsItsZerosAndTellsWhatTheyBring) {
  const std::string out = *folder() / "sparse";
  const Ran ran = prune({"--finetune", "2", "--out", out, "--json", out + ".json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const char* part :
       {"dense ", "pruned ", "fine-tuned ", "dense: its outputs (6)", "% zeros", "batches of 16:"})
    EXPECT_NE(ran.out.find(part), std::string::npos) << ran.out;
  std::ifstream file(out + ".json");
  const json found = json::parse(file);
  EXPECT_EQ(found["layers"].size(), 5u);
  EXPECT_NEAR(found["sparsity"].get<double>(), 0.75, 0.01);
  EXPECT_EQ(found["layers"][0]["dense_because"], "its outputs (6) are fewer than a vector");
  EXPECT_TRUE(found["fine_tuned"]["metrics"].contains("accuracy"));
  EXPECT_GT(found["times"][0]["sparse_s"], 0);
  EXPECT_EQ(slurp(out + "/result.json"), slurp(out + ".json"));
  const Ran report = run_brim({"report", out, "-o", out + ".html"});
  if (report.err.find("Chart.js") == std::string::npos) {
    EXPECT_EQ(report.code, 0) << report.err;
    EXPECT_NE(slurp(out + ".html").find("its outputs (6) are fewer than a vector"),
              std::string::npos);
  }

  // What was saved knows that it is pruned, has the same zeros, and does as well.
  const Ran eval = run_brim({"eval", "--weights", out + "/model.safetensors", "--data", data(),
                             "--device", "cpu", "--json", out + "-eval.json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_NE(eval.out.find("layers have columns of zeros"), std::string::npos) << eval.out;
  std::ifstream eval_file(out + "-eval.json");
  EXPECT_NEAR(json::parse(eval_file)["loss"].get<double>(),
              found["fine_tuned"]["loss"].get<double>(), 1e-4);
}

TEST_F(Prune, IsSmallerInAFile) {
  const std::string out = *folder() / "small", dense = out + "/model.safetensors";
  const std::string sparse = *folder() / "small.safetensors", back = *folder() / "back.safetensors";
  ASSERT_EQ(prune({"--finetune", "0", "--sparsity", "0.9", "--out", out}).code, 0);
  const Ran small = run_brim({"convert", dense, sparse, "--sparse", "8"});
  ASSERT_EQ(small.code, 0) << small.err;
  EXPECT_LT(std::filesystem::file_size(sparse), std::filesystem::file_size(dense) / 4);
  ASSERT_EQ(run_brim({"convert", sparse, back}).code, 0);
  EXPECT_TRUE(bytes_of(back) == bytes_of(dense));
  const auto loss = [&](const std::string& file) {
    const Ran ran =
        run_brim({"eval", "--weights", file, "--data", data(), "--device", "cpu", "--json", "-"});
    EXPECT_EQ(ran.code, 0) << ran.err;
    return json::parse(ran.out)["loss"].get<double>();
  };
  EXPECT_NEAR(loss(sparse), loss(dense), 1e-5);
  EXPECT_EQ(run_brim({"convert", dense, *folder() / "x.safetensors", "--sparse", "7"}).code, 2);
  EXPECT_EQ(run_brim({"convert", dense, *folder() / "x.pth", "--sparse", "8"}).code, 2);
}

TEST_F(Prune, IsTheSameWhereItGoesOn) {
  const std::string whole = *folder() / "whole", parts = *folder() / "parts";
  const std::string recipe = *folder() / "prune.toml";
  std::ofstream(recipe) << "model = \"tutorial-cnn\"\nepochs = 3\nbatch = 8\n[prune]\npattern = "
                           "\"vector:8\"\nsparsity = 0.8\nepochs = 2\ndense = [\"fc3\"]\n";
  const auto train = [&](std::vector<std::string> more) {
    std::vector<std::string> args = {"train", recipe, "--device", "cpu", "--data", data()};
    args.insert(args.end(), more.begin(), more.end());
    const Ran ran = run_brim(args);
    EXPECT_EQ(ran.code, 0) << ran.err;
  };
  train({"--weights", weights(), "--out", whole});
  train({"--weights", weights(), "--out", parts, "--steps", "8"});  // amid the second epoch
  train({"--resume", parts, "--out", parts});
  EXPECT_TRUE(bytes_of(whole + "/model.safetensors") == bytes_of(parts + "/model.safetensors"));
}

TEST_F(Prune, RisesToWhatIsAskedFor) {
  const std::string out = *folder() / "rises";
  const Ran ran = prune({"--finetune", "2", "--over", "2", "--sparsity", "0.8", "--out", out,
                         "--json", out + ".json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  std::ifstream file(out + ".json");
  const json found = json::parse(file);
  EXPECT_TRUE(found["pruned"].is_null());
  EXPECT_NEAR(found["sparsity"].get<double>(), 0.8, 0.01);
  for (const json& layer : found["layers"])
    if (layer["dense_because"].is_null()) {
      EXPECT_NEAR(layer["sparsity"].get<double>(), 0.8, 0.02) << layer;
    }
}

TEST_F(Prune, SpreadsTheSparsityOfANetwork) {
  const std::string out = *folder() / "spread";
  const Ran ran = prune({"--finetune", "1", "--scope", "network", "--out", out, "--json", "-"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const json found = json::parse(ran.out);
  EXPECT_EQ(found["scope"], "network");
  EXPECT_NEAR(found["sparsity"].get<double>(), 0.75, 0.01);
  const auto zeros_of = [](const json& result, size_t layer) {
    return result["layers"][layer]["sparsity"].get<double>();
  };
  EXPECT_LT(zeros_of(found, 1), 0.7);
  EXPECT_GT(zeros_of(found, 2), 0.75);

  // Trained on, it has the zeros that it had.
  ASSERT_EQ(run_brim({"quantize", "--weights", out + "/model.safetensors", "--data", data(),
                      "--device", "cpu", "--samples", "32", "--finetune", "1", "--out", out + "8"})
                .code,
            0);
  const Ran again = prune({"--weights", out + "8/model.safetensors", "--scope", "network",
                           "--finetune", "0", "--json", "-"});
  ASSERT_EQ(again.code, 0) << again.err;
  for (const size_t layer : {1, 2})
    EXPECT_NEAR(zeros_of(json::parse(again.out), layer), zeros_of(found, layer), 0.02);
}

TEST_F(Prune, KeepsToTheSparsitiesOfSingleLayers) {
  const std::string recipe = *folder() / "layers.toml";
  std::ofstream(recipe) << run_brim({"recipe", "tutorial-cnn"}).out
                        << "\n[prune]\npattern = 'vector:8'\nlayers = { fc1 = 0.25 }\n";
  const Ran ran = prune({recipe, "--finetune", "1", "--json", "-"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const json found = json::parse(ran.out);
  EXPECT_NEAR(found["layers"][2]["sparsity"].get<double>(), 0.25, 0.01);
  EXPECT_NEAR(found["layers"][3]["sparsity"].get<double>(), 0.75, 0.01);
}

TEST_F(Prune, TeachesWhatWasPruned) {
  const auto teacher_of = [&](const std::vector<std::string>& more, const std::string& name) {
    const std::string out = *folder() / name;
    std::vector<std::string> args = {"--finetune", "1", "--out", out};
    args.insert(args.end(), more.begin(), more.end());
    const Ran ran = prune(args);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return run_brim({"recipe", out + "/model.safetensors"}).out;
  };
  EXPECT_NE(teacher_of({"--teach", "0.25"}, "taught")
                .find("teacher = '" + weights() + "'\nweight = 0.25"),
            std::string::npos);
  EXPECT_NE(teacher_of({"--teach", "0.5", "--pattern", "channels"}, "taught-channels")
                .find("teacher = '/"),
            std::string::npos);
  EXPECT_EQ(teacher_of({}, "untaught").find("teacher = '/"), std::string::npos);

  // PyTorch's files do not say what network they are of.
  const std::string pth = *folder() / "dense.pth", recipe = *folder() / "dense.toml";
  ASSERT_EQ(run_brim({"convert", weights(), pth}).code, 0);
  ASSERT_EQ(run_brim({"recipe", weights(), "--out", recipe}).code, 0);
  const Ran asked = prune({recipe, "--weights", pth, "--finetune", "1", "--teach", "0.5"});
  EXPECT_EQ(asked.code, 2);
  EXPECT_NE(asked.err.find("--teach"), std::string::npos) << asked.err;
}

TEST_F(Prune, RefusesNonsense) {
  const auto fails = [&](const std::vector<std::string>& more, const char* why) {
    const Ran ran = prune(more);
    EXPECT_NE(ran.code, 0) << why;
    EXPECT_NE(ran.err.find(why), std::string::npos) << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
  };
  fails({"--pattern", "vector:7"}, "'vector:7' is no pattern");
  fails({"--sparsity", "1"}, "sparsity");
  fails({"--sparsity", "0"}, "sparsity");
  fails({"--over", "3", "--finetune", "2"}, "--over 3");
  fails({"--scope", "all"}, "write layer or network");
  fails({"--pattern", "2:4", "--scope", "network"}, "leaves each layer as many numbers");
  fails({"--teach", "0.5", "--finetune", "0"}, "--teach");
  fails({"--pattern", "2:4", "--sparsity", "0.9"}, "the pattern 2:4 says it");
  fails({"--dense", "conv9", "--finetune", "0"}, "did you mean");
  fails({"--pattern", "vector:64", "--dense", "fc1", "--dense", "fc2"}, "no layer is left");
  fails({"--weights", *folder() / "none.safetensors"}, "none.safetensors");
}

TEST_F(Prune, RefusesNamesBeforeTheLongWork) {
  const Ran ran = prune({"--dense", "conv9"});
  EXPECT_EQ(ran.code, 2) << ran.err;
  EXPECT_EQ(ran.out.find("loss"), std::string::npos) << ran.out;
}

TEST_F(Prune, LeavesOutWholeChannels) {
  const std::string out = *folder() / "channels";
  const Ran ran = prune({"--pattern", "channels", "--sparsity", "0.5", "--finetune", "1", "--out",
                         out, "--json", out + ".json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const char* part : {"dense ", "pruned ", "fine-tuned ", "batches of 16:",
                           "keeps its outputs: they reach", "parameters are left"})
    EXPECT_NE(ran.out.find(part), std::string::npos) << ran.out;
  std::ifstream file(out + ".json");
  const json found = json::parse(file);
  EXPECT_EQ(found["criterion"], "activations");
  EXPECT_LT(found["parameters"]["pruned"].get<double>(),
            0.5 * found["parameters"]["dense"].get<double>());
  EXPECT_EQ(found["layers"][1]["shape"], "(16, 6, 5, 5)");
  EXPECT_EQ(found["layers"][1]["pruned_shape"], "(8, 3, 5, 5)");
  EXPECT_TRUE(found["layers"][1]["dense_because"].is_null());
  EXPECT_GT(found["times"][0]["pruned_s"], 0);

  // Other commands make the smaller network of the file, and it may be pruned again.
  const Ran eval = run_brim({"eval", "--weights", out + "/model.safetensors", "--data", data(),
                             "--device", "cpu", "--json", out + "-eval.json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  std::ifstream eval_file(out + "-eval.json");
  EXPECT_NEAR(json::parse(eval_file)["loss"].get<double>(),
              found["fine_tuned"]["loss"].get<double>(), 1e-4);
  const Ran resumed = run_brim({"train", "--resume", out, "--out", out, "--epochs", "2", "--data",
                                data(), "--device", "cpu"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  const Ran again = prune({"--weights", out + "/model.safetensors", "--pattern", "channels",
                           "--criterion", "magnitude", "--finetune", "0", "--out", out + "2"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.out.find("(4, 1, 5, 5)"), std::string::npos) << again.out;
  const Ran quantized = run_brim({"quantize", "--weights", out + "2/model.safetensors", "--data",
                                  data(), "--device", "cpu", "--samples", "32"});
  EXPECT_EQ(quantized.code, 0) << quantized.err;
}

TEST_F(Prune, PrunesInRounds) {
  const std::string out = *folder() / "rounds";
  const Ran ran =
      prune({"--pattern", "vector:4", "--sparsity", "0.75", "--schedule", "iterative", "--rounds",
             "2", "--finetune", "1", "--out", out, "--json", out + ".json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("round 2/2"), std::string::npos) << ran.out;
  std::ifstream file(out + ".json");
  const json found = json::parse(file);
  EXPECT_EQ(found["schedule"], "iterative");
  EXPECT_EQ(found["rounds"], 2);
  EXPECT_NEAR(found["sparsity"].get<double>(), 0.75, 0.02);
  // Others take it as it is, and do not begin rounds.
  const Ran quantized = run_brim({"quantize", "--weights", out + "/model.safetensors", "--data",
                                  data(), "--device", "cpu", "--samples", "32", "--finetune", "1"});
  EXPECT_EQ(quantized.code, 0) << quantized.err;
  EXPECT_EQ(quantized.out.find("round"), std::string::npos) << quantized.out;
  // To the weights of a file.
  const Ran early =
      prune({"--pattern", "vector:4", "--schedule", "iterative", "--rounds", "1", "--rewind",
             weights(), "--finetune", "1", "--lr", "0", "--out", out + "-early"});
  EXPECT_EQ(early.code, 0) << early.err;

  const auto refused = [](const std::vector<std::string>& more, const char* part) {
    const Ran wrong = prune(more);
    EXPECT_EQ(wrong.code, 2) << wrong.err;
    EXPECT_NE(wrong.err.find(part), std::string::npos) << wrong.err;
  };
  refused({"--schedule", "cubic"}, "--schedule cubic");
  refused({"--schedule", "iterative", "--over", "1"}, "--over");
  refused({"--schedule", "iterative", "--finetune", "0"}, "--finetune is 1 or more");
  refused({"--rounds", "2"}, "--rounds is of --schedule iterative");
  refused({"--rewind", "learning-rate"}, "--rewind is of --schedule iterative");
  refused({"--schedule", "iterative", "--finetune", "1", "--rewind", "/nowhere.safetensors"},
          "/nowhere.safetensors is no file");
  refused({"--pattern", "channels", "--schedule", "iterative"}, "whole channels go at once");
}

TEST_F(Prune, TakesChannelsFromARecipe) {
  const std::string recipe = *folder() / "narrow.toml";
  std::ofstream(recipe) << run_brim({"recipe", "tutorial-cnn"}).out
                        << "\n[prune]\npattern = 'channels'\nsparsity = 0.5\n";
  const std::string out = *folder() / "narrow";
  const Ran trained = run_brim({"train", recipe, "--weights", weights(), "--data", data(),
                                "--device", "cpu", "--epochs", "1", "--out", out});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_NE(trained.out.find("channels, 50.00 % of them left out"), std::string::npos)
      << trained.out;
  const Ran resumed = run_brim({"train", "--resume", out, "--out", out, "--epochs", "2", "--data",
                                data(), "--device", "cpu"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  for (const std::string command : {"eval", "quantize"}) {
    const Ran ran = run_brim({command, recipe, "--weights", out + "/model.safetensors", "--data",
                              data(), "--device", "cpu"});
    EXPECT_EQ(ran.code, 0) << ran.err;
  }
  const Ran pruned = run_brim({"prune", recipe, "--weights", weights(), "--data", data(),
                               "--device", "cpu", "--finetune", "0"});
  ASSERT_EQ(pruned.code, 0) << pruned.err;
  EXPECT_NE(pruned.out.find("(8, 3, 5, 5)"), std::string::npos) << pruned.out;
}

TEST_F(Prune, RefusesNonsenseAboutChannels) {
  const auto refused = [](const std::vector<std::string>& more, const char* part, int code = 2) {
    const Ran ran = prune(more);
    EXPECT_EQ(ran.code, code) << ran.err;
    EXPECT_NE(ran.err.find(part), std::string::npos) << ran.err;
  };
  refused({"--pattern", "channels", "--over", "1"}, "--over");
  refused({"--criterion", "magnitude"}, "--criterion");
  refused({"--pattern", "channels", "--criterion", "taste"}, "taste");
  refused({"--pattern", "channels", "--dense", "conv9"}, "--dense conv9");
  const std::string taken = *folder() / "taken";
  std::filesystem::create_directories(taken);
  std::ofstream(taken + "/model.safetensors") << "of another";
  const Ran ran = prune({"--pattern", "channels", "--out", taken});
  EXPECT_EQ(ran.code, 2) << ran.err;
  EXPECT_EQ(ran.out.find("loss"), std::string::npos) << "nothing is evaluated before: " << ran.out;
  EXPECT_EQ(bytes_of(taken + "/model.safetensors"), "of another");
  refused({"--pattern", "channels", "--sparsity", "1"}, "--sparsity");
}

}  // namespace
}  // namespace brim::tests
