// Pictures of the most wrong samples: in a run's folder, and on the page of `brim report`.
#include <brim/data/source.h>
#include <brim/train/recipe.h>
#include <brim/train/trainer.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "command/report_page/most_wrong.h"
#include "command/wrong_pictures.h"
#include "data/image/decode.h"
#include "temporary_folder.h"
#include "train/tiny_data.h"

namespace brim::command {
namespace {

namespace fs = std::filesystem;
using page::base64;
using page::most_wrong_of;

TEST(MostWrongPictures, AreThoseOfTheSamples) {
  const tests::TemporaryFolder folder;
  train::Recipe recipe = train::load_recipe("tutorial-cnn");
  recipe.data = "shapes10";
  const data::Loader loader = train::make_loader(recipe, data::Split::test, false, 1);
  train::Evaluation evaluation;
  for (const int64_t sample : {7, 3, 11}) evaluation.most_wrong.push_back({.sample = sample});
  const fs::path wrong = fs::path(folder.path()) / kWrongFolder;
  save_wrong_pictures(evaluation, loader, folder.path());
  data::Image expected, found;
  loader.source().read(3, expected);
  const std::string png = tests::slurp(wrong / "1.png");
  data::decode_image({reinterpret_cast<const uint8_t*>(png.data()), png.size()}, "1.png", found);
  EXPECT_EQ(found.pixels, expected.pixels);
  EXPECT_TRUE(fs::exists(wrong / "2.png"));
  // Those of another evaluation go; what else lies there stays.
  std::ofstream(wrong / "mine.txt") << "mine";
  evaluation.most_wrong.resize(1);
  save_wrong_pictures(evaluation, loader, folder.path());
  EXPECT_TRUE(fs::exists(wrong / "0.png"));
  EXPECT_FALSE(fs::exists(wrong / "1.png"));
  EXPECT_TRUE(fs::exists(wrong / "mine.txt"));
  // The report finds them.
  const auto result = nlohmann::json::parse(
      R"({"most_wrong": [{"sample": 7, "class": "ring", "predicted": "star", "probability": 0.75}]})");
  const auto rows = most_wrong_of(result, folder.path());
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0]["class"], "ring");
  EXPECT_EQ(rows[0]["probability"], 0.75);
  EXPECT_EQ(rows[0]["picture"], base64(tests::slurp(wrong / "0.png")));
}

TEST(MostWrongPictures, OtherFilesAreNoPictures) {
  const tests::TemporaryFolder folder;
  const fs::path wrong = fs::path(folder.path()) / kWrongFolder;
  fs::create_directory(wrong);
  const std::string signature = "\x89PNG\r\n\x1a\n";
  std::ofstream(wrong / "0.png") << "GIF";
  std::ofstream(wrong / "1.png") << signature << std::string(70000, 'x');
  fs::create_directory(wrong / "2.png");
  std::ofstream(wrong / "3.png") << signature;
  const auto result = nlohmann::json::parse(
      R"({"most_wrong": [{"class": 7}, {}, {"sample": "a"}, {"probability": 2e300}, 5, [], {}]})");
  const auto rows = most_wrong_of(result, folder.path());
  ASSERT_EQ(rows.size(), 5U);
  for (const size_t i : {0, 1, 2, 4}) EXPECT_TRUE(rows[i]["picture"].is_null()) << i;
  EXPECT_EQ(rows[3]["picture"], base64(signature));
  EXPECT_EQ(rows[0]["class"], "");
  EXPECT_TRUE(rows[3]["probability"].is_null());
  for (const char* text : {"{}", R"({"most_wrong": null})", R"({"most_wrong": {"a": 1}})"})
    EXPECT_TRUE(most_wrong_of(nlohmann::json::parse(text), folder.path()).empty()) << text;
}

TEST(Base64, IsRfc4648) {
  const std::string text = "foobar";
  const char* const expected[] = {"", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};
  for (size_t n = 0; n <= text.size(); ++n) EXPECT_EQ(base64(text.substr(0, n)), expected[n]);
  EXPECT_EQ(base64("\xff\xfe\xfd"), "//79");
}

}  // namespace
}  // namespace brim::command
