// Programs around an engine, as users have them: examples/engine and python/brim_rt.py.
#include <brim/autograd/autograd.h>
#include <brim/core/random.h>
#include <brim/deploy/engine.h>
#include <brim/nn/models.h>
#include <brim/ops/create.h>
#include <brim/ops/softmax.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/run_brim.h"
#include "data/scratch.h"

namespace brim::tests {
namespace {

namespace fs = std::filesystem;

constexpr int kSide = 32;

std::string build_path(const std::string& file) {
  const char* build = std::getenv("BRIM_BUILD_DIR");
  return fs::absolute(build ? build : "build") / file;
}

/// The tutorial's network as an engine with names of classes, and two pictures.
class EnginePrograms : public ::testing::Test {
 protected:
  void SetUp() override {
    manual_seed(3);
    network = nn::make_model("tutorial-cnn");
    network->eval();
    std::vector<std::string> labels;
    for (int i = 0; i < 10; ++i) labels.push_back("class" + std::to_string(i));
    deploy::save_engine(engine, *network, zeros({1, 3, kSide, kSide}),
                        {.batches = {1, 4},
                         .labels = labels,
                         .metadata = {{"mean", "[0.5,0.5,0.5]"}, {"std", "[0.5,0.25,0.5]"}},
                         .threads = 1});
    fs::create_directory(pictures);
    const std::vector<uint8_t> rgb = data::tests::gradient(kSide, kSide, 3, 1);
    std::ofstream(pictures + "/a.ppm", std::ios::binary) << "P6\n32 32\n255\n"
                                                         << std::string(rgb.begin(), rgb.end());
    data::tests::write_bytes(pictures + "/b.png", data::tests::encode_png(rgb, kSide, kSide, 3));
  }
  /// The engine is one that prepares pictures, and chooses classes, itself.
  void prepare_inside(deploy::EngineOutput output, const std::string& named, bool bgr = false) {
    deploy::EngineOptions options{
        .labels = {},
        .metadata = {{"pictures", bgr ? "BGR" : "RGB"}, {"output", named}},
        .pictures = deploy::EnginePictures{.height = kSide,
                                           .width = kSide,
                                           .transform = {.normalize = {.mean = {0.5f, 0.5f, 0.5f},
                                                                       .std = {0.5f, 0.25f, 0.5f}}},
                                           .bgr = bgr},
        .output = output,
        .top = 2,
        .threads = 1};
    for (int i = 0; i < 10; ++i) options.labels.push_back("class" + std::to_string(i));
    deploy::save_engine(engine, *network, zeros({1, 3, kSide, kSide}), options);
  }
  /// What the shell command prints.
  std::string run(const std::string& command, int code = 0) {
    const int status = std::system((command + " >" + in_quotes(folder / "out") + " 2>&1").c_str());
    EXPECT_EQ(WEXITSTATUS(status), code) << command << "\n" << slurp(folder / "out");
    return slurp(folder / "out");
  }
  /// What a program prints that gets the engine, and perhaps more.
  std::string run_python(const std::string& program, const std::string& more = "") {
    const char* source = std::getenv("BRIM_SOURCE_DIR");
    std::ofstream(folder / "program.py") << program;
    return run("BRIM_RT_LIBRARY=" + in_quotes(build_path("lib/libbrim_rt.so")) + " PYTHONPATH=" +
               in_quotes((source ? source : ".") + std::string("/python")) + " python3 -B " +
               in_quotes(folder / "program.py") + " " + in_quotes(engine) + " " + more);
  }
  std::string example(const std::string& name) const {
    return in_quotes(build_path("examples/" + name)) + " " + in_quotes(engine) + " " +
           in_quotes(pictures);
  }
  /// The first line of an answer about the pictures, by the network itself.
  std::string expected() {
    const std::vector<uint8_t> rgb = data::tests::gradient(kSide, kSide, 3, 1);
    Tensor x = zeros({1, 3, kSide, kSide});
    const float deviations[] = {0.5f, 0.25f, 0.5f};
    for (size_t p = 0; p < size_t{kSide} * kSide; ++p)
      for (size_t c = 0; c < 3; ++c)
        x.data<float>()[c * kSide * kSide + p] =
            (static_cast<float>(rgb[3 * p + c]) / 255 - 0.5f) / deviations[c];
    const NoGrad scope;
    const Tensor p = softmax((*network)(x), 1);
    const float* const scores = p.data<float>();
    const float* const best = std::max_element(scores, scores + p.numel());
    return fmt::format("class{} {:.1f} %", best - scores, 100 * *best);
  }

