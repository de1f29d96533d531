// Small things that newcomers meet: what options say of themselves, and what commands say back.
#include <gtest/gtest.h>

#include "cli/trained_tutorial_cnn.h"

namespace brim {
namespace {

using tests::Ran;
using tests::run_brim;

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

int times_in(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

class Newcomer : public tests::TrainedTutorialCnn<Newcomer> {};

TEST_F(Newcomer, HelpListsEverySourceOfData) {
  for (const char* command : {"train", "eval", "doctor", "prune", "quantize", "shrink"}) {
    const Ran ran = run_brim({command, "--help"});
    std::string text;  // without the line ends of the columns
    for (const char c : ran.out)
      if (c != '\n' && !(c == ' ' && !text.empty() && text.back() == ' ')) text += c;
    for (const char* source :
         {"shapes10", "friedman1", "shapes-labels", "shapes-masks", "CIFAR-10 binary", "MNIST",
          "pictures by class", "labels.csv", "masks/", "tar", "WebDataset", "safetensors",
          "CSV table", "text", "tokens"})
      EXPECT_TRUE(mentions(text, source)) << command << " does not list " << source << "\n" << text;
  }
}

TEST_F(Newcomer, ExplainPrintsEveryPlanInUse) {
  // 48 pictures in batches of 20: two full ones, and one of 8.
  const Ran ran = run_brim({"train", "tutorial-cnn", "--device", "cpu", "--data", data(),
                            "--epochs", "1", "--batch", "20", "--explain"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(mentions(ran.out, "plan 1 of 2, for inputs (20, 3, 32, 32) f32, (20) i64:\n"))
      << ran.out;
  EXPECT_TRUE(mentions(ran.out, "plan 2 of 2, for inputs (8, 3, 32, 32) f32, (8) i64:\n"))
      << ran.out;
  EXPECT_EQ(times_in(ran.out, "\nlaunches: "), 2) << ran.out;
  // A single plan has no number.
  const Ran one = run_brim({"train", "tutorial-cnn", "--device", "cpu", "--data", data(),
                            "--epochs", "1", "--batch", "24", "--explain"});
  EXPECT_EQ(times_in(one.out, "\nlaunches: "), 1) << one.out;
  EXPECT_FALSE(mentions(one.out, "plan 1 of")) << one.out;
}

TEST_F(Newcomer, OptionsSayWhatIsNoNumber) {
  for (const char* text : {"abc", "1e", "0.1x", "nan"}) {
    const Ran ran = run_brim({"train", "tutorial-cnn", "--lr", text});
    EXPECT_EQ(ran.code, 2);
    EXPECT_TRUE(mentions(ran.err, "--lr") && mentions(ran.err, "is no number")) << ran.err;
    EXPECT_EQ(times_in(ran.err, "\n"), 1) << ran.err;
  }
  EXPECT_TRUE(
      mentions(run_brim({"train", "tutorial-cnn", "--batch", "abc"}).err, "is no whole number"));
}

TEST_F(Newcomer, EvalSaysWhichSplit) {
  const auto eval = [](const std::string& split) {
    return run_brim(
        {"eval", "--weights", weights(), "--data", data(), "--split", split, "--device", "cpu"});
  };
  EXPECT_TRUE(mentions(eval("train").out, "training images")) << eval("train").out;
  EXPECT_FALSE(mentions(eval("train").out, "test images"));
  EXPECT_TRUE(mentions(eval("test").out, "test images")) << eval("test").out;
}

}  // namespace
}  // namespace brim
