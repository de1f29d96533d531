// Tasks: each learns from data of its kind, by its name in a recipe; validation decides which epoch
// is the best and when to stop, and a run that was stopped goes on with the same bits.
#include <brim/data/tables.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/loss.h>
#include <brim/train/metric.h>
#include <brim/train/task.h>
#include <brim/train/trainer.h>
#include <brim/train/weights.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "message_of.h"
#include "temporary_folder.h"
#include "train/run_folder.h"
#include "train/tiny_data.h"

namespace brim::train {
namespace {

using tests::slurp;

class TaskTest : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder / name, std::ios::binary) << text;
    return folder / name;
  }
  /// A table of two columns and a class: which of them is larger.
  std::string write_table(const std::string& name, int rows, const char* header = "a,b,larger") {
    std::string text = std::string(header) + "\n";
    for (int i = 0; i < rows; ++i) {
      const int a = i * 37 % 101, b = i * 61 % 97;
      text += fmt::format("{},{},{}\n", a, b, a > b ? "first" : "second");
    }
    return write(name, text);
  }
  static TrainResult train(const Recipe& recipe, TrainOptions options = {}) {
    options.workers = 1;
    return Trainer(recipe, std::move(options)).run();
  }
  std::string error_of(const Recipe& recipe, const TrainOptions& options = {}) {
    return tests::message_of([&] { train(recipe, options); });
  }
  tests::TemporaryFolder folder;
};

TEST_F(TaskTest, RegressionOfATable) {
  Recipe recipe = load_recipe("friedman1");
  recipe.epochs = 6;
  const TrainResult r = train(recipe);
  ASSERT_TRUE(r.test && r.validation);
  EXPECT_EQ(r.test->samples, 2000);
  EXPECT_EQ(r.validation->samples, 800);
  EXPECT_GT(r.test->metric("r2"), 0.6);
  EXPECT_LT(r.test->metric("rmse"), 3);
  EXPECT_TRUE(r.test->classes.empty());
  EXPECT_THROW((void)r.test->accuracy(), IndexError);
}

TEST_F(TaskTest, ClassesOfATableAreLearnedOnCpuAndDevices) {
  std::filesystem::create_directories(folder / "table");
  write_table("table/train.csv", 400);
  write_table("table/test.csv", 100);
  Recipe recipe{.model = "mlp", .data = folder / "table", .epochs = 12, .batch = 16};
  recipe.optimizer = {.name = "adam", .lr = 0.01};
  for (const char* devices : {"cpu", "sim:0", "sim:0,sim:1"}) {
    const TrainResult r = train(recipe, {.devices = Device::list(devices)});
    ASSERT_TRUE(r.test);
    EXPECT_GT(r.test->accuracy(), 0.9) << devices;
    ASSERT_EQ(r.test->classes.size(), 2U);
    EXPECT_EQ(r.test->classes[0].name, "first");
  }
}

TEST_F(TaskTest, LabelsOfPictures) {
  Recipe recipe = load_recipe("shapes-labels");
  recipe.epochs = 1;
  const TrainResult r = train(recipe, {.max_steps = 60});
  ASSERT_TRUE(r.test);
  EXPECT_EQ(r.test->metrics.size(), 3U);
  EXPECT_GT(r.test->metric("label-accuracy"), 0.5);
  EXPECT_GT(r.test->metric("average-precision"), 0.3);
}

TEST_F(TaskTest, MasksOfPictures) {
  Recipe recipe = load_recipe("shapes-masks");
  recipe.metrics = {"pixel-accuracy"};
  recipe.input.flip = true;
  const TrainResult r = train(recipe, {.max_steps = 25});
  ASSERT_TRUE(r.test);
  EXPECT_GT(r.test->metric("pixel-accuracy"), 0.5);
  ASSERT_EQ(r.test->classes.size(), 4U);
  EXPECT_EQ(r.test->classes[0].name, "background");
}

