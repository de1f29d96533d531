// `brim export`: what it writes and says, and what it refuses.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/trained_tutorial_cnn.h"
#include "deploy/onnx_file.h"

namespace brim::tests {
namespace {

using nlohmann::json;

class Export : public TrainedTutorialCnn<Export> {
 protected:
  static Ran exported(const std::string& out, const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"export", "--onnx", "-o", out};
    if (std::ranges::find(more, "--weights") == more.end())
      args.insert(args.end(), {"--weights", weights()});
    args.insert(args.end(), more.begin(), more.end());
    return run_brim(args);
  }
  static bool exists(const std::string& path) { return std::filesystem::exists(path); }
};

TEST_F(Export, WritesWhatOthersNeed) {
  const std::string out = *folder() / "model.onnx";
  const Ran ran = exported(out, {"--json", out + ".json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const char* part : {"tutorial-cnn in ONNX, opset 20: 12 nodes", "(batch, 3, 32, 32) f32",
                           "output (batch, 10) f32, named output\n"})
    EXPECT_NE(ran.out.find(part), std::string::npos) << ran.out;
  const OnnxFile file(out);
  EXPECT_EQ(file.outputs.at(0).shape, (std::vector<std::string>{"batch", "10"}));
  EXPECT_TRUE(file.initializers.contains("conv1.weight"));
  EXPECT_EQ(file.metadata.at("model"), "tutorial-cnn");
  EXPECT_EQ(file.metadata.at("task"), "classify");
  EXPECT_EQ(json::parse(file.metadata.at("classes")).size(), 10U);
  EXPECT_EQ(json::parse(file.metadata.at("mean")), json({0.5, 0.5, 0.5}));
  EXPECT_EQ(json::parse(file.metadata.at("std")), json({0.5, 0.5, 0.5}));
  std::ifstream stream(out + ".json");
  const json found = json::parse(stream);
  EXPECT_EQ(found["format"], "onnx");
  EXPECT_EQ(found["opset"], 20);
  EXPECT_EQ(found["operators"]["Conv"], 2);
  EXPECT_EQ(found["input"], json({3, 32, 32}));
  EXPECT_EQ(found["outputs"][0]["sizes"], json({"batch", "10"}));
  EXPECT_TRUE(found["batch"].is_null());
  EXPECT_EQ(found["bytes"], std::filesystem::file_size(out));

  // The one that is there stays, unless it may be replaced.
  const Ran again = exported(out);
  EXPECT_EQ(again.code, 2);
  EXPECT_NE(again.err.find("exists; give --overwrite to replace it"), std::string::npos);
  const Ran fixed = exported(out, {"--overwrite", "--batch", "4"});
  EXPECT_EQ(fixed.code, 0) << fixed.err;
  EXPECT_EQ(OnnxFile(out).inputs.at(0).shape.at(0), "4");
}

TEST_F(Export, WritesIntegersAsQdq) {
  const std::string int8 = *folder() / "int8";
  const Ran quantized = run_brim({"quantize", "--weights", weights(), "--data", data(), "--device",
                                  "cpu", "--all", "--keep", "conv1", "--out", int8});
  ASSERT_EQ(quantized.code, 0) << quantized.err;
  const std::string out = *folder() / "int8.onnx";
  const Ran ran = exported(out, {"--weights", int8 + "/model.safetensors"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("4 layers compute in 8-bit integers: QDQ"), std::string::npos) << ran.out;
  const OnnxFile file(out);
  EXPECT_EQ(file.count("QuantizeLinear"), 4);
  EXPECT_EQ(file.count("DequantizeLinear"), 8);
  EXPECT_TRUE(file.initializers.contains("conv1.weight"));
  EXPECT_TRUE(file.initializers.contains("conv2.weight.values"));
}

TEST_F(Export, NeedsSizesWhereWeightsDoNotSay) {
  const std::string pth = *folder() / "model.pth", out = *folder() / "pth.onnx";
  ASSERT_EQ(run_brim({"convert", weights(), pth}).code, 0);
  const Ran bare = exported(out, {"--weights", pth});
  EXPECT_EQ(bare.code, 1);
  EXPECT_NE(bare.err.find("does not say which recipe made it"), std::string::npos) << bare.err;
  // A recipe without a size.
  const std::string toml = *folder() / "unsized.toml";
  std::ofstream(toml) << "model = \"tutorial-cnn\"\n";
  const Ran unsized = exported(out, {"--weights", pth, "--recipe", toml});
  EXPECT_EQ(unsized.code, 1);
  EXPECT_NE(unsized.err.find("--input 3x32x32"), std::string::npos) << unsized.err;
  EXPECT_FALSE(exists(out));
  const Ran recipe = exported(out + "2", {"--weights", pth, "--recipe", "tutorial-cnn"});
  EXPECT_EQ(recipe.code, 0) << recipe.err;
  const Ran ran =
      exported(out, {"--weights", pth, "--recipe", "tutorial-cnn", "--input", "3x32x32"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(exists(out));
}

TEST_F(Export, RefusesWhatDoesNotFit) {
  const std::string out = *folder() / "refused.onnx";
  struct Case {
    std::vector<std::string> more;
    int code;
    const char* message;
  };
  for (const Case& c :
       std::vector<Case>{{{"--input", "3y4"}, 2, "sizes of one input are written as 3x224x224"},
                         {{"--input", "0x4"}, 2, "sizes of one input are written as 3x224x224"},
                         {{"--input", "3x1000000x1000000"}, 2, "are free; give less of --input"},
                         {{"--input", "3x64x64"}, 1, "expects images (N, 3, 32, 32)"},
                         {{"--batch", "0"}, 2, "--batch"},
                         {{"--weights", "nowhere.safetensors"}, 1, "nowhere.safetensors"},
                         {{"--recipe", "resnet"}, 1, "resnet"}}) {
    const Ran ran = exported(out, c.more);
    EXPECT_EQ(ran.code, c.code) << ran.err;
    EXPECT_NE(ran.err.find(c.message), std::string::npos) << ran.err;
    EXPECT_FALSE(exists(out));
  }
  const Ran onto_itself = exported(weights(), {"--overwrite"});
  EXPECT_EQ(onto_itself.code, 2);
  EXPECT_NE(onto_itself.err.find("would replace the weights"), std::string::npos);
  const Ran nowhere = exported("/nowhere/model.onnx");
  EXPECT_EQ(nowhere.code, 1);
  EXPECT_NE(nowhere.err.find("/nowhere"), std::string::npos) << nowhere.err;
}

}  // namespace
}  // namespace brim::tests
