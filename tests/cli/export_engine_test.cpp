// `brim export` of engines, and `brim verify`.
#include <brim/ops/shape.h>
#include <brim/ops/softmax.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/trained_tutorial_cnn.h"
#include "data/scratch.h"
#include "deploy/opened_engine.h"

namespace brim::tests {
namespace {

using nlohmann::json;

class ExportEngine : public TrainedTutorialCnn<ExportEngine> {
 protected:
  static Ran exported(const std::string& out, const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"export", "-o", out, "--weights", weights()};
    args.insert(args.end(), more.begin(), more.end());
    return run_brim(args);
  }
};

TEST_F(ExportEngine, WritesWhatVerifyAccepts) {
  const std::string out = *folder() / "model.brim";
  const Ran ran = exported(out, {"--batch", "1,4", "--threads", "1", "--json", out + ".json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const char* part :
       {"tutorial-cnn as an engine: 6 steps", "input (1 or 4, 3, 32, 32) f32, named input\n",
        "output (1 or 4, 10) f32, named output\n", "of the largest one of the network's"})
    EXPECT_NE(ran.out.find(part), std::string::npos) << ran.out;
  std::ifstream stream(out + ".json");
  const json found = json::parse(stream);
  EXPECT_EQ(found["format"], "engine");
  EXPECT_EQ(found["batches"], json({1, 4}));
  EXPECT_EQ(found["outputs"],
            json::parse(R"([{"name": "output", "sizes": ["1 or 4", "10"], "dtype": "f32"}])"));
  EXPECT_EQ(found["operators"]["convolution"], 4);
  EXPECT_EQ(found["bytes"], std::filesystem::file_size(out));
  EXPECT_LT(found["difference"], 1e-5);

  const Ran verified = run_brim({"verify", out, "--isa", "baseline", "--json", out + ".verified"});
  ASSERT_EQ(verified.code, 0) << verified.err;
  EXPECT_NE(verified.out.find("batch 4: 6 steps on baseline"), std::string::npos) << verified.out;
  std::ifstream second(out + ".verified");
  const json rows = json::parse(second);
  EXPECT_EQ(rows["equal"], true);
  EXPECT_EQ(rows["programs"].size(), 2U);
  EXPECT_EQ(rows["programs"][1]["batch"], 4);

  EXPECT_NE(run_brim({"verify", out, "--isa", "mmx"}).err.find("'mmx' is none of"),
            std::string::npos);
  // Nor are its weights those that others can use.
  for (std::vector<std::string> words :
       {std::vector<std::string>{"eval", "tutorial-cnn"}, {"predict", "x.png"}, {"prune"}}) {
    words.insert(words.end(), {"--weights", out});
    const Ran refused = run_brim(words);
    EXPECT_EQ(refused.code, 1);
    EXPECT_NE(refused.err.find("is an engine"), std::string::npos) << refused.err;
  }
  const Ran wrong = run_brim({"verify", weights()});
  EXPECT_EQ(wrong.code, 1);
  EXPECT_NE(wrong.err.find("this is no engine"), std::string::npos) << wrong.err;
  EXPECT_NE(run_brim({"verify", out + ".nothing"}).err.find("No such file"), std::string::npos);
}

TEST_F(ExportEngine, WritesARuntimeOfItsOwn) {
  const std::string out = *folder() / "own.brim", runtime = *folder() / "runtime";
  const Ran ran = exported(out, {"--runtime", runtime, "--target", "x86-64-v3"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("the runtime of it, for x86-64-v3"), std::string::npos) << ran.out;
  const std::string ops = slurp(runtime + "/src/rt/ops.cpp");
  for (const char* op : {"kConvolutionOp", "kMaxPoolOp", "kPlaneConvolutionOp"})
    EXPECT_NE(ops.find(op), std::string::npos) << ops;
  EXPECT_EQ(ops.find("kSoftmaxOp"), std::string::npos) << ops;
  EXPECT_NE(slurp(runtime + "/CMakeLists.txt").find("-march=x86-64-v3"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(runtime + "/include/brim_rt.h"));
  EXPECT_FALSE(std::filesystem::exists(runtime + "/src/rt/ops/matmul.cpp"));
  const Ran again = exported(out, {"--overwrite", "--runtime", runtime});
  EXPECT_EQ(again.code, 2);
  EXPECT_NE(again.err.find("is no empty folder"), std::string::npos) << again.err;
}

TEST_F(ExportEngine, ComputesInIntegers) {
  const std::string int8 = *folder() / "int8", out = *folder() / "int8.brim";
  const std::string runtime = *folder() / "int8-runtime";
  const Ran quantized = run_brim({"quantize", "--weights", weights(), "--data", data(), "--device",
                                  "cpu", "--all", "--out", int8});
  ASSERT_EQ(quantized.code, 0) << quantized.err;
  const Ran ran = run_brim({"export", "--weights", int8 + "/model.safetensors", "-o", out,
                            "--runtime", runtime, "--target", "x86-64-v3"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("8-bit integers"), std::string::npos) << ran.out;
  EXPECT_LT(std::filesystem::file_size(out), 110'000U);  // 4 times that in f32
  EXPECT_TRUE(std::filesystem::exists(runtime + "/src/rt/kernels/int8_convolution.cpp"));
  EXPECT_FALSE(std::filesystem::exists(runtime + "/src/rt/kernels/winograd.cpp"));
  const Ran verified = run_brim({"verify", out});
  EXPECT_EQ(verified.code, 0) << verified.err;
}

/// A picture as a PNG and as bytes.
struct TestPicture {
  static constexpr int kHeight = 48, kWidth = 60;
  std::vector<uint8_t> rgb = data::tests::gradient(kWidth, kHeight, 3, 1);
  std::string path;

  explicit TestPicture(const std::string& to) : path(to) {
    data::tests::write_bytes(path, data::tests::encode_png(rgb, kWidth, kHeight, 3));
  }
  Tensor tensor() const { return Tensor::from<uint8_t>(rgb, {1, kHeight, kWidth, 3}); }
  /// What `brim predict` says of it, by class.
  std::map<std::string, float> predicted(const std::string& weights) const {
    const Ran ran = run_brim(
        {"predict", "--weights", weights, path, "--top", "10", "--json", "-", "--device", "cpu"});
    const json said = json::parse(ran.out);
    std::map<std::string, float> p;
    for (const json& found : said["images"][0]["classes"]) p[found["class"]] = found["probability"];
    return p;
  }
};

TEST_F(ExportEngine, TakesPicturesAsPredictDoes) {
  const std::string out = *folder() / "pictures.brim", runtime = *folder() / "pictures-runtime";
  const TestPicture picture(*folder() / "picture.png");
  const Ran ran = exported(out, {"--pictures", "48x60", "--batch", "1,4", "--json", out + ".json",
                                 "--runtime", runtime, "--target", "x86-64-v3"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("input (1 or 4, 48, 60, 3) u8"), std::string::npos) << ran.out;
  std::ifstream stream(out + ".json");
  const json found = json::parse(stream);
  EXPECT_EQ(found["input"], json({48, 60, 3}));
  EXPECT_EQ(found["input_dtype"], "u8");
  EXPECT_EQ(found["operators"]["picture"], 1);
  EXPECT_EQ(run_brim({"verify", out}).code, 0);
  EXPECT_TRUE(std::filesystem::exists(runtime + "/src/formula/resample.h"));
  EXPECT_TRUE(std::filesystem::exists(runtime + "/src/rt/kernels/picture.cpp"));

  const OpenedEngine engine(out);
  EXPECT_STREQ(brim_rt_metadata(engine.model(), "pictures"), "RGB");
  EXPECT_EQ(brim_rt_metadata(engine.model(), "mean"), nullptr);
  const std::map<std::string, float> expected = picture.predicted(weights());
  ASSERT_EQ(expected.size(), 10U);
  const std::vector<float> p = softmax(engine(picture.tensor()), 1).to_vector<float>();
  for (size_t i = 0; i < 10; ++i)
    EXPECT_NEAR(p[i], expected.at(brim_rt_label(engine.model(), static_cast<int>(i))), 1e-5);

  ASSERT_EQ(exported(out, {"--pictures", "48x60", "--bgr", "--overwrite"}).code, 0);
  const OpenedEngine reversed(out);
  EXPECT_STREQ(brim_rt_metadata(reversed.model(), "pictures"), "BGR");
  const Tensor x = picture.tensor(),
               y = cat({x.slice(3, 2, 3), x.slice(3, 1, 2), x.slice(3, 0, 1)}, 3);
  const std::vector<float> q = softmax(reversed(y), 1).to_vector<float>();
  EXPECT_EQ(p, q);
}

TEST_F(ExportEngine, PutsOutTheLikeliestClasses) {
  const std::string out = *folder() / "top.brim", runtime = *folder() / "top-runtime";
  const TestPicture picture(*folder() / "picture.png");
  ASSERT_EQ(exported(out, {"--pictures", "48x60", "--output", "top:3", "--runtime", runtime}).code,
            0);
  EXPECT_EQ(run_brim({"verify", out}).code, 0);
  EXPECT_TRUE(std::filesystem::exists(runtime + "/src/rt/ops/choice.cpp"));
  const OpenedEngine engine(out);
  EXPECT_STREQ(brim_rt_output(engine.session(), 0)->name, "probabilities");
  EXPECT_STREQ(brim_rt_output(engine.session(), 1)->name, "classes");
  EXPECT_STREQ(brim_rt_metadata(engine.model(), "output"), "top:3");
  const std::vector<Tensor> found = engine.outputs(picture.tensor());
  const std::vector<float> p = found[0].to_vector<float>();
  const std::vector<int32_t> classes = found[1].to_vector<int32_t>();
  const std::map<std::string, float> expected = picture.predicted(weights());
  for (size_t i = 0; i < 3; ++i) {
    const float known = expected.at(brim_rt_label(engine.model(), classes[i]));
    EXPECT_NEAR(p[i], known, 1e-5);
    EXPECT_EQ(static_cast<size_t>(std::ranges::count_if(
                  expected, [&](const auto& other) { return other.second > known; })),
              i);
  }

  ASSERT_EQ(exported(out, {"--output", "classes", "--batch", "1,4", "--overwrite"}).code, 0);
  const OpenedEngine likeliest(out, {.batch = 4});
  EXPECT_EQ(brim_rt_output(likeliest.session(), 0)->dtype, BRIM_RT_I32);
  EXPECT_EQ(brim_rt_output(likeliest.session(), 0)->rank, 1);
  EXPECT_STREQ(brim_rt_output(likeliest.session(), 0)->name, "classes");
  const Ran soft = exported(out, {"--output", "softmax", "--overwrite", "--json", out + ".json"});
  ASSERT_EQ(soft.code, 0) << soft.err;
  EXPECT_EQ(json::parse(slurp(out + ".json"))["output"], "softmax");
}

TEST_F(ExportEngine, RefusesWhatDoesNotFit) {
  const std::string out = *folder() / "refused.brim";
  const auto refused = [&](const std::vector<std::string>& more) {
    const Ran ran = exported(out, more);
    EXPECT_EQ(ran.code, 2) << ran.out;
    EXPECT_FALSE(std::filesystem::exists(out));
    return ran.err;
  };
  EXPECT_NE(refused({"--batch", "0"}).find("sizes are from 1 to 65536"), std::string::npos);
  EXPECT_NE(refused({"--batch", "2,2"}).find("each once, as 1,8"), std::string::npos);
  EXPECT_NE(refused({"--batch", "1,x"}).find("--batch"), std::string::npos);
  EXPECT_NE(refused({"--symmetric"}).find("it is for --onnx"), std::string::npos);
  EXPECT_NE(refused({"--onnx", "--runtime", "x"}).find("it is for engines"), std::string::npos);
  EXPECT_NE(refused({"--target", "mips"}).find("--target"), std::string::npos);
  EXPECT_NE(refused({"--target", "native"}).find("it is for --runtime"), std::string::npos);
  for (const char* output : {"top", "top:", "top:0", "top:11", "top:3x", "mask", "Softmax"})
    EXPECT_NE(refused({"--output", output}).find("--output "), std::string::npos) << output;
  EXPECT_NE(refused({"--onnx", "--output", "softmax"}).find("for engines"), std::string::npos);
  EXPECT_NE(refused({"--bgr"}).find("it is for --pictures"), std::string::npos);
  for (const char* sizes : {"48", "0x5", "3x48x60", "48x40000", "48x", "axb"})
    EXPECT_NE(refused({"--pictures", sizes}).find("are written as 480x640"), std::string::npos)
        << sizes;
  EXPECT_NE(refused({"--onnx", "--pictures", "48x60"}).find("for engines"), std::string::npos);
  EXPECT_NE(refused({"--onnx", "--threads", "2"}).find("it is for engines"), std::string::npos);
  EXPECT_NE(run_brim({"export", "-o", out + ".onnx", "--weights", weights()}).err.find("--onnx"),
            std::string::npos);
  EXPECT_NE(run_brim({"export", "-o", "-", "--weights", weights()}).err.find("written to a file"),
            std::string::npos);
}

}  // namespace
}  // namespace brim::tests