TEST_F(TaskTest, LanguageOfAText) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "the quick brown fox; ";
  Recipe recipe = load_recipe("text");
  recipe.data = write("text.txt", text);
  recipe.input.window = 32;
  recipe.epochs = 2;
  const TrainResult r = train(recipe);
  EXPECT_FALSE(r.test);  // one file has no test split
  ASSERT_TRUE(r.validation);
  EXPECT_LT(r.validation->metric("bits-per-byte"), 2.5);
  EXPECT_NEAR(std::log2(r.validation->metric("perplexity")), r.validation->metric("bits-per-byte"),
              1e-9);
}

TEST_F(TaskTest, PicturesKeepTheirFastWayWithAValidationSplit) {
  tests::write_tiny_cifar(folder / "data");
  Recipe recipe = load_recipe("tutorial-cnn");
  recipe.data = folder / "data";
  recipe.validation = {.fraction = 0.2, .by = "accuracy"};
  Trainer trainer(recipe, {.workers = 1});
  EXPECT_TRUE(trainer.loader().has_pictures());
  EXPECT_EQ(trainer.loader().samples(), 48);
  EXPECT_EQ(trainer.data().names.size(), 10U);
  const TrainResult r = trainer.run();
  ASSERT_TRUE(r.validation && r.test);
  EXPECT_EQ(r.validation->samples, 12);
  EXPECT_EQ(r.test->samples, 20);
}

TEST_F(TaskTest, StopsWhenNoEpochIsBetter) {
  Recipe recipe = load_recipe("friedman1");
  recipe.epochs = 30;
  recipe.optimizer.lr = 0;  // nothing is learned, and batch norm settles
  recipe.schedule = {};
  recipe.validation = {.fraction = 0.05, .by = "mae", .patience = 3};
  int64_t best = 0, ends = 0;
  const TrainResult r = train(recipe, {.progress = [&](const Progress& p) {
                                if (!p.epoch_done) return;
                                ASSERT_NE(p.validation, nullptr);
                                ++ends;
                                if (p.best) best = ends;
                              }});
  EXPECT_TRUE(r.stopped_early);
  EXPECT_FALSE(r.stopped);
  EXPECT_EQ(r.epochs_done, best + 3);
  EXPECT_LT(r.epochs_done, 30);
  EXPECT_TRUE(r.test);
}

TEST_F(TaskTest, AMetricThatIsNoNumberIsTold) {
  std::string table = "a,y\n";
  for (int i = 0; i < 40; ++i) table += std::to_string(i) + ",5\n";  // R2 of equal targets
  Recipe recipe = parse_recipe("task = \"regress\"\nmodel = \"mlp\"\n", "r");
  recipe.data = folder / "t.csv";
  std::ofstream(recipe.data) << table;
  recipe.epochs = 2;
  recipe.validation = {.fraction = 0.5, .by = "r2"};
  std::vector<std::string> warnings;
  train(recipe, {.warn = [&](const std::string& line) { warnings.push_back(line); }});
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_EQ(warnings[0], "validation of epoch 1: r2 is nan, so the epoch cannot be the best one");
}

TEST_F(TaskTest, TheBestCheckpointIsTheBestOnTheValidationSplit) {
  Recipe recipe = load_recipe("friedman1");
  recipe.epochs = 5;
  recipe.optimizer.lr = 0.1;  // restless
  recipe.schedule = {};
  recipe.validation.by = "r2";
  double best = -1e9;
  int64_t best_steps = 0;
  train(recipe, {.out = folder / "run", .progress = [&](const Progress& p) {
                   if (!p.epoch_done || p.validation->metric("r2") <= best) return;
                   best = p.validation->metric("r2");
                   best_steps = p.step;
                 }});
  const std::string link = std::filesystem::read_symlink(folder / "run/best");
  EXPECT_EQ(link, std::filesystem::path(checkpoint_path("x", best_steps)).filename());
}

