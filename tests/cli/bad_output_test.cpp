// Where the real command is to write and cannot, or must not: files in the way, outputs that
// collide, disks that are full.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "cli/failing_command.h"

namespace brim::tests {
namespace {

namespace fs = std::filesystem;

class BadOutput : public FailingCommand {};

TEST_F(BadOutput, OutputThatCannotBeWritten) {
  file("taken", "a file");
  train_fails({"--out", folder / "taken"}, 1, {"taken"});
  train_fails({"--out", folder / "taken/below"}, 1, {"taken"});
  train_fails({"--json", folder.path()}, 1, {folder.path()});
  train_fails({"--json", folder / "no/such/r.json"}, 1, {"no/such"});
  train_fails({"--out", "/proc/brim"}, 1, {"/proc/brim"});
  const std::string run = trained();
  train_fails({"--out", run}, 1, {"run", "--resume"});
  fs::create_directory(folder / "old");
  file("old/model.safetensors", "weights");
  train_fails({"--out", folder / "old"}, 1, {"old", "model.safetensors", "another folder"});
  fails({"data", "convert", data(), data()}, 1, {"--overwrite"});
  fails({"data", "make", folder / "taken"}, 1, {"taken"});
  fails({"data", "convert", folder / "absent", folder / "new"}, 1, {"absent"});
}

TEST_F(BadOutput, OutputsThatCollide) {
  const std::string run = trained(), weights = run + "/model.safetensors", other = folder / "o";
  const std::string recipe = file("r.toml", "epochs = 1\n"), picture = file("p.png", "precious");
  fs::create_directory(other);
  fs::create_directory_symlink(run, folder / "link");
  for (const std::string name : {"--json", "--trace"}) {
    for (const std::string path : {"model.safetensors", "monitor.jsonl", "best",
                                   "checkpoint-00000002", "../o/./model.safetensors"})
      train_fails({"--out", other, name, other + "/" + path}, 2, {name, path, "another name"});
    train_fails({"--out", folder / "new", name, folder / "new"}, 2, {name, "another name"});
    train_fails({"--out", folder / "new/run", name, folder / "new"}, 2, {name, "another name"});
    for (const std::string path : {"run", "link"})
      fails({"train", "--resume", run, name,
             folder / (path + "/checkpoint-00000015/model.safetensors")},
            2, {name, "another name"});
    fails({"train", recipe, name, folder / "./r.toml"}, 2, {name, "the recipe"});
    fails({"train", "tutorial-cnn", name, data() + "/../data/test_batch.bin", "--data",
           data() + "/test_batch.bin"},
          2, {name, "the data"});
  }
  train_fails({"--json", folder / "r", "--trace", folder / "data/../r"}, 2, {"--json", "--trace"});
  fails({"eval", "--weights", weights, "--json", weights}, 2, {"--json", "the weights"});
  fails({"predict", "--weights", weights, "--json", weights, picture}, 2, {"the weights"});
  fails({"predict", "--weights", weights, "--json", picture, picture}, 2, {"an input"});
  fails({"data", "verify", picture, "--json", picture}, 2, {"the data"});
  const std::vector<std::string> bench = {"bench", "mlp-784-128-10-b8", "--steps", "1"};
  const auto bench_fails = [&](std::vector<std::string> more) {
    more.insert(more.begin(), bench.begin(), bench.end());
    fails(more, 2, {"of its own"});
  };
  bench_fails({"--json", other + "/x", "--save", other + "/x"});
  bench_fails({"--json", weights, "--weights", weights});
  bench_fails({"--save", weights, "--batches", weights});
  fails({"bench", "compare", "--json", other + "/x", "--svg", other + "/x"}, 2, {"of its own"});
  // What is no file is not replaced.
  EXPECT_EQ(run_brim({"train", "tutorial-cnn", "--data", data(), "--steps", "1", "--json",
                      "/dev/null", "--trace", "/dev/null"})
                .code,
            0);
}

TEST_F(BadOutput, FoldersInAnImageFolder) {
  const std::string pictures = folder / "pictures";
  for (const std::string name : {"/train/a", "/train/b", "/test/a", "/test/b"}) {
    fs::create_directories(pictures + name);
    write_pixel_png(pictures + name + "/0.png");
  }
  fs::create_directory_symlink(pictures, folder / "link");
  for (const std::string& out : {pictures + "/new", folder / "link/new/deep", pictures}) {
    for (const char* format : {"cifar10", "idx", "folder", "shards"})
      fails({"data", "convert", pictures, out, "--size", "32", "--to", format}, 1,
            {out, "elsewhere"});
    fails({"train", "tutorial-cnn", "--data", pictures, "--out", out}, 1, {out, "elsewhere"});
  }
  EXPECT_EQ(run_brim({"data", "convert", pictures, pictures + "/a.tar", "--to", "tar"}).code, 0);
  EXPECT_EQ(run_brim({"data", "convert", data(), data() + "/copy"}).code, 0) << "no image folder";
  EXPECT_EQ(run_brim({"data", "verify", pictures}).code, 0);
}

TEST_F(BadOutput, FullDisk) {
  // No file may grow above 100 kB (ulimit counts in 512 bytes); the weights need 250 kB. The
  // training goes on, and only weights that cannot be kept at its end are an error.
  const auto train_on_full_disk = [&](std::vector<std::string> args) {
    args.insert(args.end(), {"--json", folder / "r.json"});
    const Ran ran = run_brim(args, "ulimit -f 200;");
    EXPECT_EQ(ran.code, 1);
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 2) << "told once: " << ran.err;
    EXPECT_NE(ran.err.find("brim: warning: the checkpoint of step"), std::string::npos) << ran.err;
    EXPECT_NE(ran.err.find("brim: error: "), std::string::npos) << ran.err;
    EXPECT_NE(ran.err.find("nothing was left behind"), std::string::npos) << ran.err;
    EXPECT_NE(ran.out.find("checkpoints could not be written"), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("accuracy on 20 test images"), std::string::npos) << ran.out;
    const std::string json = slurp(folder / "r.json");
    fs::remove(folder / "r.json");
    return json;
  };
  const std::set<std::string> files = listing(folder.path());
  std::string json = train_on_full_disk(
      {"train", "tutorial-cnn", "--data", data(), "--epochs", "3", "--out", folder / "new"});
  EXPECT_NE(json.find("\"checkpoint_failures\": 3"), std::string::npos) << json;
  EXPECT_EQ(listing(folder.path()), files);
  // An earlier checkpoint survives.
  const std::string run = trained();
  const std::set<std::string> before = listing(run);
  const std::string model = slurp(run + "/checkpoint-00000015/model.safetensors");
  json = train_on_full_disk({"train", "--resume", run, "--epochs", "2"});
  EXPECT_NE(json.find("\"checkpoints\": 0"), std::string::npos) << json;
  EXPECT_EQ(listing(run), before);
  EXPECT_EQ(slurp(run + "/checkpoint-00000015/model.safetensors"), model);
}

TEST_F(BadOutput, FullDiskThatTakesNoWordEither) {
  const std::vector<std::string> args = {
      "train", "tutorial-cnn", "--data", data(), "--epochs", "3", "--json", folder / "r.json"};
  std::vector<std::string> keeping = args;
  keeping.insert(keeping.end(), {"--out", folder / "new"});
  EXPECT_EQ(run_brim(keeping, "ulimit -f 200;", "2>/dev/full").code, 1);
  const std::string json = slurp(folder / "r.json");
  EXPECT_NE(json.find("\"checkpoint_failures\": 3"), std::string::npos) << json;
  EXPECT_NE(json.find("\"steps\": 45"), std::string::npos) << json;
  EXPECT_EQ(run_brim({"trian"}, "", "2>/dev/full").code, 2);

  const Ran ran = run_brim(args, "", ">/dev/full");
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
  EXPECT_NE(ran.err.find("standard output cannot be written"), std::string::npos) << ran.err;
  EXPECT_NE(slurp(folder / "r.json").find("\"steps\": 45"), std::string::npos);
}

}  // namespace
}  // namespace brim::tests
