// What a running training tells who asks it, and whoever asks, it is not held up.
#include "command/status_server.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include <brim/core/error.h>

#include "cli/run_brim.h"
#include "command/read_all.h"
#include "message_of.h"

namespace brim::tests {
namespace {

namespace fs = std::filesystem;
using command::StatusServer;
using nlohmann::json;

class StatusServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::permissions(fs::path(folder / "."), fs::perms::owner_all);
    setenv("BRIM_RUNTIME_DIR", (folder / "run").c_str(), 1);
  }
  void TearDown() override { unsetenv("BRIM_RUNTIME_DIR"); }

  static int connect_to(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    const int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    // The training may end, or not listen yet.
    const int result = connect(client, reinterpret_cast<sockaddr*>(&address), sizeof(address));
    EXPECT_TRUE(result == 0 || errno == ENOENT || errno == ECONNREFUSED) << std::strerror(errno);
    return client;
  }
  /// All that is answered until the other side hangs up.
  static std::string ask(const std::string& path) {
    const int client = connect_to(path);
    std::string answer = read_all(client);
    close(client);
    return answer;
  }
  /// Sockets in the runtime folder.
  std::vector<std::string> sockets() const {
    std::vector<std::string> paths;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder / "run", error))
      paths.push_back(entry.path().string());
    return paths;
  }

  TemporaryFolder folder;
};

TEST_F(StatusServerTest, AnswersOneLineAndHangsUp) {
  int calls = 0;
  const StatusServer server([&] { return "{\"calls\": " + std::to_string(++calls) + "}"; });
  EXPECT_EQ(ask(server.path()), "{\"calls\": 1}\n");
  EXPECT_EQ(ask(server.path()), "{\"calls\": 2}\n");
}

TEST_F(StatusServerTest, IsItsUsersAlone) {
  const StatusServer server([] { return ""; });
  struct stat found {};
  ASSERT_EQ(stat(server.path().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600U);
}

TEST_F(StatusServerTest, TheSocketGoesWithIt) {
  {
    const StatusServer first([] { return ""; }), second([] { return ""; });
    EXPECT_EQ(sockets().size(), 2U);
  }
  EXPECT_TRUE(sockets().empty());
}

TEST_F(StatusServerTest, OneWhoNeverReadsHoldsNobodyUp) {
  const StatusServer server([] { return std::string(60'000, 'x'); });
  std::vector<int> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(connect_to(server.path()));
  EXPECT_EQ(ask(server.path()).size(), 60'001U);
  for (const int client : silent) close(client);
}

TEST_F(StatusServerTest, AFolderThatIsNotOursIsRefused) {
  fs::create_directory(folder / "run");
  fs::permissions(folder / "run", fs::perms::all);
  const std::string error =
      message_of<FileError>([] { StatusServer([] { return std::string(); }); });
  EXPECT_NE(error.find("may be written to by other users"), std::string::npos) << error;
  EXPECT_NE(error.find("BRIM_RUNTIME_DIR"), std::string::npos) << error;
}

TEST_F(StatusServerTest, ATrainingIsAskedWhileItRuns) {
  if (access(brim_path().c_str(), X_OK) != 0) GTEST_SKIP() << brim_path() << " is not built";
  std::atomic<bool> done{false};
  Ran ran;
  std::thread training([&] {
    ran = run_brim(
        {"train", "tutorial-cnn", "--data", "shapes10", "--epochs", "2", "--out", folder / "out"});
    done = true;
  });
  std::vector<json> answers;
  while (!done) {
    for (const std::string& path : sockets()) {
      const std::string answer = ask(path);
      if (!answer.empty()) answers.push_back(json::parse(answer));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  training.join();
  ASSERT_EQ(ran.code, 0) << ran.err;
  ASSERT_FALSE(answers.empty());
  const json& last = answers.back();
  EXPECT_EQ(last["schema"], "brim.run/1");
  EXPECT_EQ(last["recipe"], "tutorial-cnn");
  EXPECT_EQ(last["folder"], fs::absolute(folder / "out").string());
  EXPECT_TRUE(last["devices"][0]["account"]["seconds"].is_object());
  for (size_t i = 1; i < answers.size(); ++i) EXPECT_GE(answers[i]["step"], answers[i - 1]["step"]);
  EXPECT_TRUE(sockets().empty());
}

TEST_F(StatusServerTest, ARunKeepsItsReportsAndItsResult) {
  if (access(brim_path().c_str(), X_OK) != 0) GTEST_SKIP() << brim_path() << " is not built";
  const std::string out = folder / "out";
  const auto train = [&](std::vector<std::string> args) {
    args.insert(args.begin(), "train");
    const Ran ran = run_brim(args);
    EXPECT_EQ(ran.code, 0) << ran.err;
  };
  train({"tutorial-cnn", "--data", "shapes10", "--epochs", "1", "--out", out});
  const auto lines = [&] {
    std::vector<json> all;
    std::ifstream in(out + "/history.jsonl");
    for (std::string line; std::getline(in, line);)
      all.push_back(json::parse(line, nullptr, false));
    return all;
  };
  const std::vector<json> first = lines();
  ASSERT_GE(first.size(), 10U);
  EXPECT_EQ(first.back()["state"], "finished");
  EXPECT_EQ(first.back()["step"], first.back()["steps"]);
  EXPECT_TRUE(first.front()["loss"].is_number());
  EXPECT_EQ(json::parse(slurp(out + "/result.json"))["steps"], first.back()["steps"]);
  std::ofstream(out + "/history.jsonl", std::ios::app) << "{\"cut";  // by a process that was killed
  train({"--resume", out, "--epochs", "2"});
  const std::vector<json> both = lines();
  ASSERT_GT(both.size(), first.size() + 1);
  EXPECT_TRUE(both[first.size()].is_discarded());
  EXPECT_TRUE(both[first.size() + 1].is_object());
  EXPECT_EQ(both.back()["steps_before"], first.back()["steps"]);
}

TEST_F(StatusServerTest, ARunThatFailsSaysSoLast) {
  if (access(brim_path().c_str(), X_OK) != 0) GTEST_SKIP() << brim_path() << " is not built";
  const std::string out = folder / "out";
  ASSERT_EQ(
      run_brim({"train", "tutorial-cnn", "--data", "shapes10", "--epochs", "1", "--out", out}).code,
      0);
  const Ran ran = run_brim({"train", "--resume", out, "--epochs", "2", "--memory-limit", "1M"});
  ASSERT_EQ(ran.code, 1) << ran.err;
  std::ifstream in(out + "/history.jsonl");
  std::string last;
  for (std::string line; std::getline(in, line);) last = line;
  EXPECT_EQ(json::parse(last)["state"], "failed");
}

}  // namespace
}  // namespace brim::tests
