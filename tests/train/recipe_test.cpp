// Recipes: strict keys, typed values, ranges, and text that reads back the same.
#include <brim/train/recipe.h>
#include <brim/train/trainer.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "message_of.h"
#include "temporary_folder.h"

namespace brim::train {
namespace {

std::string parse_error(std::string_view toml) {
  const std::string error = tests::message_of([&] { (void)parse_recipe(toml, "r.toml"); });
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  return error;
}

TEST(Recipe, TutorialCnnIsThePyTorchTutorial) {
  const Recipe r = load_recipe("tutorial-cnn");
  EXPECT_EQ(r.name, "tutorial-cnn");
  EXPECT_EQ(r.model, "tutorial-cnn");
  EXPECT_EQ(r.epochs, 2);
  EXPECT_EQ(r.batch, 4);
  EXPECT_EQ(r.optimizer.name, "sgd");
  EXPECT_EQ(r.optimizer.lr, 0.001);
  EXPECT_EQ(r.optimizer.momentum, 0.9);
  EXPECT_EQ(r.input.mean, (std::vector<double>{0.5, 0.5, 0.5}));
}

TEST(Recipe, AllBuiltInOnesParse) {
  for (const std::string& name : recipe_names()) EXPECT_NO_THROW((void)load_recipe(name)) << name;
}

TEST(Recipe, EmptyDocumentIsTheDefault) {
  EXPECT_EQ(parse_recipe("", "r").toml(), Recipe{}.toml());
}

TEST(Recipe, WrittenTextReadsBack) {
  for (const char* text :
       {"", "model = 'tutorial-cnn'\ndata = 'a \"b\" \\ c'\nepochs = 3\nseed = 9000000000000000000",
        "[optimizer]\nname='adamw'\nlr=1e-30\nbeta1=0.1\nclip_norm=1\n[schedule]\nname='cosine'\n"
        "warmup=0.3333333333333333\nmin_lr=1e-5",
        "[optimizer]\nname='rmsprop'\nalpha=0.5\n",
        "[input]\nsize=32\nrandom_resized_crop=true\nscaled_decode=false",
        "[input]\nmean=[0,1e-5]\nstd=[1,2]\nflip=true\ncrop_padding=4\n[schedule]\nname='step'",
        "[schedule]\nname='one-cycle'\nmax_lr=0.5",
        "[prune]\npattern='vector:8'\nlayers={'layer1.0.conv1'=0.9,fc=0.3333333333333333}\n",
        "[prune]\npattern='vector:8'\nschedule='iterative'\nrounds=3\nrewind_epoch=1\n",
        "[prune]\npattern='2:4'\nschedule='iterative'\nrounds=1\nrewind_weights='a b'\n"
        "is_trained=true\n",
        "[prune]\npattern='channels'\nsparsity=0.5\ndense=['fc']\n",
        "[channels]\ninputs={conv2=3}\noutputs={conv1=3,'layer1.0.bn1'=12}\n",
        "[distill]\nteacher='a/model.safetensors'\nweight=0.25\ntemperature=2\n",
        "[speed]\nworkers=3\naugment_on='host'\ncompile=false",
        "[speed]\ndata_on_device=true\nsteps_per_graph=50\npasses='exact'"}) {
    const Recipe r = parse_recipe(text, "r");
    EXPECT_EQ(parse_recipe(r.toml(), "r").toml(), r.toml()) << r.toml();
  }
}

TEST(Recipe, ErrorsNameTheLineAndTheNearestKey) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"epoch = 2", "r.toml:1: unknown key 'epoch'; did you mean 'epochs'?"},
      {"\n[optimizer]\nmomentun = 2",
       "r.toml:3: unknown key 'optimizer.momentun'; did you mean "
       "'momentum'?"},
      {"[speed]\nworkers = 2000", "r.toml:2: speed.workers must be an integer, from -1"},
      {"[speed]\naugment_on = 'gpu'", "speed.augment_on 'gpu' is unknown"},
      {"[optimiser]\nlr = 1", "did you mean 'optimizer'?"},
      {"[optimizer]\nname = 'adam'\nmomentum = 0.9",
       "r.toml:3: 'optimizer.momentum' is only for optimizers sgd and rmsprop"},
      {"[optimizer]\nname = 'sdg'", "optimizer.name 'sdg' is unknown; did you mean 'sgd'?"},
      {"model = 'tutorial-cn'", "did you mean 'tutorial-cnn'?"},
      {"[schedule]\nname = 'cosin'", "did you mean 'cosine'?"},
      {"[input]\nrandom_resized_crop = true", "input.random_resized_crop needs input.size"},
      {"[input]\nsize = 8\ncrop_padding = 1\nrandom_resized_crop = true", "take one"},
      {"epochs = 0", "epochs must be an integer, from 1"},
      {"epochs = 1.5", "epochs must be an integer"},
      {"epochs = 'two'", "r.toml:1: epochs must be an integer"},
      {"batch = -4", "batch must be an integer"},
      {"batch = 9223372036854775807", "batch must be an integer"},
      {"seed = -1", "seed must be"},
      {"[optimizer]\nlr = -1", "optimizer.lr must be a number, from 0"},
      {"[optimizer]\nlr = nan", "optimizer.lr must be a number"},
      {"[optimizer]\nlr = inf", "optimizer.lr must be a number"},
      {"[optimizer]\nlr = '1'", "optimizer.lr must be a number"},
      {"[optimizer]\nnesterov = 1", "nesterov must be true or false"},
      {"[optimizer]\nnesterov = true", "needs optimizer.momentum"},
      {"optimizer = 1", "must be a section"},
      {"[input]\nstd = [0.5, 0, 0.5]", "input.std must be a number, above 0"},
      {"[input]\nstd = 1", "must be a list"},
      {"[input]\nmean = [1.0]", "input.mean has 1 numbers and input.std 3"},
      {"data = ''", "must be a line of text"},
      {"data = 3", "must be a line of text"},
      {"epochs = 2\nepochs = 3", "not TOML"},
      {"[prune]\nlayers = { fc = 0.5 }", "'prune.layers' is only for a prune.pattern"},
      {"[prune]\npattern = '2:4'\nlayers = 0.5", "prune.layers must name numbers"},
      {"[prune]\npattern = 'vector:8'\nrounds = 3",
       "'prune.rounds' is only for a prune.pattern with schedule iterative"},
      {"[prune]\npattern = 'vector:8'\nschedule = 'iterative'\nepochs = 1",
       "'prune.epochs' is only for a prune.pattern with schedule gradual"},
      {"[prune]\npattern = 'channels'\nepochs = 1", "whole channels go at once"},
      {"[channels]\noutputs = { conv1 = 0 }", "channels.outputs must be a number"},
      {"[channels]\noutputs = { conv1 = 2.5 }", "give a whole number"},
      {"[prune]\npattern = 'vector:8'\nlayers = { fc = 1 }", "prune.layers must be a number"},
      {"[distill]\nweight = 0.5", "'distill.weight' is only for a distill.teacher"},
      {"[distill]\nteacher = 'a'\nweight = 0", "distill.weight must be a number, above 0"},
      {"[distill]\nteacher = 'a'\ntemperature = 0", "distill.temperature must be a number"},
      {"= 3", "r.toml:1:1: not TOML"},
      {"a = \xff", "not TOML"},
  };
  for (const auto& [text, expected] : cases)
    EXPECT_NE(parse_error(text).find(expected), std::string::npos)
        << text << "\nexpected: " << expected << "\ngot: " << parse_error(text);
}

