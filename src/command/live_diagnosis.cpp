#include "command/live_diagnosis.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <thread>
#include <vector>

#include "command/cause_named.h"
#include "command/top/sockets.h"
#include "core/check.h"
#include "core/runtime_folder.h"
#include "train/doctor/estimate.h"

namespace brim::command {
namespace {

constexpr int kWindows = 10, kMinWindows = 3;  // fewer have no interval worth the name
constexpr double kSeconds = 1;                 // of a window at least, with a step in it
constexpr double kPatience = 120;              // seconds without a step
constexpr int kQuestions = 3;                  // that stay without an answer: it is gone

/// What a training has done so far.
struct Moment {
  double steps = 0;
  diag::Account account;
};

diag::Account account_of(const top::RunAccount& answer) {
  diag::Account account;
  account.wall = answer.wall;
  for (const auto& [text, seconds] : answer.seconds)
    if (const auto cause = cause_named(text))
      account.seconds[static_cast<size_t>(*cause)] = seconds;
  return account;
}

/// Nothing where no training of the process answers.
std::optional<top::Run> ask(int64_t pid) {
  for (int i = 0; i < kQuestions; ++i) {
    for (top::Run& run : top::ask_runs(runtime_folder()))
      if (run.pid == pid && run.trouble.empty()) return std::move(run);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return {};
}

bool is_over(const top::Run& run) {
  return run.state == "finished" || run.state == "stopped" || run.state == "failed";
}

train::Measured between(const Moment& before, const Moment& after) {
  train::Measured m{.steps = std::max(after.steps - before.steps, 0.0)};
  m.account.wall = after.account.wall - before.account.wall;
  for (size_t i = 0; i < m.account.seconds.size(); ++i)
    m.account.seconds[i] = std::max(after.account.seconds[i] - before.account.seconds[i], 0.0);
  return m;
}

}  // namespace

std::optional<int64_t> process_of(std::string_view text) {
  int64_t pid = 0;
  const char* const end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, pid);
  if (error != std::errc() || next != end || pid <= 0) return {};
  return pid;
}

std::optional<LiveDiagnosis> diagnose_process(
    int64_t pid, double least_share, const std::atomic<int>& stop,
    const std::function<void(double fraction)>& progress) {
  using Clock = std::chrono::steady_clock;
  LiveDiagnosis found;
  std::vector<train::Measured> windows;
  std::optional<Moment> before;
  std::string stage;
  bool has_answered = false;
  auto last = Clock::now();
  while (std::ssize(windows) < kWindows && stop.load() == 0) {
    const std::optional<top::Run> run = ask(pid);
    found.has_ended = has_answered && (!run || is_over(*run));
    if (!run || is_over(*run)) break;
    has_answered = true;
    found.recipe = run->recipe;
    stage = run->stage ? run->stage->name : run->state;
    if (!run->devices.empty()) {
      Moment now{.steps = static_cast<double>(run->step.value_or(0)),
                 .account = account_of(run->devices[0].account)};
      found.seen.device = run->devices[0].name;
      if (!before || now.steps < before->steps || now.account.wall < before->account.wall) {
        before = now;  // of another training than the one before
      } else if (now.account.wall - before->account.wall >= kSeconds && now.steps > before->steps) {
        windows.push_back(between(*before, now));
        found.seen.seconds += windows.back().account.wall;
        before = now;
        last = Clock::now();
        if (progress) progress(static_cast<double>(windows.size()) / kWindows);
      }
    }
    if (std::chrono::duration<double>(Clock::now() - last).count() > kPatience) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  const bool is_enough = std::ssize(windows) >= kMinWindows;
  if (!is_enough && stop.load() != 0) return {};
  BRIM_CHECK(has_answered, Error,
             "[doctor] no training of yours with the process number {} answers; `brim top --once` "
             "lists those that run, or give a run's folder",
             pid);
  BRIM_CHECK(is_enough || found.has_ended, Error,
             "[doctor] process {}: no step of its training ended for {:g} s ({}); watch it when it "
             "trains",
             pid, kPatience, stage);
  BRIM_CHECK(is_enough, Error,
             "[doctor] process {}: its training ended when it had been watched for {:.1f} s, and "
             "{:g} s are the least to say anything; a run's folder can be examined afterwards",
             pid, found.seen.seconds, kMinWindows * kSeconds);
  found.seen.diagnosis = train::diagnosis_of(windows, least_share);
  return found;
}

}  // namespace brim::command
