// Outputs on volumes that are read-only or full, and in folders of other users: one line with the
// cause and what `brim env --check` advises against it.
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/failing_command.h"

namespace brim::tests {
namespace {

namespace fs = std::filesystem;

using Arguments = std::vector<std::string>;

/// A command that writes something below `folder`.
struct Output {
  const char* what;
  Arguments args;
};

class BadVolume : public FailingCommand {
 protected:
  void SetUp() override {
    FailingCommand::SetUp();
    if (IsSkipped()) return;
    fs::create_directory(volume());
    if (std::system((mounted("ro") + " exec true 2>/dev/null").c_str()) != 0)
      GTEST_SKIP() << "this user may not mount";
  }
  std::string volume() const { return folder / "volume"; }

  /// Shell text: the command sees a volume there, which nobody else does.
  std::string mounted(const std::string& options) const { return mounted(options, "exec \"$@\""); }
  std::string mounted(const std::string& options, const std::string& command) const {
    return "exec unshare -m sh -c " +
           in_quotes("shift; mount -t tmpfs -o " + options + " none " + volume() + " && " +
                     command) +
           " sh";
  }

  std::vector<Output> outputs() {
    const std::string weights = trained() + "/model.safetensors";
    const auto at = [&](const char* name) { return volume() + "/" + name; };
    return {{"train", {"train", "tutorial-cnn", "--data", data(), "--out", at("run")}},
            {"json", {"train", "tutorial-cnn", "--data", data(), "--json", at("r.json")}},
            {"trace", {"train", "tutorial-cnn", "--data", data(), "--trace", at("t.json")}},
            {"prune",
             {"prune", "--weights", weights, "--data", data(), "--finetune", "0", "--out",
              at("pruned")}},
            {"quantize",
             {"quantize", "--weights", weights, "--data", data(), "--all", "--out", at("int8")}},
            {"shrink",
             {"shrink", "--weights", weights, "--data", data(), "--size", "100k", "--finetune", "0",
              "--out", at("small")}},
            {"export", {"export", "--weights", weights, "-o", at("model.brim")}},
            {"onnx", {"export", "--weights", weights, "--onnx", "-o", at("model.onnx")}},
            {"runtime",
             {"export", "--weights", weights, "-o", folder / "model.brim", "--overwrite",
              "--runtime", at("rt")}},
            {"convert", {"convert", weights, at("model.pth")}},
            {"report", {"report", trained(), "-o", at("page.html")}},
            {"data make", {"data", "make", at("pictures")}},
            {"data convert", {"data", "convert", data(), at("pictures"), "--to", "shards"}},
            {"drawing", {"model", "resnet50", "--svg", at("network.svg"), "--json", "-"}}};
  }

  /// Its last line is the error, and has these words.
  void refused(const Output& output, const std::string& before, const Arguments& words) {
    SCOPED_TRACE(output.what);
    const Ran ran = run_brim(output.args, before);
    EXPECT_EQ(ran.code, 1) << ran.err;
    const size_t error = ran.err.find("brim: error: ");
    ASSERT_NE(error, std::string::npos) << ran.err << ran.out;
    EXPECT_EQ(std::count(ran.err.begin() + static_cast<std::ptrdiff_t>(error), ran.err.end(), '\n'),
              1)
        << ran.err;
    for (const std::string& word : words)
      EXPECT_NE(ran.err.find(word, error), std::string::npos)
          << "'" << word << "' is not in: " << ran.err;
  }

  /// The same of `brim env --check`.
  void check_says(const std::string& before, const std::string& cure) {
    const Ran check = run_brim(
        {"env", "--check", "--device", "cpu", "--out", volume() + "/run", "--disk", "1M"}, before);
    EXPECT_EQ(check.code, 1);
    EXPECT_NE(check.out.find(cure), std::string::npos) << check.out << check.err;
  }
};

TEST_F(BadVolume, ReadOnly) {
  for (const Output& output : outputs())
    refused(output, mounted("ro"), {"volume", "Read-only file system", "; mount it for writing ("});
  check_says(mounted("ro"), "mount it for writing");
}

TEST_F(BadVolume, Full) {
  for (const Output& output : outputs()) {
    const std::string name = output.what;
    if (name == "json") continue;  // a few kilobytes
    refused(output, mounted("size=8k"),
            {"volume", "No space left on device; free space there, take a larger volume, or "});
  }
  check_says(mounted("size=100k"), "take a larger volume");
}

TEST_F(BadVolume, FillsAmidATraining) {
  // Weights of 250 kB: the first checkpoint fits, the second does not, and the training goes on.
  const std::string kept = folder / "kept";
  const Ran ran = run_brim({"train", "tutorial-cnn", "--data", data(), "--epochs", "3", "--out",
                            volume() + "/run", "--keep", "3"},
                           mounted("size=1200k", "{ \"$@\"; status=$?; ls " + volume() + "/run >" +
                                                     kept + "; exit $status; }"));
  EXPECT_NE(slurp(kept).find("checkpoint"), std::string::npos) << slurp(kept);
  EXPECT_NE(ran.err.find("brim: warning: the checkpoint of step"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("free space there, take a larger volume"), std::string::npos) << ran.err;
  EXPECT_NE(ran.out.find("accuracy on 20 test images"), std::string::npos) << ran.out;
}

TEST_F(BadVolume, FoldersOfAnotherUser) {
  // A user without rights of its own, whose caches lie in a folder that is.
  const std::string home = folder / "home";
  fs::create_directory(home);
  fs::permissions(home, fs::perms::all);
  fs::permissions(folder.path(), fs::perms::others_read | fs::perms::others_exec,
                  fs::perm_options::add);
  const std::string other = "export HOME=" + home + " XDG_CACHE_HOME=" + home +
                            "; exec setpriv --reuid=65534 --regid=65534 --clear-groups sh -c " +
                            in_quotes("shift; exec \"$@\"") + " sh";
  if (std::system((other + " exec test -x " + in_quotes(brim_path()) + " 2>/dev/null").c_str()) !=
      0)
    GTEST_SKIP() << "nobody else can run " << brim_path();
  for (Output& output : outputs()) {
    if (std::string(output.what) == "runtime") output.args[4] = home + "/model.brim";
    refused(output, other,
            {"volume", "Permission denied; let this user write there (chown, chmod"});
  }
  const std::string run = trained();
  refused({"resume", {"train", "--resume", run, "--epochs", "2"}}, other,
          {run, "Permission denied; let this user write there (chown, chmod"});
  check_says(other, "let this user write there (chown, chmod");
}

}  // namespace
}  // namespace brim::tests
