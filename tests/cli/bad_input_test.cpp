// Every kind of bad input to the real command: exit code not 0, exactly one line on stderr that
// names the thing and says what to do, and nothing left behind.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "cli/run_brim.h"
#include "sanitized.h"

namespace brim::tests {
namespace {

namespace fs = std::filesystem;

/// All files and folders below `folder`.
std::set<std::string> listing(const std::string& folder) {
  std::set<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    found.insert(entry.path().string());
  return found;
}

class BadInput : public ::testing::Test {
 protected:
  void SetUp() override {
    if (access(brim_path().c_str(), X_OK) != 0) GTEST_SKIP() << brim_path() << " is not built";
    write_tiny_cifar(data());
  }
  std::string data() const { return folder / "data"; }
  std::string file(const std::string& name, const std::string& content) {
    std::ofstream(folder / name, std::ios::binary) << content;
    return folder / name;
  }
  /// A run with weights and one checkpoint.
  std::string trained() {
    const std::string out = folder / "run";
    if (!fs::exists(out)) {
      const Ran ran =
          run_brim({"train", "tutorial-cnn", "--data", data(), "--epochs", "1", "--out", out});
      EXPECT_EQ(ran.code, 0) << ran.err;
    }
    return out;
  }

  /// Runs it and checks that it fails as it should. Each of `words` must be in the message.
  void fails(const std::vector<std::string>& args, int code, const std::vector<std::string>& words,
             const std::string& before = "") {
    const std::set<std::string> files = listing(folder.path());
    const Ran ran = run_brim(args, before);
    std::string line;
    for (const std::string& arg : args) line += arg + " ";
    SCOPED_TRACE(line);
    EXPECT_EQ(ran.code, code) << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_TRUE(ran.err.starts_with("brim: error: ")) << ran.err;
    for (const std::string& word : words)
      EXPECT_NE(ran.err.find(word), std::string::npos) << "'" << word << "' is not in: " << ran.err;
    EXPECT_EQ(listing(folder.path()), files) << "files were left behind or lost";
  }
  /// brim train tutorial-cnn on the tiny data with more options.
  void train_fails(const std::vector<std::string>& more, int code,
                   const std::vector<std::string>& words, const std::string& before = "") {
    std::vector<std::string> args = {"train", "tutorial-cnn", "--data", data()};
    args.insert(args.end(), more.begin(), more.end());
    fails(args, code, words, before);
  }

