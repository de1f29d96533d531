// Every kind of bad input to the real command (see failing_command.h).
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "cli/failing_command.h"
#include "sanitized.h"

namespace brim::tests {
namespace {

namespace fs = std::filesystem;

class BadInput : public FailingCommand {};

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