TEST_F(TaskTest, AStoppedRunGoesOnWithTheSameBitsAndTheSameBest) {
  Recipe recipe = load_recipe("friedman1");
  recipe.epochs = 4;
  recipe.validation.patience = 10;
  train(recipe, {.out = folder / "whole"});
  const int64_t per_epoch = (8000 - 800 + 127) / 128;
  for (const int64_t stop : {int64_t{10}, per_epoch, per_epoch + 1, 2 * per_epoch}) {
    const std::string out = folder / fmt::format("stopped-{}", stop);
    train(recipe, {.max_steps = stop, .out = out});
    std::filesystem::remove(out + "/model.safetensors");
    const TrainResult r = train(recipe, {.resume = out});
    EXPECT_EQ(r.epochs_done, 4);
    EXPECT_EQ(slurp(out + "/model.safetensors"), slurp(folder / "whole/model.safetensors")) << stop;
    EXPECT_EQ(std::filesystem::read_symlink(out + "/best"),
              std::filesystem::read_symlink(folder / "whole/best"))
        << stop;
  }
}

TEST_F(TaskTest, AStopDuringValidationIsMadeUpFor) {
  Recipe recipe = load_recipe("friedman1");
  recipe.epochs = 2;
  train(recipe, {.out = folder / "whole"});
  std::atomic<int> stop = 0;
  const std::string out = folder / "stopped";
  const TrainResult before = train(recipe, {.out = out,
                                            .stage =
                                                [&](const char* stage, double) {
                                                  if (std::string(stage) == "evaluate") stop = 15;
                                                },
                                            .stop = &stop});
  EXPECT_TRUE(before.stopped);
  EXPECT_FALSE(before.validation);
  EXPECT_EQ(before.epochs_done, 0);
  train(recipe, {.resume = out});
  EXPECT_EQ(slurp(out + "/model.safetensors"), slurp(folder / "whole/model.safetensors"));
  EXPECT_EQ(std::filesystem::read_symlink(out + "/best"),
            std::filesystem::read_symlink(folder / "whole/best"));
}

TEST_F(TaskTest, AStopDuringTheLastOrTheBestValidationIsMadeUpFor) {
  Recipe recipe = load_recipe("friedman1");
  recipe.epochs = 3;
  recipe.optimizer.lr = 0.1;  // restless
  recipe.schedule = {};
  train(recipe, {.out = folder / "whole"});
  for (const int64_t epoch : {1, 2, 3}) {
    std::atomic<int> stop = 0;
    int64_t begun = 0;
    const std::string out = folder / fmt::format("stopped-{}", epoch);
    train(recipe, {.out = out,
                   .progress = [&](const Progress& p) { begun += p.epoch_done; },
                   .stage =
                       [&](const char* stage, double) {
                         if (std::string(stage) == "evaluate" && begun == epoch - 1) stop = 15;
                       },
                   .stop = &stop});
    bool told = false;
    const TrainResult r = train(recipe, {.resume = out, .progress = [&](const Progress& p) {
                                           told = told || p.validation != nullptr;
                                         }});
    EXPECT_TRUE(told) << epoch;
    EXPECT_EQ(r.epochs_done, 3);
    EXPECT_TRUE(r.validation);
    EXPECT_EQ(slurp(out + "/model.safetensors"), slurp(folder / "whole/model.safetensors"));
    EXPECT_EQ(std::filesystem::read_symlink(out + "/best"),
              std::filesystem::read_symlink(folder / "whole/best"))
        << epoch;
  }
}