  TemporaryFolder folder;
  const std::string engine = folder / "model.brim", pictures = folder / "pictures";
  std::unique_ptr<nn::Module> network;
};

TEST_F(EnginePrograms, ClassifyAFolder) {
  if (!fs::exists(build_path("examples/classify"))) GTEST_SKIP() << "examples are not built";
  std::ofstream(pictures + "/c.ppm") << "P5";
  std::ofstream(pictures + "/d.txt") << "text";
  std::ofstream(pictures + "/e.jpg") << "text";
  const std::vector<uint8_t> rgb = data::tests::gradient(kSide, kSide, 3, 1);
  std::ofstream(pictures + "/f.ppm", std::ios::binary)
      << "P6\n# by an editor, 7 8\n32 # wide\n# high:\n32\n255\n"
      << std::string(rgb.begin(), rgb.end());
  const std::string out = run(example("classify") + " 1 2>/dev/null");
  EXPECT_NE(out.find("f.ppm: " + expected() + "\n"), std::string::npos) << out << expected();
  EXPECT_NE(out.find("a.ppm: " + expected() + "\n"), std::string::npos) << out << expected();
  const std::string errors = run(example("classify") + " 2>&1 >/dev/null");
  EXPECT_NE(errors.find("c.ppm: no PPM of 8 bits"), std::string::npos) << errors;
  EXPECT_NE(errors.find("d.txt: no picture"), std::string::npos) << errors;
  EXPECT_NE(errors.find("e.jpg: "), std::string::npos) << errors;
  const std::string classify = in_quotes(build_path("examples/classify"));
  EXPECT_NE(run(classify + " /nowhere /tmp", 1).find("classify: "), std::string::npos);
  EXPECT_NE(run(classify, 1).find("usage: "), std::string::npos);
}

TEST_F(EnginePrograms, LeaveToAnEngineWhatItDoesItself) {
  if (!fs::exists(build_path("examples/classify"))) GTEST_SKIP() << "examples are not built";
  const std::string likeliest = expected();
  prepare_inside(deploy::EngineOutput::top, "top:2");
  EXPECT_NE(run(example("classify") + " 3").find("a.ppm: " + likeliest + ", class"),
            std::string::npos)
      << slurp(folder / "out") << likeliest;
  EXPECT_NE(run(example("camera") + " 2000 20").find("frames answered"), std::string::npos);
  prepare_inside(deploy::EngineOutput::softmax, "softmax", true);
  EXPECT_NE(run(example("classify") + " 1").find("a.ppm: " + likeliest + "\n"), std::string::npos)
      << slurp(folder / "out") << likeliest;
  prepare_inside(deploy::EngineOutput::classes, "classes");
  EXPECT_NE(run(example("classify")).find("a.ppm: " + likeliest.substr(0, 6) + "\n"),
            std::string::npos)
      << slurp(folder / "out") << likeliest;
  const std::vector<uint8_t> small(12);
  std::ofstream(pictures + "/s.ppm", std::ios::binary) << "P6\n2 2\n255\n"
                                                       << std::string(small.begin(), small.end());
  EXPECT_NE(run(example("classify") + " 2>&1 >/dev/null")
                .find("s.ppm: a picture of 2 x 2, and the engine takes 32 x 32"),
            std::string::npos);
}

TEST_F(EnginePrograms, WatchACamera) {
  if (!fs::exists(build_path("examples/camera"))) GTEST_SKIP() << "examples are not built";
  const std::string out = run(example("camera") + " 2000 50");
  int answered = 0, dropped = 0;
  ASSERT_EQ(std::sscanf(out.c_str(), "%d frames answered, %d dropped;", &answered, &dropped), 2)
      << out;
  EXPECT_EQ(answered + dropped, 50);
  EXPECT_GT(answered, 0);
  EXPECT_NE(run(example("camera") + " 0", 1).find("usage: "), std::string::npos);
  std::ofstream(pictures + "/c.ppm") << "P5";
  EXPECT_NE(run(example("camera"), 1).find("/c.ppm: no PPM of 8 bits"), std::string::npos);
}

bool has_python() {
  return fs::exists(build_path("lib/libbrim_rt.so")) &&
         std::system("python3 -c '' 2>/dev/null") == 0;
}

TEST_F(EnginePrograms, TakePicturesInPython) {
  if (!has_python()) GTEST_SKIP() << "libbrim_rt.so is not built, or there is no python3";
  prepare_inside(deploy::EngineOutput::top, "top:2");
  const std::string out = run_python(R"(
import sys
import brim_rt
with brim_rt.Model(sys.argv[1]) as model, model.session(threads=1) as session:
    print(session.inputs, session.outputs)
    pixels = open(sys.argv[2], "rb").read()[-3072:]
    values, classes = session.run(pixels)
    print(f"{model.labels[classes.tolist()[0][0]]} {100 * values.tolist()[0][0]:.1f} %")
    try:
        session.run(bytes(3071))
    except brim_rt.InvalidArgument as error:
        print(error)
)",
                                     in_quotes(pictures + "/a.ppm"));
  EXPECT_EQ(out,
            "[input: uint8 (1, 32, 32, 3)] [output: float32 (1, 2), classes: int32 (1, 2)]\n" +
                expected() +
                "\ninput is uint8 (1, 32, 32, 3), and was given uint8 (3071,); convert or reshape "
                "it\n");
}

TEST_F(EnginePrograms, RunInPython) {
  if (!has_python()) GTEST_SKIP() << "libbrim_rt.so is not built, or there is no python3";
  const std::string out = run_python(R"(
import array, sys
import brim_rt
with brim_rt.Model(sys.argv[1]) as model:
    print(model.batches, model.labels[3], model.metadata("std"), model.metadata("none"))
    with model.session(batch=4, threads=1, isa="baseline") as session:
        print(session.inputs, session.outputs, session.isa, session.memory > 0, len(session.steps) > 3)
        print(session.verify() < 1e-4)
    with model.session(threads=2) as session:
        y = session.run(array.array("f", [0.5] * 3072))[0].tolist()
        session.cancel()
        try:
            session.run(array.array("f", [0.5] * 3072))
        except brim_rt.Cancelled:
            print("cancelled")
        print(session.run(array.array("f", [0.5] * 3072))[0].tolist() == y)
data = open(sys.argv[1], "rb").read()
with brim_rt.Model(data) as model, model.session() as session:
    print(session.verify() < 1e-4)
for wrong in (data[:-1], data[:1000], data[:-100] + bytes([data[-100] ^ 1]) + data[-99:]):
    try:
        brim_rt.Model(wrong)
    except brim_rt.Damaged:
        print("damaged")
)");
  EXPECT_EQ(out,
            "[1, 4] class3 [0.5,0.25,0.5] None\n"
            "[input: float32 (4, 3, 32, 32)] [output: float32 (4, 10)] baseline True True\n"
            "True\ncancelled\nTrue\nTrue\ndamaged\ndamaged\ndamaged\n");
}

}  // namespace
}  // namespace brim::tests
