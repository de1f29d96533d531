// `brim recipe`: what it prints is a recipe, and the same one.
#include <brim/train/recipe.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "cli/run_brim.h"

namespace brim::tests {
namespace {

TEST(RecipeCommand, PrintsEachBuiltInRecipeWhole) {
  std::string listed;
  for (const std::string& name : train::recipe_names()) {
    listed += name + "\n";
    const Ran ran = run_brim({"recipe", name});
    ASSERT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(train::parse_recipe(ran.out, name).toml(), train::load_recipe(name).toml()) << name;
  }
  EXPECT_EQ(run_brim({"recipe"}).out, listed);
}

TEST(RecipeCommand, WritesAFileThatTrains) {
  const TemporaryFolder folder;
  const std::string file = folder / "mine.toml";
  const Ran ran = run_brim({"recipe", "tutorial-cnn", "--out", file});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(train::load_recipe(file).toml(), train::load_recipe("tutorial-cnn").toml());
  EXPECT_EQ(run_brim({"recipe", file}).out, slurp(file));
  EXPECT_EQ(run_brim({"plan", file, "--batch", "4"}).code, 0);

  // The one that is there stays, unless it may be replaced.
  const Ran again = run_brim({"recipe", "resnet18", "--out", file});
  EXPECT_EQ(again.code, 1);
  EXPECT_NE(again.err.find("exists; give --overwrite to replace it"), std::string::npos);
  EXPECT_EQ(run_brim({"recipe", "resnet18", "--out", file, "--overwrite"}).code, 0);
  EXPECT_EQ(train::load_recipe(file).model, train::load_recipe("resnet18").model);
}

TEST(RecipeCommand, GivesBackThatOfWeights) {
  const TemporaryFolder folder;
  write_tiny_cifar(folder / "data", 16);
  const std::string run = folder / "run", weights = run + "/model.safetensors";
  std::ofstream(folder / "half.toml") << train::load_recipe("tutorial-cnn").toml()
                                      << "\n[prune]\npattern = 'channels'\nsparsity = 0.5\n";
  const Ran trained = run_brim({"train", folder / "half.toml", "--device", "cpu", "--data",
                                folder / "data", "--epochs", "1", "--out", run});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const std::string recipe = folder / "left.toml", pth = folder / "left.pth";
  ASSERT_EQ(run_brim({"recipe", weights, "--out", recipe}).code, 0);
  EXPECT_NE(slurp(recipe).find("[channels]"), std::string::npos) << slurp(recipe);
  const Ran converted = run_brim({"convert", weights, pth});
  ASSERT_EQ(converted.code, 0) << converted.err;
  EXPECT_NE(converted.out.find("brim recipe " + weights), std::string::npos) << converted.out;

  // PyTorch's files do not hold it; by it they are read.
  const auto evaluated = [&](const std::vector<std::string>& how) {
    std::vector<std::string> args = {"eval", "--data", folder / "data", "--device", "cpu"};
    args.insert(args.end(), how.begin(), how.end());
    return run_brim(args);
  };
  const Ran same = evaluated({recipe, "--weights", pth});
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_EQ(same.out, evaluated({"--weights", weights}).out);
  EXPECT_EQ(evaluated({"tutorial-cnn", "--weights", pth}).code, 1);
  EXPECT_EQ(run_brim({"recipe", pth}).code, 2);
  EXPECT_EQ(run_brim({"recipe", folder / "none.safetensors"}).code, 1);
}

TEST(RecipeCommand, NamesTheNearestOfAMistypedName) {
  const Ran mistyped = run_brim({"recipe", "tutorial-cn"});
  EXPECT_EQ(mistyped.code, 1);
  EXPECT_NE(mistyped.err.find("did you mean 'tutorial-cnn'?"), std::string::npos) << mistyped.err;
  EXPECT_EQ(run_brim({"recipe", "--out", "mine.toml"}).code, 2);
  EXPECT_EQ(run_brim({"recipe", "tutorial-cnn", "--out", "mine"}).code, 2);
}

}  // namespace
}  // namespace brim::tests
