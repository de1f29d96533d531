// `brim recipe`: what it prints is a recipe, and the same one.
#include <brim/train/recipe.h>
#include <gtest/gtest.h>

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

TEST(RecipeCommand, NamesTheNearestOfAMistypedName) {
  const Ran mistyped = run_brim({"recipe", "tutorial-cn"});
  EXPECT_EQ(mistyped.code, 1);
  EXPECT_NE(mistyped.err.find("did you mean 'tutorial-cnn'?"), std::string::npos) << mistyped.err;
  EXPECT_EQ(run_brim({"recipe", "--out", "mine.toml"}).code, 2);
  EXPECT_EQ(run_brim({"recipe", "tutorial-cnn", "--out", "mine"}).code, 2);
}

}  // namespace
}  // namespace brim::tests