  TemporaryFolder folder;
};

TEST_F(BadInput, CommandsAndOptions) {
  fails({"trian"}, 2, {"'trian'", "did you mean 'train'?"});
  fails({"data", "mak", "x"}, 2, {"'mak'", "make"});
  fails({"data", "make"}, 2, {"out"});
  fails({"data", "verify"}, 2, {"input"});
  fails({"data", "verify", "x", "--worker", "2"}, 2, {"--worker", "did you mean '--workers'?"});
  fails({"train"}, 2, {"which recipe", "tutorial-cnn"});
  fails({"predict", "x.png"}, 2, {"--weights"});
  fails({"eval", "tutorial-cnn"}, 2, {"--weights"});
  train_fails({"--epoch", "3"}, 2, {"--epoch", "did you mean '--epochs'?"});
  train_fails({"--worker=3"}, 2, {"--worker", "did you mean '--workers'?"});
  train_fails({"surplus"}, 2, {"surplus"});
  train_fails({"--epochs", "two"}, 2, {"--epochs", "two"});
  train_fails({"--epochs", "0"}, 2, {"--epochs", "0"});
  train_fails({"--batch", "-4"}, 2, {"--batch"});
  train_fails({"--batch"}, 2, {"--batch"});
  train_fails({"--lr", "-1"}, 2, {"--lr"});
  for (const char* number : {"nan", "-NAN", "inf"})
    for (const char* name : {"--lr", "--monitor"}) train_fails({name, number}, 2, {name});
  for (const std::vector<std::string>& bench :
       {std::vector<std::string>{"bench", "relu-16"}, {"bench", "compare"}})
    fails({bench[0], bench[1], "--seconds", "nan"}, 2, {"--seconds", "nan"});
  train_fails({"--seed", "-1"}, 2, {"--seed"});
  // What the library calls by its API's names.
  train_fails({"--steps-per-graph", "4"}, 1,
              {"--steps-per-graph 4 needs batches", "add --data-on-device"});
  train_fails({"--threads", "0"}, 2, {"--threads"});
  train_fails({"--steps", "0"}, 2, {"--steps"});
  train_fails({"--workers", "many"}, 2, {"--workers", "many"});
  train_fails({"--memory-limit", "lots"}, 2, {"--memory-limit", "lots"});
  for (const char* every : {"0", "-3", "0s", "-1s", "s", "nans", "infs", "1e3", "5m", "5 s",
                            "99999999999999999999", "often"})
    train_fails({"--checkpoint-every", every}, 2, {"--checkpoint-every", "60s"});
  train_fails({"--keep", "0"}, 2, {"--keep"});
  fails({"bench", "softmx"}, 2, {"did you mean 'softmax-8x100'?"});
  fails({"bench", "relu-16", "--json", folder / "no/such/r.json"}, 1, {"no/such"});
  EXPECT_LT(run_brim({"data", "make", "x", "--seed", "-1"}).err.size(), 150U);
  EXPECT_LT(run_brim({"train", "--lr", "-1"}).err.size(), 150U);
}

TEST_F(BadInput, NumbersThatAreNotDecimal) {
  for (const char* text : {"0x10", "0b11", "1'000", "1_000", "1,000", "1e1", "2.0", " 2", "+2",
                           "true", "99999999999999999999"}) {
    for (const char* name : {"--epochs", "--batch", "--workers", "--checkpoint-every", "--seed",
                             "--steps", "--keep", "--threads", "--steps-per-graph"})
      train_fails({name, text}, 2, {name, text});
    fails({"data", "make", folder / "x", "--seed", text}, 2, {"--seed", text});
    fails({"data", "convert", "a", "b", "--size", text}, 2, {"--size", text});
    fails({"bench", "compare", "--rounds", text}, 2, {"--rounds", text});
  }
  for (const char* text : {"0x1p3", "1'0", "1_0", " 2", "+2"})
    for (const char* name : {"--lr", "--monitor", "--memory-limit"})
      train_fails({name, text}, 2, {name, text});
}

TEST_F(BadInput, EmptyValues) {
  const auto empty = [&](std::vector<std::string> args, const std::string& name) {
    const std::vector<std::string> words = {name + ": an empty value", "shell variable unset"};
    std::vector<std::string> apart = args, together = args;
    apart.insert(apart.end(), {name, ""});
    together.push_back(name + "=");
    fails(apart, 2, words);
    fails(together, 2, words);
  };
  for (const char* name :
       {"--data", "--device", "--epochs", "--batch", "--workers", "--lr", "--seed", "--threads",
        "--steps", "--out", "--resume", "--checkpoint-every", "--passes", "--memory-limit",
        "--trace", "--monitor", "--json"})
    empty({"train", "tutorial-cnn"}, name);
  for (const char* name : {"--weights", "--data", "--split", "--memory-limit", "--json"})
    empty({"eval", "tutorial-cnn"}, name);
  for (const char* name : {"--weights", "--recipe", "--json"}) empty({"predict", "x.png"}, name);
  for (const char* name : {"--json", "--weights", "--batches", "--save"})
    empty({"bench", "relu-16"}, name);
  for (const char* name : {"--python", "--json", "--svg"}) empty({"bench", "compare"}, name);
  for (const char* name : {"--to", "--size"}) empty({"data", "convert", "a", "b"}, name);
  empty({"data", "verify", "a"}, "--json");
  empty({"data", "get", "mnist"}, "--mirror");
  for (const std::vector<std::string>& args :
       std::vector<std::vector<std::string>>{{"train", ""},
                                             {"eval", ""},
                                             {"bench", ""},
                                             {"bench", "compare", ""},
                                             {"convert", "", "b"},
                                             {"convert", "a", ""},
                                             {"data", "make", ""},
                                             {"data", "convert", "", "b"},
                                             {"data", "convert", "a", ""},
                                             {"data", "get", ""},
                                             {"data", "get", "mnist", ""},
                                             {"data", "verify", ""},
                                             {"predict", "--weights", "a", ""}})
    fails(args, 2, {"an empty value"});
  // The next word is not taken for the value.
  const std::string picture = file("cat.png", "precious");
  fails({"predict", "--weights", "a", "--json=", picture, picture}, 2, {"--json: an empty value"});
}

TEST_F(BadInput, Devices) {
  train_fails({"--device", "gpux"}, 1, {"gpux", "cuda:N"});
  train_fails({"--device", "cuda:99"}, 1, {"cuda:99"});
  train_fails({"--device", "cpu:one"}, 1, {"cpu:one"});
}

TEST_F(BadInput, Recipes) {
  fails({"train", "tutorial-cn"}, 1, {"tutorial-cn", "did you mean 'tutorial-cnn'?"});
  fails({"train", folder / "absent.toml"}, 1, {"absent.toml"});
  fails({"train", folder.path() + "/"}, 1, {folder.path()});
  const auto recipe = [&](const std::string& text) { return file("r.toml", text); };
  fails({"train", recipe("epoch = 3")}, 1, {"r.toml:1", "'epoch'", "did you mean 'epochs'?"});
  fails({"train", recipe("\n[optimizer]\nlearning_rate = 3")}, 1,
        {"r.toml:3", "optimizer.learning_rate"});
  fails({"train", recipe("epochs = 'two'")}, 1, {"r.toml:1", "epochs"});
  fails({"train", recipe("epochs = = 2")}, 1, {"r.toml:1", "not TOML"});
  fails({"train", recipe("model = 'resnet'")}, 1, {"'resnet'", "did you mean 'resnet18'?"});
  fails({"train", recipe(std::string("\0\xff\xfe", 3))}, 1, {"r.toml"});
}

TEST_F(BadInput, Data) {
  const auto with = [&](const std::string& path, const std::vector<std::string>& words) {
    fails({"train", "tutorial-cnn", "--out", folder / "new", "--data", path}, 1, words);
  };
  with(folder / "absent", {"absent"});
  fs::create_directory(folder / "empty");
  with(folder / "empty", {"empty"});
  with(file("noise", "this is no data set"), {"noise"});
  with(file("noise.tar.gz", std::string("\x1f\x8b\x08\0garbage", 11)), {"noise.tar.gz"});

  fs::create_directory(folder / "short");
  std::ofstream(folder / "short/data_batch_1.bin") << std::string(3073 + 100, '\0');
  with(folder / "short", {"data_batch_1.bin"});
  fs::create_directory(folder / "none");
  std::ofstream(folder / "none/data_batch_1.bin") << "";
  with(folder / "none", {"data_batch_1.bin"});
  fs::create_directory(folder / "label");
  std::ofstream(folder / "label/data_batch_1.bin") << std::string(3073, '\x63');
  with(folder / "label", {"data_batch_1.bin", "99"});

  fs::create_directory(folder / "mnist");
  file("mnist/train-labels-idx1-ubyte", "");
  with(folder / "mnist", {"train-labels-idx1-ubyte", "train-images"});
  file("mnist/train-images-idx3-ubyte",
       std::string("\0\0\x08\x03\xff\xff\xff\xff\0\0\0\x1c\0\0\0\x1c", 16));
  with(folder / "mnist", {"train-labels-idx1-ubyte", "0 bytes"});
  fails({"data", "verify", folder / "mnist", "--json", folder / "v.json"}, 1, {"train-labels"});
  fails({"data", "verify", folder / "absent"}, 1, {"absent"});

  fs::create_directories(folder / "pictures/cat");
  std::ofstream(folder / "pictures/cat/a.jpg") << "no picture";
  with(folder / "pictures", {"cat/a.jpg"});

  fs::create_symlink("there", folder / "back");
  fs::create_symlink("back", folder / "there");
  with(folder / "back", {"back"});
  fs::remove(folder / "pictures/cat/a.jpg");
  fs::create_symlink("a.jpg", folder / "pictures/cat/a.jpg");
  with(folder / "pictures", {"pictures"});
}

TEST_F(BadInput, DataInWhichNotOnePictureCanBeRead) {
  fs::create_directories(folder / "pictures/cat");
  file("pictures/cat/a.jpg", "no picture");
  const std::string recipe =
      file("skip.toml", "epochs = 1\n[input]\nsize = 32\non_corrupt = 'skip'\n");
  fails({"train", recipe, "--data", folder / "pictures", "--out", folder / "new/below"}, 1,
        {"pictures", "not one of its 1 samples"});
  fails({"eval", "--split", "all", "--data", folder / "pictures", recipe, "--weights",
         trained() + "/model.safetensors"},
        1, {"classes"});
}

TEST_F(BadInput, Pipes) {
  const std::string pipe = folder / "pipe.toml";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  fails({"train", pipe}, 1, {"pipe.toml", "not a regular file"});
  fails({"eval", "--weights", pipe}, 1, {"pipe.toml", "not a regular file"});
}

TEST_F(BadInput, UnreadableFolders) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
  fs::permissions(data(), fs::perms::none);
  const Ran ran = run_brim({"train", "tutorial-cnn", "--data", data()});
  fs::permissions(data(), fs::perms::owner_all);
  EXPECT_EQ(ran.code, 1);
  EXPECT_NE(ran.err.find(data()), std::string::npos) << ran.err;
}

TEST_F(BadInput, Weights) {
  const std::string good = slurp(trained() + "/model.safetensors");
  const auto evaluate = [&](const std::string& path, const std::vector<std::string>& words) {
    fails({"eval", "tutorial-cnn", "--data", data(), "--weights", path}, 1, words);
    fails({"predict", "--recipe", "tutorial-cnn", "--weights", path, "x.png"}, 1, words);
  };
  evaluate(folder / "absent", {"absent"});
  evaluate(folder.path(), {folder.path()});
  evaluate(file("empty", ""), {"empty", "0 bytes"});
  evaluate(file("cut", good.substr(0, good.size() - 10)), {"cut", "truncated"});
  evaluate(file("head", good.substr(0, 100)), {"head", "truncated"});
  evaluate(file("noise", std::string(100, 'x')), {"noise"});
  std::string renamed = good;
  renamed.replace(renamed.find("\"fc3.bias\""), 10, "\"fc3.bios\"");
  evaluate(file("renamed", renamed), {"renamed", "fc3.bias"});
  fails({"predict", "--weights", folder / "run/model.safetensors", folder / "absent.png"}, 1,
        {"absent.png"});
  fails({"predict", "--weights", folder / "run/model.safetensors", file("p.png", "no picture")}, 1,
        {"p.png"});
  fails({"eval", "tutorial-cnn", "--weights", folder / "run/model.safetensors", "--data",
         folder / "absent"},
        1, {"absent"});
}

TEST_F(BadInput, WeightsThatAreNoNumbers) {
  std::string bytes = slurp(trained() + "/model.safetensors");
  bytes.replace(bytes.size() - 4, 4, "\xff\xff\xff\x7f");  // the last number: a NaN
  const std::string weights = file("nan.safetensors", bytes), picture = folder / "p.png";
  write_pixel_png(picture);
  fails({"predict", "--weights", weights, picture, "--json", folder / "r.json"}, 1,
        {"p.png", "NaN", "nan.safetensors"});
  fails({"eval", "--weights", weights, "--data", data(), "--json", folder / "r.json"}, 1,
        {"loss", "nan", "nan.safetensors"});
}

TEST_F(BadInput, ErrorsStandBehindWhatWasPrinted) {
  const std::string weights = trained() + "/model.safetensors", picture = folder / "p.png";
  write_pixel_png(picture);
  const Ran ran = run_brim({"predict", "--weights", weights, picture, folder / "absent.png"}, "",
                           ">" + in_quotes(folder / "both") + " 2>&1");
  EXPECT_EQ(ran.code, 1);
  const std::string both = slurp(folder / "both");
  const size_t answer = both.find("p.png"), error = both.find("brim: error: ");
  ASSERT_NE(answer, std::string::npos) << both;
  ASSERT_NE(error, std::string::npos) << both;
  EXPECT_LT(answer, error) << both;
}

TEST_F(BadInput, PyTorchWeights) {
  const std::string good = folder / "m.pth";
  ASSERT_EQ(run_brim({"convert", trained() + "/model.safetensors", good}).code, 0);
  const auto evaluate = [&](const std::string& path, const std::vector<std::string>& words) {
    fails({"eval", "tutorial-cnn", "--data", data(), "--weights", path}, 1, words);
    fails({"predict", "--recipe", "tutorial-cnn", "--weights", path, "x.png"}, 1, words);
    fails({"convert", path, folder / "new.safetensors"}, 1, words);
  };
  const std::string bytes = slurp(good);
  evaluate(folder / "absent.pth", {"absent.pth"});
  evaluate(file("empty.pth", ""), {"empty.pth", "0 bytes"});
  evaluate(file("cut.pt", bytes.substr(0, bytes.size() - 10)), {"cut.pt", "truncated"});
  evaluate(file("noise.pth", std::string(100, 'x')), {"noise.pth", "torch.save"});
  evaluate(file("old.pth", "\x80\x02\x8a\x0al\xfc\x9c"), {"old.pth", "PyTorch 1.6"});
  fails({"eval", "--weights", good, "--data", data()}, 1, {"m.pth", "recipe"});
  fails({"predict", "--weights", good, "x.png"}, 1, {"m.pth", "--recipe"});
  fails({"convert", good, trained() + "/model.safetensors"}, 1, {"exists", "--overwrite"});
  for (const char* target : {"/nonexistent/x", "link.pth"}) {  // nowhere, and to itself
    fs::create_symlink(target, folder / "link.pth");
    fails({"convert", good, folder / "link.pth"}, 1, {"link.pth", "exists", "--overwrite"});
    EXPECT_TRUE(fs::remove(folder / "link.pth"));
  }
  fails({"convert", good, folder / "new.onnx"}, 2, {"new.onnx", ".pth, .pt and .safetensors"});
  fails({"convert", file("weights.bin", bytes), folder / "new.pth"}, 2, {"weights.bin", ".pth"});
  fails({"convert", good}, 2, {"out"});
  fails({"convert", good, folder / "no/such/m.safetensors"}, 1, {"no/such"});
}

TEST_F(BadInput, OutputThatCannotBeWritten) {
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

TEST_F(BadInput, OutputsThatCollide) {
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

TEST_F(BadInput, FoldersInAnImageFolder) {
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

TEST_F(BadInput, FullDisk) {
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

TEST_F(BadInput, VolumesThatAreReadOnlyOrFull) {
  const std::string volume = folder / "volume";
  fs::create_directory(volume);
  // Shell text: the command sees a volume there, which nobody else does.
  const auto mounted = [&](const std::string& options) {
    return "exec unshare -m sh -c " +
           in_quotes("shift; mount -t tmpfs -o " + options + " none " + volume +
                     " && exec \"$@\"") +
           " sh";
  };
  if (std::system((mounted("ro") + " exec true 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "this user may not mount";
  const std::string weights = trained() + "/model.safetensors";
  const auto refused = [&](std::vector<std::string> args, const std::string& options,
                           const std::vector<std::string>& words) {
    args.insert(args.end(), {"--data", data(), "--device", "cpu", "--out", volume + "/run"});
    const Ran ran = run_brim(args, mounted(options));
    EXPECT_EQ(ran.code, 1);
    const size_t error = ran.err.find("brim: error: ");
    ASSERT_NE(error, std::string::npos) << ran.err;
    EXPECT_EQ(std::count(ran.err.begin() + static_cast<std::ptrdiff_t>(error), ran.err.end(), '\n'),
              1)
        << ran.err;
    for (const std::string& word : words)
      EXPECT_NE(ran.err.find(word, error), std::string::npos) << "'" << word << "': " << ran.err;
  };
  const std::vector<std::string> train = {"train", "tutorial-cnn", "--epochs", "1"};
  const std::vector<std::string> prune = {"prune", "--weights", weights, "--finetune", "0"};
  for (const auto& args : {train, prune}) {
    refused(args, "ro", {"volume/run", "Read-only file system", "choose another --out"});
    refused(args, "size=100k", {"volume/run", "No space left on device", "make room"});
  }
  for (const auto& [options, cure] :
       {std::pair{"ro", "mount it for writing"}, std::pair{"size=100k", "take a larger volume"}}) {
    const Ran check =
        run_brim({"env", "--check", "--device", "cpu", "--out", volume + "/run", "--disk", "1M"},
                 mounted(options));
    EXPECT_EQ(check.code, 1);
    EXPECT_NE(check.out.find(cure), std::string::npos) << check.out << check.err;
  }
}

TEST_F(BadInput, FullDiskThatTakesNoWordEither) {
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

TEST_F(BadInput, MemoryLimitTooSmall) {
  train_fails({"--memory-limit", "100K", "--out", folder / "new"}, 1,
              {"[memory]", "--memory-limit", "102400"});
}

TEST_F(BadInput, ThreadsThatTheSystemRefuses) {
  if (BRIM_SANITIZED) GTEST_SKIP() << "sanitizers set the sizes of stacks";
  const std::string before = "ulimit -s 100000000000 || exit 77;";  // KiB that no address space has
  if (run_brim({"--version"}, before).code == 77) GTEST_SKIP() << "stacks have a hard limit here";
  const std::vector<std::string> words = {"[threads]", "ulimit -u", "--threads, --workers"};
  train_fails({"--workers", "2"}, 1, words, before);
  train_fails({"--workers", "0", "--threads", "1"}, 1, words, before);  // the monitor's
  train_fails({"--workers", "0", "--device", "sim:0", "--monitor", "0"}, 1, words, before);
  train_fails({"--workers", "0", "--threads", "1", "--monitor", "0", "--data-on-device"}, 1, words,
              before);
  fails({"bench", "matmul-1024", "--steps", "1", "--threads", "2"}, 1, words, before);
  fails({"data", "verify", data(), "--workers", "2"}, 1, words, before);
  for (const char* format : {"cifar10", "folder"})
    fails({"data", "convert", data(), folder / "new", "--workers", "2", "--to", format}, 1, words,
          before);
  const Ran alone = run_brim({"train", "tutorial-cnn", "--data", data(), "--steps", "1",
                              "--workers", "0", "--threads", "1", "--monitor", "0"},
                             before);
  EXPECT_EQ(alone.code, 0) << alone.err;
}

TEST_F(BadInput, Resume) {
  fails({"train", "--resume", folder / "absent"}, 1, {"absent", "no checkpoint", "RECIPE"});
  train_fails({"--resume", folder / "absent"}, 1, {"there is no folder", "absent", "--out"});
  fs::create_directory(folder / "empty");
  fails({"train", "--resume", folder / "empty"}, 1, {"empty", "no checkpoint", "RECIPE"});
  const std::string run = trained();
  fails({"train", "--resume", run, "--lr", "0.5"}, 1, {"lr"});
  fails({"train", "--resume", run, "--data", "caf\xe9"}, 1, {"UTF-8"});
  const std::string model = run + "/checkpoint-00000015/model.safetensors";
  const std::string good = slurp(model);
  std::ofstream(model, std::ios::binary) << good.substr(0, good.size() / 2);
  fails({"train", "--resume", run, "--epochs", "2"}, 1, {"model.safetensors", "damaged"});
  fs::remove(model);
  fails({"train", "--resume", run, "--epochs", "2"}, 1, {"model.safetensors"});
}

}  // namespace
}  // namespace brim::tests
