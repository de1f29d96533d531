// `brim model`: what a network is made of, and a drawing of it.
#include <brim/nn/models.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/run_brim.h"

namespace brim::tests {
namespace {

using nlohmann::json;

json model_json(std::vector<std::string> args) {
  args.insert(args.begin(), "model");
  args.insert(args.end(), {"--json", "-"});
  const Ran ran = run_brim(args);
  EXPECT_EQ(ran.code, 0) << ran.err;
  return json::parse(ran.out);
}

TEST(ModelCommand, TellsLayersAndTotals) {
  const Ran ran = run_brim({"model", "tutorial-cnn"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const char* part :
       {"tutorial-cnn: (1, 3, 32, 32) f32 -> (1, 10); nothing was computed",
        "Conv2d(in=3, out=6, kernel=5)", "(1, 6, 28, 28)", "relu max_pool2d", "parameters   62006"})
    EXPECT_NE(ran.out.find(part), std::string::npos) << part << "\n" << ran.out;
}

TEST(ModelCommand, AllNetworksOfTheZoo) {
  const Ran names = run_brim({"model"});
  ASSERT_EQ(names.code, 0) << names.err;
  for (const std::string& name : nn::model_names()) {
    EXPECT_NE(names.out.find(name + "\n"), std::string::npos) << name;
    const json found = model_json({name});
    EXPECT_EQ(found["model"], name);
    EXPECT_GT(found["parameters"], 0) << name;
    EXPECT_GT(found["forward_flops"], 0) << name;
    EXPECT_GT(found["backward_flops"], found["forward_flops"].get<double>() * 0.4) << name;
    EXPECT_GT(found["activation_bytes"], 0) << name;
    EXPECT_GT(found["nodes"].size(), 1u) << name;
  }
}

TEST(ModelCommand, TakesSizesFromRecipesAndOptions) {
  EXPECT_EQ(model_json({"text"})["input"], json({1, 128}));
  EXPECT_EQ(model_json({"text"})["input_dtype"], "i64");
  EXPECT_EQ(model_json({"friedman1"})["output"], json({1, 1}));
  const json wide = model_json({"resnet18", "--size", "64", "--batch", "8", "--classes", "7"});
  EXPECT_EQ(wide["input"], json({8, 3, 64, 64}));
  EXPECT_EQ(wide["output"], json({8, 7}));
  EXPECT_EQ(model_json({"mlp", "--input", "5", "--classes", "2"})["input"], json({1, 5}));
  EXPECT_EQ(model_json({"unet-small"})["input"][1], 3);
}

TEST(ModelCommand, Draws) {
  const TemporaryFolder folder;
  const std::string svg = folder / "net.svg";
  const Ran ran = run_brim({"model", "resnet18", "--svg", svg});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const std::string drawing = slurp(svg);
  EXPECT_TRUE(drawing.starts_with("<svg ")) << drawing.substr(0, 80);
  EXPECT_TRUE(drawing.ends_with("</svg>\n"));
  EXPECT_NE(drawing.find(">layer1.0.conv1<"), std::string::npos);
  EXPECT_NE(drawing.find(">add + relu<"), std::string::npos);
  size_t branches = 0;  // eight blocks, each with a way around it or a shortcut's two ends
  for (size_t at = 0; (at = drawing.find("stroke=\"#d95f02\"", at)) != std::string::npos; ++at)
    ++branches;
  EXPECT_EQ(branches, 11u);
  ASSERT_EQ(run_brim({"model", "resnet18", "--svg", svg, "--depth", "1"}).code, 0);
  const std::string shallow = slurp(svg);
  EXPECT_EQ(shallow.find(">layer1.0.conv1<"), std::string::npos);
  EXPECT_NE(shallow.find(">layer1<"), std::string::npos);
}

TEST(ModelCommand, RefusesInOneLine) {
  const auto fails = [](std::vector<std::string> args, int code, const std::string& word) {
    args.insert(args.begin(), "model");
    const Ran ran = run_brim(args);
    EXPECT_EQ(ran.code, code) << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_NE(ran.err.find(word), std::string::npos) << ran.err;
  };
  fails({"resnet81"}, 1, "did you mean");
  fails({"resnet18", "--input", "3x"}, 2, "3x224x224");
  fails({"resnet18", "--input", "3x224"}, 2, "(1, 3, 224)");
  fails({"tutorial-cnn", "--size", "1"}, 2, "tutorial-cnn takes no input of (1, 3, 1, 1)");
  fails({"resnet50", "--size", "1"}, 2, "larger batch or larger inputs");
  fails({"resnet18", "--batch", "0"}, 2, "--batch");
  fails({"mlp", "--size", "64"}, 2, "it is of pictures, and an input of mlp is (10)");
  fails({"transformer-small", "--size", "64"}, 2, "give its sizes by --input");
  fails({"resnet18", "--size", "64", "--input", "3x32x32"}, 2, "give one of them");
  fails({"resnet18", "--size", "65536", "--batch", "100000"}, 2, "resnet18 of (100000, 3, 65536");
  fails({"resnet18", "--size", "65536", "--batch", "100000"}, 2, "are free; give less of --size");
  fails({"resnet18", "--svg", "/nowhere/net.svg"}, 1, "/nowhere");
}

}  // namespace
}  // namespace brim::tests
