// Names out of files reach the terminal without control characters: they could move the cursor,
// change the window's title or fake lines.
#include <brim/io/safetensors.h>
#include <brim/train/weights.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/run_brim.h"
#include "core/printable.h"

namespace brim::tests {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kHostile = "\x1b]0;owned\x07\xc2\x9b";  // ESC, BEL and CSI
constexpr const char* kShown = "?]0;owned??";

class Names : public ::testing::Test {
 protected:
  void SetUp() override {
    if (access(brim_path().c_str(), X_OK) != 0) GTEST_SKIP() << brim_path() << " is not built";
    for (const std::string split : {"train", "test"})
      for (const std::string& name : {std::string("b"), std::string(kHostile) + "\xff\nx"}) {
        fs::create_directories(pictures + "/" + split + "/" + name);
        write_pixel_png(pictures + "/" + split + "/" + name + "/0.png");
      }
  }
  /// Runs it; all that it says may be shown.
  static Ran run(const std::vector<std::string>& args, int code) {
    Ran ran = run_brim(args);
    EXPECT_EQ(ran.code, code) << ran.err;
    EXPECT_EQ(ran.out, printable(ran.out, "\n"));
    EXPECT_EQ(ran.err, printable(ran.err, "\n"));
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), code == 0 ? 0 : 1) << ran.err;
    return ran;
  }
  static bool tells(const std::string& text) { return text.find(kShown) != std::string::npos; }

  TemporaryFolder folder;
  const std::string pictures = folder / "pictures", out = folder / "run";
};

TEST_F(Names, OfClasses) {
  const Ran verified = run({"data", "verify", pictures}, 0);
  EXPECT_TRUE(tells(verified.out)) << verified.out;
  const Ran trained = run({"train", "tutorial-cnn", "--data", pictures, "--out", out}, 0);
  EXPECT_TRUE(tells(trained.out)) << trained.out;
  const std::string weights = out + "/model.safetensors";
  const Ran evaluated = run({"eval", "--weights", weights, "--data", pictures}, 0);
  EXPECT_TRUE(tells(evaluated.out)) << evaluated.out;
  const std::string picture = pictures + "/test/b/0.png";
  const Ran predicted = run({"predict", "--weights", weights, "--top", "2", picture}, 0);
  EXPECT_TRUE(tells(predicted.out)) << predicted.out;
  EXPECT_EQ(std::count(predicted.out.begin(), predicted.out.end(), '\n'), 1) << predicted.out;
  // JSON has the names as they are.
  const Ran ran = run_brim({"predict", "--weights", weights, "--top", "2", "--json", "-", picture});
  EXPECT_EQ(json::parse(ran.out)["images"][0]["classes"].size(), 2U);
  EXPECT_NE(json::parse(ran.out).dump().find("\\u001b]0;owned"), std::string::npos);
}

TEST_F(Names, OfFilesAndTensors) {
  const std::string bad = pictures + "/train/b/" + kHostile + ".png";
  std::ofstream(bad) << "no picture";
  EXPECT_TRUE(tells(run({"data", "verify", pictures}, 1).out));
  EXPECT_TRUE(tells(run({"train", "tutorial-cnn", "--data", pictures}, 1).err));
  EXPECT_TRUE(tells(run({"predict", "--weights", bad, "x.png"}, 1).err));
  EXPECT_TRUE(tells(run({"train", std::string(kHostile) + ".toml"}, 1).err));
  EXPECT_TRUE(tells(run({"train", "tutorial-cnn", "--device", kHostile}, 1).err));
  EXPECT_TRUE(tells(run({kHostile}, 2).err));
  EXPECT_TRUE(tells(run({"train", "--epochs", kHostile}, 2).err));
  const std::string weights = folder / "w.safetensors";
  io::save_safetensors(weights, {{kHostile, Tensor::from<float>({1}, {1})}});
  run({"predict", "--weights", weights, "--recipe", "tutorial-cnn", bad, "--top", "1"}, 1);
  EXPECT_TRUE(tells(run({"convert", weights, folder / (std::string(kHostile) + ".pth")}, 0).out));
}

TEST_F(Names, OfRecipes) {
  train::Recipe recipe = train::load_recipe("tutorial-cnn");
  const std::string weights = folder / "w.safetensors";
  io::save_safetensors(weights, {{"x", Tensor::from<float>({1}, {1})}},
                       {{"brim.recipe", recipe.toml()},
                        {"brim.name", kHostile},
                        {"brim.classes", json({"a", kHostile}).dump()}});
  EXPECT_TRUE(tells(run({"eval", "resnet18", "--weights", weights, "--data", pictures}, 1).err));
  run({"predict", "--weights", weights, pictures + "/test/b/0.png"}, 1);
}

TEST_F(Names, OfFoldersInCommandsToType) {
  const std::string hostile = folder / (std::string(kHostile) + "'s"), old = folder / "old";
  const Ran ran =
      run_brim({"train", "tutorial-cnn", "--epochs", "9999", "--out", hostile},
               signal_when("ls " + in_quotes(hostile) + " 2>/dev/null | grep -q .", "INT"));
  EXPECT_EQ(ran.code, 130) << ran.err;
  EXPECT_EQ(ran.err, printable(ran.err, "\n"));
  const size_t at = ran.err.find("--resume $'");
  if (at == std::string::npos) return;  // it was stopped before a checkpoint could be kept
  EXPECT_NE(ran.err.find("\\x1b]0;owned\\x07\\xc2\\x9b\\x27s'", at), std::string::npos) << ran.err;
}

}  // namespace
}  // namespace brim::tests
