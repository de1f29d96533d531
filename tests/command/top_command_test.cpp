// `brim top` as users run it: in a pipe, and in a terminal that is resized and goes away.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "cli/run_brim.h"
#include "command/fake_run.h"
#include "core/clock.h"
#include "core/json_text.h"
#include "core/printable.h"

namespace brim::tests {
namespace {

/// The command in a terminal of its own.
class InTerminal {
 public:
  InTerminal(const std::vector<std::string>& variables, std::vector<std::string> args) {
    winsize size{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
    const std::string path = brim_path();
    std::vector<std::string> words = {"env"};
    words.insert(words.end(), variables.begin(), variables.end());
    words.insert(words.end(), {path, "top"});
    words.insert(words.end(), args.begin(), args.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = forkpty(&fd_, nullptr, nullptr, &size);
    if (pid_ == 0) {
      execvp("env", argv.data());
      _exit(127);
    }
  }
  ~InTerminal() {
    hang_up();
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  InTerminal(const InTerminal&) = delete;
  InTerminal& operator=(const InTerminal&) = delete;

  void type(const std::string& keys) {
    EXPECT_EQ(write(fd_, keys.data(), keys.size()), ssize_t(keys.size()));
  }
  void resize(int rows, int columns) {
    winsize size{};
    size.ws_row = static_cast<unsigned short>(rows);
    size.ws_col = static_cast<unsigned short>(columns);
    EXPECT_EQ(ioctl(fd_, TIOCSWINSZ, &size), 0);
  }
  void hang_up() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  /// Whether the text appears in what is written from now on.
  bool comes(const std::string& text) {
    std::string written;
    const double deadline = steady_seconds() + 30;
    while (steady_seconds() < deadline) {
      pollfd entry{fd_, POLLIN, 0};
      if (poll(&entry, 1, 100) <= 0) continue;
      char block[4096];
      const ssize_t got = read(fd_, block, sizeof block);
      if (got <= 0) break;
      written.append(block, static_cast<size_t>(got));
      all += std::string(block, static_cast<size_t>(got));
      if (written.find(text) != std::string::npos) return true;
    }
    return false;
  }
  /// The exit code; -1 where it does not end, or by a signal.
  int ends() {
    const double deadline = steady_seconds() + 30;
    int status = 0;
    while (waitpid(pid_, &status, WNOHANG) == 0) {
      if (steady_seconds() > deadline) return -1;
      char block[4096];
      pollfd entry{fd_, POLLIN, 0};
      if (poll(&entry, fd_ >= 0 ? 1 : 0, 10) > 0) (void)!read(fd_, block, sizeof block);
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::string all;

 private:
  int fd_ = -1;
  pid_t pid_ = -1;
};

class Top : public ::testing::Test {
 protected:
  void SetUp() override {
    if (access(brim_path().c_str(), X_OK) != 0) GTEST_SKIP() << brim_path() << " is not built";
    ASSERT_TRUE(run.ok());
  }
  std::vector<std::string> variables(const std::string& terminal) const {
    // Of its terminals, ncurses frees nothing.
    return {"TERM=" + terminal, "BRIM_RUNTIME_DIR=" + folder.path(),
            "LC_ALL=C",         "CUDA_VISIBLE_DEVICES=",
            "NO_COLOR=1",       "ASAN_OPTIONS=detect_leaks=0"};
  }
  Ran top(std::vector<std::string> args) const {
    args.insert(args.begin(), "top");
    return run_brim(
        args, "export LC_ALL=C COLUMNS=80 BRIM_RUNTIME_DIR=" + in_quotes(folder.path()) + ";");
  }

  TemporaryFolder folder;
  FakeRun run{folder / "77-0.sock", FakeRun::says(run_document("tutorial-cnn", 10))};
};

TEST_F(Top, OnceInAPipe) {
  const Ran ran = top({"--once", "--interval", "0.05"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  EXPECT_EQ(ran.out.substr(0, 8), "brim top");
  EXPECT_NE(ran.out.find(" tutorial-cnn    cuda:0    1/2    100/25000    3100"), std::string::npos)
      << ran.out;
  EXPECT_NE(ran.out.find("COMMAND"), std::string::npos);
  EXPECT_EQ(ran.out, printable(ran.out, "\n"));
  for (const char c : ran.out) EXPECT_LT(static_cast<unsigned char>(c), 0x80);  // LC_ALL=C
}

TEST_F(Top, JsonRecordAndReplay) {
  const Ran one = top({"--json", "--interval", "0.05"});
  const auto json = parse_json(one.out);
  ASSERT_TRUE(json.is_object()) << one.out << one.err;
  EXPECT_EQ(json["schema"], "brim.top/1");
  EXPECT_EQ(json["runs"][0]["recipe"], "tutorial-cnn");
  const std::string file = folder / "moments.jsonl";
  EXPECT_EQ(top({"--once", "--interval", "0.05", "--record", file}).code, 0);
  std::ofstream(file, std::ios::app) << "{\"cut";
  const Ran replayed = top({"--replay", file, "--once"});
  EXPECT_EQ(replayed.code, 0) << replayed.err;
  EXPECT_NE(replayed.out.find("tutorial-cnn"), std::string::npos);
  EXPECT_NE(replayed.out.find("1 damaged lines"), std::string::npos);
}

TEST_F(Top, ReplayOfWhatNestsDeeply) {
  const std::string file = folder / "moments.jsonl";
  EXPECT_EQ(top({"--once", "--interval", "0.05", "--record", file}).code, 0);
  constexpr size_t kDepth = 1 << 20;
  std::ofstream(file, std::ios::app)
      << R"({"schema": "brim.top/1", "text": "\"[", "more": )" << std::string(kDepth, '[')
      << std::string(kDepth, ']') << ", \"time\": 0}\n";
  const Ran replayed = top({"--replay", file, "--once"});
  EXPECT_EQ(replayed.code, 0) << replayed.err;
  EXPECT_NE(replayed.out.find("1 damaged lines"), std::string::npos) << replayed.out;
}

TEST_F(Top, BadUse) {
  EXPECT_EQ(top({"--once", "--json"}).code, 2);
  EXPECT_EQ(top({"--interval", "0"}).code, 2);
  EXPECT_EQ(top({"--replay", "a", "--record", "b"}).code, 2);
  EXPECT_EQ(top({}).code, 2);  // standard output is no terminal
  const Ran missing = top({"--replay", folder / "missing", "--once"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_NE(missing.err.find("[top]"), std::string::npos) << missing.err;
}

/// Needs what only a build with ncurses has.
class TopInTerminal : public Top {
 protected:
  void SetUp() override {
#if !BRIM_HAVE_CURSES
    GTEST_SKIP() << "without ncurses";
#endif
    Top::SetUp();
  }
};

TEST_F(TopInTerminal, TakesKeysAndIsResized) {
  InTerminal terminal(variables("xterm"), {"--interval", "0.1"});
  ASSERT_TRUE(terminal.comes("tutorial-cnn")) << terminal.all;
  terminal.type("?");
  EXPECT_TRUE(terminal.comes("docs/TOP.md"));
  terminal.type("x\r");
  EXPECT_TRUE(terminal.comes("/runs/a"));  // the run's folder
  terminal.resize(40, 120);
  EXPECT_TRUE(terminal.comes("\x1b[40")) << terminal.all;  // keys are told of in the last line
  for (const char* colour : {"\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m"})
    EXPECT_EQ(terminal.all.find(colour), std::string::npos);
  terminal.type("q");
  EXPECT_EQ(terminal.ends(), 0);
}

TEST_F(TopInTerminal, WithoutColoursAndCursor) {
  InTerminal vt100(variables("vt100"), {"--interval", "0.1"});
  EXPECT_TRUE(vt100.comes("tutorial-cnn")) << vt100.all;
  vt100.type("q");
  EXPECT_EQ(vt100.ends(), 0);
  InTerminal dumb(variables("dumb"), {"--interval", "0.1"});
  EXPECT_TRUE(dumb.comes("tutorial-cnn")) << dumb.all;
  EXPECT_TRUE(dumb.comes("tutorial-cnn"));  // one text below the other
  EXPECT_EQ(dumb.all.find('\x1b'), std::string::npos);
}

TEST_F(TopInTerminal, OfAnySize) {
  InTerminal terminal(variables("xterm"), {"--interval", "0.1"});
  ASSERT_TRUE(terminal.comes("tutorial-cnn")) << terminal.all;
  for (const int side : {65535, 1, 0, 20000}) {
    terminal.resize(side, side);
    EXPECT_TRUE(terminal.comes(side > 1 ? "tutorial-cnn" : "\x1b[")) << side;
  }
  terminal.type("q");
  EXPECT_EQ(terminal.ends(), 0);
}

TEST_F(TopInTerminal, QuitByTheTerminalsKeyGivesTheScreenBack) {
  InTerminal terminal(variables("xterm"), {"--interval", "0.1"});
  ASSERT_TRUE(terminal.comes("tutorial-cnn")) << terminal.all;
  terminal.type("\x1c");  // Ctrl-\\: SIGQUIT
  EXPECT_TRUE(terminal.comes("\x1b[?1049l"));
  EXPECT_EQ(terminal.ends(), 0);
}

TEST_F(TopInTerminal, GoesAway) {
  InTerminal terminal(variables("xterm"), {"--interval", "0.1"});
  ASSERT_TRUE(terminal.comes("tutorial-cnn")) << terminal.all;
  terminal.hang_up();
  EXPECT_EQ(terminal.ends(), 0);
}

}  // namespace
}  // namespace brim::tests
