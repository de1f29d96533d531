// `brim train`, `eval` and `predict` of every task, and a program that adds its own to the command.
#include <brim/data/image.h>
#include <brim/io/safetensors.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/run_brim.h"
#include "data/image/decode.h"

namespace brim::command {
namespace {

using nlohmann::json;
using tests::Ran;
using tests::run_brim;
using tests::slurp;

class TaskCommand : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder / name, std::ios::binary) << text;
    return folder / name;
  }
  /// Trains a recipe into `run` and returns what --json says.
  json train(std::vector<std::string> args) {
    args.insert(args.begin(), "train");
    args.insert(args.end(), {"--device", "cpu", "--out", run(), "--json", folder / "r.json"});
    const Ran ran = run_brim(args);
    EXPECT_EQ(ran.code, 0) << ran.err;
    said = ran.out;
    return json::parse(slurp(folder / "r.json"));
  }
  Ran predict(std::vector<std::string> args) {
    args.insert(args.begin(), {"predict", "--device", "cpu", "--weights", weights()});
    return run_brim(args);
  }
  std::string run() const { return folder / "run"; }
  std::string weights() const { return run() + "/model.safetensors"; }

  tests::TemporaryFolder folder;
  std::string said;
};

TEST_F(TaskCommand, NumbersOfATable) {
  std::string table = "size,rooms,price\n";
  for (int i = 0; i < 200; ++i)
    table += std::to_string(i % 50) + "," + std::to_string(i % 7) + "," +
             std::to_string(3 * (i % 50) + i % 7) + "\n";
  const std::string data = write("t.csv", table);
  const std::string recipe =
      write("t.toml", "task = \"regress\"\nmodel = \"mlp\"\ndata = \"" + data +
                          "\"\nepochs = 20\nbatch = 16\n[validation]\nfraction = "
                          "0.2\n[optimizer]\nname = \"adam\"\nlr = 0.01\n");
  const json r = train({recipe});
  EXPECT_EQ(r["task"], "regress");
  EXPECT_TRUE(r["accuracy"].is_null());
  EXPECT_TRUE(r["metrics"].is_null());  // no test split
  EXPECT_GT(r["validation"]["metrics"]["r2"], 0.9);
  EXPECT_NE(said.find("validation: rmse"), std::string::npos) << said;
  EXPECT_NE(said.find("samples/s"), std::string::npos);

  const Ran eval = run_brim(
      {"eval", "--weights", weights(), "--split", "train", "--device", "cpu", "--json", "-"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_GT(json::parse(eval.out)["metrics"]["r2"], 0.9);
  const auto shown = [&](const char* split) {
    return run_brim({"eval", "--weights", weights(), "--split", split, "--device", "cpu"}).out;
  };
  EXPECT_NE(shown("train").find("on 200 training samples: rmse"), std::string::npos);
  EXPECT_NE(shown("all").find("on 200 samples: rmse"), std::string::npos);

  // Columns are found by name; others are left alone.
  const std::string rows = write("q.csv", "rooms,colour,size\n3,4,10\n1,4,20\n");
  const Ran ran = predict({rows, "--json", "-"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const json said_of = json::parse(ran.out)["predictions"];
  ASSERT_EQ(said_of.size(), 2U);
  EXPECT_NEAR(said_of[0]["values"]["price"], 33, 15);
  EXPECT_NEAR(said_of[1]["values"]["price"], 61, 15);
  EXPECT_NE(predict({rows}).out.find("q.csv: line 3: price "), std::string::npos);
  EXPECT_NE(predict({write("bad.csv", "rooms\n3\n")}).err.find("size"), std::string::npos);

  const io::SafeTensors file(weights());
  io::Metadata metadata = file.metadata();
  metadata["brim.input"] = "[100000000]";
  io::save_safetensors(folder / "big.safetensors", file.load_all(), metadata);
  const Ran big =
      run_brim({"predict", "--device", "cpu", "--weights", folder / "big.safetensors", rows});
  EXPECT_EQ(big.code, 1);
  EXPECT_NE(big.err.find("needs many more"), std::string::npos) << big.err;
}

TEST_F(TaskCommand, ClassesOfATable) {
  std::string table = "a,b,kind\n";
  for (int i = 0; i < 120; ++i)
    table += std::to_string(i % 11) + "," + std::to_string(i % 13) +
             (i % 11 > i % 13 ? ",up\n" : ",down\n");
  const std::string recipe =
      write("t.toml", "model = \"mlp\"\ndata = \"" + write("t.csv", table) +
                          "\"\nepochs = 20\nmetrics = [\"accuracy\", \"f1\"]\n[optimizer]\nname = "
                          "\"adam\"\nlr = 0.01\n");
  train({recipe});
  const Ran ran = predict({write("q.csv", "a,b\n9,1\n0,12\n"), "--top", "2"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("line 2: up "), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("line 3: down "), std::string::npos) << ran.out;
}

/// A grey picture of 64 x 48 with a bright square.
std::string grey_png() {
  data::Image image{.width = 64, .height = 48, .channels = 1, .pixels = {}};
  image.pixels.assign(64 * 48, 40);
  for (size_t y = 10; y < 30; ++y)
    for (size_t x = 20; x < 40; ++x) image.pixels[y * 64 + x] = 220;
  const std::vector<uint8_t> bytes = data::encode_png(image);
  return {bytes.begin(), bytes.end()};
}

TEST_F(TaskCommand, MasksOfPictures) {
  train({"shapes-masks", "--steps", "2"});
  const std::string path = write("a.png", grey_png());  // the network takes three channels
  const Ran ran = predict({path, "--out", folder / "masks", "--json", "-"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const json r = json::parse(ran.out)["predictions"][0];
  const data::PixelImage mask = data::load_pixels(folder / "masks/a.png");
  EXPECT_EQ(mask.shape(), (data::ImageShape{1, 48, 64}));
  double whole = 0;
  for (const auto& [name, part] : r["parts"].items()) whole += part.get<double>();
  EXPECT_DOUBLE_EQ(whole, 1);
  EXPECT_NE(predict({path}).err.find("--out FOLDER"), std::string::npos);
  const std::string before = slurp(path);
  EXPECT_NE(predict({path, "--out", folder / "."}).err.find("there already"), std::string::npos);
  EXPECT_EQ(slurp(path), before);
  EXPECT_NE(predict({path, path, "--out", folder / "more"}).err.find("two pictures"),
            std::string::npos);
}

TEST_F(TaskCommand, LabelsOfPictures) {
  const json r = train({"shapes-labels", "--steps", "3"});
  EXPECT_TRUE(r["metrics"].contains("average-precision"));
  EXPECT_NE(said.find("on 500 test samples: f1 "), std::string::npos) << said;
  data::Image image{.width = 32, .height = 32, .channels = 3, .pixels = {}};
  image.pixels.assign(32 * 32 * 3, 90);
  const std::vector<uint8_t> bytes = data::encode_png(image);
  const std::string path = write("a.png", {bytes.begin(), bytes.end()});
  const Ran ran = predict({path, "--json", "-"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const json said_of = json::parse(ran.out);
  for (const json& label : said_of["predictions"][0]["classes"])
    EXPECT_GE(label["probability"], 0.5);
  EXPECT_NE(predict({path, "--out", folder / "m"}).err.find("--out is for masks"),
            std::string::npos);
}

TEST_F(TaskCommand, TextsGoOn) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "abcdefgh";
  const std::string recipe =
      write("t.toml", "task = \"language\"\nmodel = \"transformer-small\"\ndata = \"" +
                          write("t.txt", text) +
                          "\"\nepochs = 12\nbatch = 8\n[input]\nwindow = 16\n[optimizer]\nname = "
                          "\"adam\"\nlr = 0.003\n");
  train({recipe});
  const Ran ran = predict({"abcd", "--length", "30", "--temperature", "0"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, "abcdefghabcdefghabcdefghabcdefghab\n");
  EXPECT_EQ(predict({"abcd", "--seed", "3"}).out, predict({"abcd", "--seed", "3"}).out);
  // It shows what it writes while it writes, and ends when nobody reads on.
  const std::string begin = folder / "begin";
  ASSERT_EQ(std::system((tests::in_quotes(tests::brim_path()) + " predict --device cpu --weights " +
                         weights() + " abcd --temperature 0 --length 1000000000 | head -c 12 >" +
                         tests::in_quotes(begin))
                            .c_str()),
            0);
  EXPECT_EQ(slurp(begin), "abcdefghabcd");
  EXPECT_NE(run_brim({"train", "text", "--device", "cpu"}).err.find("text.txt"), std::string::npos);
}

TEST_F(TaskCommand, AProgramAddsItsOwn) {
  const char* build = std::getenv("BRIM_BUILD_DIR");
  const std::string program =
      std::filesystem::absolute(build ? build : "build") / "examples/own_task";
  if (!std::filesystem::exists(program)) GTEST_SKIP() << "examples are not built";
  const std::string recipe = write("waves.toml",
                                   "task = \"denoise\"\nmodel = \"wave-net\"\ndata = \"waves\"\n"
                                   "epochs = 2\nbatch = 32\n[input]\ntransforms = [\"noise\"]\n"
                                   "[validation]\nfraction = 0.1\n[optimizer]\nname = \"adam\"\n");
  const std::string end = " --device cpu >" + tests::in_quotes(folder / "out") + " 2>&1";
  ASSERT_EQ(std::system((program + " train " + recipe + " --out " + run() + end).c_str()), 0)
      << slurp(folder / "out");
  EXPECT_NE(slurp(folder / "out").find("test samples: noise-left 0."), std::string::npos)
      << slurp(folder / "out");
  EXPECT_EQ(std::system((program + " eval --weights " + weights() + end).c_str()), 0);
  // The command itself does not know it.
  const Ran ran = run_brim({"eval", "--weights", weights(), "--device", "cpu"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_NE(ran.err.find("task 'denoise' is unknown"), std::string::npos) << ran.err;
}

}  // namespace
}  // namespace brim::command
