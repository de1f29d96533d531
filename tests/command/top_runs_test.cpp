// What trainings answer, hostile answers included, and what is made of it.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "command/fake_run.h"
#include "command/top/sampler.h"
#include "command/top/sockets.h"
#include "core/clock.h"
#include "core/json_text.h"
#include "temporary_folder.h"

namespace brim::top {
namespace {

using tests::FakeRun;
using tests::run_document;
using tests::TemporaryFolder;

using Told = Run;  // tests have a Run() of their own

Told run_of(const std::string& text) { return run_from_json(parse_json<Json>(text)); }

TEST(TopRuns, Answer) {
  const TemporaryFolder folder;
  const FakeRun run(folder / "77-0.sock", FakeRun::says(run_document("tutorial-cnn", 10)));
  ASSERT_TRUE(run.ok());
  const std::vector<Told> runs = ask_runs(folder.path(), 30);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].trouble, "");
  EXPECT_EQ(runs[0].socket, "77-0.sock");
  EXPECT_EQ(runs[0].pid, 77);  // whatever the text claims
  EXPECT_EQ(runs[0].recipe, "tutorial-cnn");
  EXPECT_EQ(runs[0].step, 100);
  ASSERT_EQ(runs[0].devices.size(), 1u);
  EXPECT_EQ(runs[0].devices[0].live, 1 << 20);
  EXPECT_DOUBLE_EQ(runs[0].gpus.at(0).reading.utilisation.value(), 0.35);
}

TEST(TopRuns, HostileAnswers) {
  const TemporaryFolder folder;
  const std::pair<const char*, std::string> kSaid[] = {
      {"1-0.sock", "garbage \x1b[2J"},
      {"2-0.sock", ""},
      {"3-0.sock", std::string(1 << 20, 'x')},
      {"4-0.sock", "{\"schema\": \"brim.run/1\", \"recipe\": \"\xff\xfe\"}"},
      {"5-0.sock", run_document("cut", 1).substr(0, 100)},
      {"6-0.sock", std::string(60000, '[')},
      {"7-0.sock", R"({"schema": "brim.run/9"})"},
  };
  std::atomic<bool> over{false};  // outlives the fakes
  std::vector<std::unique_ptr<FakeRun>> fakes;
  for (const auto& [name, text] : kSaid)
    fakes.push_back(std::make_unique<FakeRun>(folder / name, FakeRun::says(text)));
  fakes.push_back(std::make_unique<FakeRun>(folder / "8-0.sock", [&](int) {
    while (!over.load()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }));
  const double begin = steady_seconds();
  const std::vector<Told> runs = ask_runs(folder.path());
  EXPECT_LT(steady_seconds() - begin, 5);
  over.store(true);
  ASSERT_EQ(runs.size(), 8u);
  EXPECT_EQ(runs[0].trouble, "answers with what is no brim.run/1");
  EXPECT_EQ(runs[1].trouble, "closed the connection without an answer");
  EXPECT_EQ(runs[2].trouble, "answers with more than 64 KiB");
  for (const size_t i : {3, 4, 5, 6}) EXPECT_EQ(runs[i].trouble, runs[0].trouble) << i;
  EXPECT_EQ(runs[7].trouble, "does not answer");
  EXPECT_EQ(runs[7].pid, 8);
}

TEST(TopRuns, WrongTypesAndAbsurdNumbersAreNotTold) {
  const Told run = run_of(R"({"schema": "brim.run/1", "pid": "x", "step": 1e300, "steps": -5,
    "loss": null, "stage": 7, "loader": [], "devices": {"a": 1}, "gpus": [], "validation": "v",
    "host": 3, "recipe": 12, "time": true, "images_per_s": 1e18, "ops": "o"})");
  EXPECT_FALSE(run.step);
  EXPECT_EQ(run.steps, -5);
  EXPECT_FALSE(run.loss || run.stage || run.loader || run.validation || run.time);
  EXPECT_TRUE(run.devices.empty() && run.recipe.empty() && run.ops.empty());
  const Told odd = run_of(R"({"ops": [7, {"op": 3, "calls": -1, "seconds": "s", "bytes": null}],
    "devices": [{"doing": {"spans": [1, "a", null], "seconds": -3}}, {"doing": []}]})");
  ASSERT_EQ(odd.ops.size(), 1u);
  EXPECT_TRUE(odd.ops[0].op.empty() && odd.ops[0].calls == 0 && !odd.ops[0].bytes);
  EXPECT_EQ(odd.devices.at(0).doing.value().spans, std::vector<std::string>{"a"});
  EXPECT_EQ(odd.devices.at(0).doing->seconds, 0);
  EXPECT_FALSE(odd.devices.at(1).doing);
  EXPECT_EQ(run.images_per_s, 1e18);
}