TEST_F(TaskTest, ATestTableIsReadAsTheTrainingTable) {
  std::filesystem::create_directories(folder / "table");
  write_table("table/train.csv", 400);
  // Columns in another order, one more, and one class alone.
  write("table/test.csv", "larger,b,c,a\nsecond,90,1,2\nsecond,80,1,3\n");
  Recipe recipe{.model = "mlp", .data = folder / "table", .epochs = 12, .batch = 16};
  recipe.optimizer = {.name = "adam", .lr = 0.01};
  const TrainResult r = train(recipe, {.out = folder / "run"});
  ASSERT_TRUE(r.test);
  EXPECT_EQ(r.test->accuracy(), 1);
  // A run goes on with the same columns only.
  write("table/train.csv", "b,a,larger\n1,2,first\n2,1,second\n");
  recipe.epochs = 13;
  EXPECT_NE(error_of(recipe, {.resume = folder / "run"}).find("was trained on the columns a, b"),
            std::string::npos)
      << error_of(recipe, {.resume = folder / "run"});
}

TEST_F(TaskTest, ABatchOfOneRowAndOneOfNoPixelAreNoEnd) {
  Recipe recipe{.model = "mlp", .data = write_table("t.csv", 33), .epochs = 2, .batch = 16};
  EXPECT_EQ(train(recipe).steps, 6);  // the last batches have one row
  const auto task = make_task({.task = "segment"});
  const Tensor nothing = full({1, 2, 2}, 255, {.dtype = i64});
  EXPECT_EQ(task->loss(ones({1, 3, 2, 2}), {.y = nothing}, true).item(), 0);
}

TEST_F(TaskTest, WeightsKnowColumnsAndTheShapeOfX) {
  Recipe recipe{.model = "mlp", .data = write_table("t.csv", 60), .epochs = 1, .batch = 16};
  recipe.input.columns = {"b", "a"};
  recipe.input.targets = {"larger"};
  train(recipe, {.out = folder / "run"});
  for (const char* file : {"run/model.safetensors", "run/best/model.safetensors"}) {
    const WeightsInfo info = read_weights_info(WeightsFile(folder / file));
    EXPECT_EQ(info.classes, (std::vector<std::string>{"first", "second"}));
    EXPECT_EQ(info.columns, (std::vector<std::string>{"b", "a"}));
    EXPECT_EQ(info.input, Shape({2}));
    EXPECT_EQ(info.recipe->input.columns, info.columns);
  }
}

// --- one's own

class Doubling final : public Task {
 public:
  Tensor loss(const Tensor& output, const data::Batch& batch, bool) const override {
    return mse_loss(output, batch["doubled"]) + batch["weight"].mean() * 0.0;
  }
  std::vector<std::string> metrics() const override { return {}; }
};

TEST_F(TaskTest, OnesOwnTaskDataAndTransformAreKnownByName) {
  register_task("doubling", [](const Recipe&) { return std::make_unique<Doubling>(); });
  register_data("ramp", [](const std::string& parameters, const Recipe&, const DataRequest& r) {
    if (r.split == data::Split::test) throw data::NoSuchSplit("[data] ramp has no test split");
    const auto n = static_cast<int64_t>(std::stoi(parameters));
    return TaskData{.samples = data::from_tensors({{"x", rand({n, 3})}, {"weight", ones({n})}}),
                    .outputs = 3};
  });
  register_transform("double", [](const Recipe&, bool) {
    return [](const data::Sample& in, data::Sample& out) {
      out.set(in["x"]);
      out.set(in["weight"]);
      const std::span<float> doubled = out.make<float>("doubled", {3});
      for (size_t k = 0; k < 3; ++k) doubled[k] = 2 * in["x"].values<float>()[k];
    };
  });
  Recipe recipe{.task = "doubling", .model = "mlp", .data = "ramp:300", .epochs = 30, .batch = 10};
  recipe.input.transforms = {"double"};
  recipe.optimizer = {.name = "adam", .lr = 0.003};
  recipe.validation.fraction = 0.1;
  const TrainResult eager = train(recipe, {.compile = false});
  const TrainResult r = train(recipe);
  EXPECT_EQ(r.compile.fell_back, "");
  ASSERT_TRUE(r.validation);
  EXPECT_LT(r.validation->loss, 0.02);
  EXPECT_NEAR(r.validation->loss, eager.validation->loss, 0.01);
  EXPECT_TRUE(r.validation->metrics.empty());
  EXPECT_THROW((void)register_task("doubling", {}), ValueError);
}