TEST(Recipe, SpeedIsThatOfTheOptions) {
  const Recipe r = parse_recipe(
      "[speed]\nworkers=3\naugment_on='device'\nsteps_per_graph=7\ncompile=false\npasses='exact'",
      "r");
  const TrainOptions o = with_speed({.out = "kept"}, r.speed);
  EXPECT_EQ(o.workers, 3);
  EXPECT_EQ(o.augment_on, AugmentOn::device);
  EXPECT_EQ(o.steps_per_graph, 7);
  EXPECT_FALSE(o.compile);
  EXPECT_EQ(o.passes, "exact");
  EXPECT_EQ(o.out, "kept");
  Recipe same = r;
  same.speed = speed_of(o);
  EXPECT_EQ(same.toml(), r.toml());
  EXPECT_EQ(r.learned_toml(), Recipe().toml());
  SpeedRecipe nowhere;
  nowhere.augment_on = "gpu";
  EXPECT_NE(
      tests::message_of([&] { (void)with_speed({}, nowhere); }).find("speed.augment_on 'gpu'"),
      std::string::npos);
  const tests::TemporaryFolder folder;
  std::ofstream(folder / "r.toml") << "[speed]\npasses = 'layuot'";
  EXPECT_NE(tests::message_of([&] {
              (void)load_recipe(folder / "r.toml");
            }).find("r.toml: speed.passes: [passes] there is no pass 'layuot'"),
            std::string::npos);
  Recipe of_nothing;
  of_nothing.speed = speed_of({});
  EXPECT_EQ(of_nothing.toml(), Recipe().toml());
}