TEST(TopRuns, APauseIsToldAndKept) {
  const Told run = run_of(R"({"schema": "brim.run/1", "paused": {"why": "heat", "seconds": 3}})");
  ASSERT_TRUE(run.pause);
  EXPECT_EQ(run.pause->why, "heat");
  EXPECT_EQ(run.pause->seconds, 3);
  EXPECT_EQ(to_json(run)["paused"], Json::parse(R"({"why": "heat", "seconds": 3.0})"));
  EXPECT_FALSE(run_of(R"({"schema": "brim.run/1", "paused": null})").pause);
  EXPECT_FALSE(run_of(R"({"schema": "brim.run/1", "paused": "x"})").pause);
  EXPECT_FALSE(run_of(R"({"schema": "brim.run/1", "paused": {"why": 7}})").pause->seconds);
}

TEST(TopRuns, SilentOnes) {
  EXPECT_EQ(silence(run_of(R"({"time": 100, "updated": 88})")), "silent for 12 s");
  EXPECT_EQ(silence(run_of(R"({"time": 100, "updated": 88, "devices": [{"device": "cpu",
    "doing": {"spans": ["train", "loader"], "cause": "input", "seconds": 12}}]})")),
            "silent for 12 s in loader (input)");
  EXPECT_EQ(silence(run_of(R"({"time": 100, "updated": 96})")), "");
  EXPECT_EQ(silence(run_of(R"({"time": 100})")), "");
  EXPECT_EQ(silence(run_of(R"({"time": 100, "updated": 88, "state": "finished"})")), "");
}

TEST(TopRuns, AccountsAreOfTheTimeBetween) {
  const Told first = run_of(run_document("a", 10));
  Told next = run_of(run_document("a", 10));
  next.devices[0].account = {.wall = 12, .seconds = {{"compute", 7.5}, {"input", 4.5}}};
  compare_accounts(next, &first);
  EXPECT_DOUBLE_EQ(next.devices[0].recent.wall, 2);
  ASSERT_EQ(next.devices[0].recent.seconds.size(), 2u);
  EXPECT_DOUBLE_EQ(next.devices[0].recent.seconds[0].second, 0.5);
  EXPECT_DOUBLE_EQ(next.devices[0].recent.seconds[1].second, 1.5);
  Told same = run_of(run_document("a", 10));
  same.devices[0].account = next.devices[0].account;
  compare_accounts(same, &next);
  EXPECT_DOUBLE_EQ(same.devices[0].recent.wall, 2);  // no account was read since
  Told other = run_of(run_document("a", 3));         // began anew
  other.started = 950;
  compare_accounts(other, &next);
  EXPECT_DOUBLE_EQ(other.devices[0].recent.wall, 3);
}

TEST(TopRuns, AThousandSocketsAndDeadOnes) {
  const TemporaryFolder folder;
  const FakeRun run(folder / "999999-0.sock", FakeRun::says(run_document("alive", 10)));
  for (int i = 0; i < 1000; ++i) {  // bound, and closed again: of processes that died
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = folder / (std::to_string((1 << 29) + i) + "-0.sock");
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    close(fd);
  }
  std::ofstream(folder / "12-0.sock") << "no socket";
  std::ofstream(folder / "notes.txt") << "not ours";
  const std::vector<Told> runs = ask_runs(folder.path());
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].recipe, "alive");
  size_t left = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path()))
    ++left;
  EXPECT_EQ(left, 3u);  // the dead are gone, what is no socket is not
}

TEST(TopRuns, FoldersOfOthersAreNotLookedAt) {
  const TemporaryFolder folder;
  const FakeRun run(folder / "77-0.sock", FakeRun::says(run_document("a", 10)));
  ASSERT_EQ(chmod(folder.path().c_str(), 0777), 0);
  EXPECT_TRUE(ask_runs(folder.path()).empty());
  ASSERT_EQ(chmod(folder.path().c_str(), 0700), 0);
  std::filesystem::create_directory_symlink(folder.path(), folder / "link");
  EXPECT_TRUE(ask_runs(folder / "link").empty());
  EXPECT_TRUE(ask_runs(folder / "missing").empty());
  EXPECT_EQ(ask_runs(folder.path()).size(), 1u);
}

TEST(TopRuns, SamplerComparesWithTheMomentBefore) {
  const TemporaryFolder folder;
  std::atomic<int> asked{0};
  const FakeRun run(folder / "77-0.sock",
                    [&](int fd) { FakeRun::says(run_document("a", 10 + 2 * asked++))(fd); });
  Sampler sampler({.folder = folder.path()});
  EXPECT_DOUBLE_EQ(sampler.take().runs.at(0).devices.at(0).recent.wall, 10);
  const Moment moment = sampler.take();
  EXPECT_DOUBLE_EQ(moment.runs.at(0).devices.at(0).recent.wall, 2);
  EXPECT_GT(moment.process_count, 0);
}

}  // namespace
}  // namespace brim::top