// --- bad input

TEST_F(TaskTest, KeysOfOtherTasksAreNamed) {
  const auto error = [](const std::string& toml) {
    return tests::message_of([&] { (void)parse_recipe(toml, "r.toml"); });
  };
  EXPECT_NE(error("task = \"clasify\"").find("did you mean 'classify'?"), std::string::npos);
  EXPECT_NE(error("[input]\nwindow = 5").find("'input.window' is only for task language"),
            std::string::npos);
  EXPECT_NE(error("task = \"language\"\n[input]\nflip = true")
                .find("'input.flip' is only for tasks of pictures"),
            std::string::npos);
  EXPECT_NE(error("metrics = [\"acuracy\"]").find("did you mean 'accuracy'?"), std::string::npos);
  EXPECT_NE(error("metrics = \"accuracy\"").find("list of texts"), std::string::npos);
  EXPECT_NE(error("[validation]\npatience = 3")
                .find("'validation.patience' is only for a validation.fraction above 0"),
            std::string::npos);
  EXPECT_NE(error("[validation]\nfraction = 1.0").find("below 1"), std::string::npos);
  const std::string all =
      "task = \"regress\"\nmetrics = [\"mae\", \"r2\"]\n[input]\ntargets = [\"a \\\"b\\\"\"]\n"
      "[validation]\nfraction = 0.25\npatience = 2\nby = \"mae\"\n";
  const Recipe recipe = parse_recipe(all, "r.toml");
  EXPECT_EQ(parse_recipe(recipe.toml(), "again").toml(), recipe.toml());
  EXPECT_EQ(recipe.input.targets[0], "a \"b\"");
}

TEST_F(TaskTest, SaysWhatDoesNotFit) {
  Recipe recipe{.model = "mlp", .data = write_table("t.csv", 60), .epochs = 1, .batch = 16};
  recipe.metrics = {"mae"};
  recipe.validation.fraction = 0.1;
  EXPECT_NE(error_of(recipe).find("metric 'mae' does not fit"), std::string::npos)
      << error_of(recipe);
  recipe.metrics = {};
  recipe.validation.by = "rmse";
  EXPECT_NE(error_of(recipe).find("none of the metrics of task classify (accuracy)"),
            std::string::npos);
  recipe.validation.by = "";
  recipe.input.targets = {"nothing"};
  EXPECT_NE(error_of(recipe).find("nothing"), std::string::npos);
  recipe.input.targets = {};
  recipe.task = "regress";  // of words
  EXPECT_NE(error_of(recipe), "no error");
  recipe.task = "language";
  recipe.data = write("short.txt", "abc");
  EXPECT_NE(error_of(recipe).find("short.txt"), std::string::npos) << error_of(recipe);
  recipe.data = "friedman1:x";
  recipe.task = "regress";
  EXPECT_NE(error_of(recipe).find("seed after the colon"), std::string::npos);
  recipe.data = "friedman1";
  EXPECT_NE(error_of(recipe, {.augment_on = AugmentOn::device}).find("augmented"),
            std::string::npos);
  EXPECT_NE(error_of(recipe, {.data_on_device = true}), "no error");
}

TEST_F(TaskTest, ATestTableOfOtherClassesSaysWhich) {
  std::filesystem::create_directories(folder / "table");
  write_table("table/train.csv", 60);
  write("table/test.csv", "a,b,larger\n1,2,second\n2,3,third\n");
  const Recipe recipe{.model = "mlp", .data = folder / "table", .epochs = 1, .batch = 16};
  EXPECT_NE(error_of(recipe).find("line 3: 'third' in column 'larger' is none of the classes"),
            std::string::npos)
      << error_of(recipe);
}

}  // namespace
}  // namespace brim::train