// toml++ would overflow the stack over keys of that many parts.
TEST(Recipe, DepthAndLengthAreBounded) {
  std::string key = "a", lists;
  for (int i = 0; i < 100'000; ++i) key += ".a";
  for (int i = 0; i < 200; ++i) lists += "[{" + key.substr(0, 1000) + " = \n";
  for (const std::string& text : {key + " = 1", "[" + key + "]", "[[" + key + "]]",
                                  "x = {" + key + " = 1}", "x = " + lists, "x = '" + key + "'"})
    EXPECT_NE(parse_error(text).find("dots, more than the limit of 1000; this is no recipe"),
              std::string::npos)
        << parse_error(text);
  EXPECT_NE(parse_error(key.substr(0, 2001) + " = 1").find("unknown key 'a'"), std::string::npos);
  EXPECT_NE(parse_error(std::string(2 << 20, '#')).find("2097152 bytes, more than"),
            std::string::npos);
  EXPECT_LT(parse_error("a = 1\n" + std::string(1 << 19, 'a') + " = 1").size(), 250U);
  EXPECT_LT(
      parse_error(std::string(1 << 19, 'a') + " = 1\n" + std::string(1 << 19, 'a') + " = 1").size(),
      300U);
}

TEST(Recipe, NamesAndFiles) {
  try {
    (void)load_recipe("tutorial-cn");
    FAIL();
  } catch (const ValueError& e) {
    EXPECT_NE(std::string(e.what()).find("did you mean 'tutorial-cnn'?"), std::string::npos);
  }
  EXPECT_THROW((void)load_recipe("/no/such/file.toml"), FileError);
  EXPECT_THROW((void)load_recipe("./"), FileError);
  const tests::TemporaryFolder folder;
  const std::string path = folder / "recipe.toml";
  std::ofstream(path) << "epochs = 7\n";
  EXPECT_EQ(load_recipe(path).epochs, 7);
  std::ofstream(path) << std::string(2 << 20, '#');
  EXPECT_THROW((void)load_recipe(path), FileError);
}

TEST(Recipe, PipeIsRefusedAndNotWaitedFor) {
  const tests::TemporaryFolder folder;
  const std::string path = folder / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THROW((void)load_recipe(path), FileError);
}

TEST(Recipe, NamesThatNoCheckpointCouldKeep) {
  Recipe r;
  r.data = "caf\xe9";
  EXPECT_THROW(check_recipe(r), ValueError);
  const tests::TemporaryFolder folder;
  const std::string path = folder / "caf\xe9.toml";
  std::ofstream(path) << "epochs = 7\n";
  EXPECT_THROW((void)load_recipe(path), ValueError);
  EXPECT_EQ(parse_recipe("epochs = 7", path).epochs, 7) << "only a name for messages";
}

TEST(Recipe, ChangedValuesAreCheckedToo) {
  Recipe r;
  r.batch = 0;
  EXPECT_THROW(check_recipe(r), ValueError);
  r = {};
  r.optimizer.lr = -1;
  EXPECT_THROW(check_recipe(r), ValueError);
}

}  // namespace
}  // namespace brim::train
