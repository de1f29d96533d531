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

constexpr int kStretches = 10, kLeast = 3;  // fewer have no interval worth the name
constexpr double kSeconds = 1;              // of a stretch, roughly
constexpr double kPatience = 10;            // seconds without an account that has grown

/// What a training has done so far.
struct Moment {
  double steps = 0;
  diag::Account account;
};

diag::Account account_of(const top::RunAccount& told) {
  diag::Account account;
  account.wall = told.wall;
  for (const auto& [text, seconds] : told.seconds)
    if (const auto cause = cause_named(text))
      account.seconds[static_cast<size_t>(*cause)] = seconds;
  return account;
}

/// Nothing where no training of the process answers.
std::optional<top::Run> ask(int64_t pid) {
  for (top::Run& run : top::ask_runs(runtime_folder()))
    if (run.pid == pid && !run.devices.empty()) return std::move(run);
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

LiveDiagnosis diagnose_process(int64_t pid, double least_share, const std::atomic<int>& stop,
                               const std::function<void(double fraction)>& progress) {
  using Clock = std::chrono::steady_clock;
  LiveDiagnosis found;
  std::vector<train::Measured> stretches;
  std::optional<Moment> before;
  auto last = Clock::now();
  while (std::ssize(stretches) < kStretches && stop.load() == 0) {
    const std::optional<top::Run> run = ask(pid);
    if (!run || is_over(*run)) break;
    found.recipe = run->recipe;
    found.stretches.device = run->devices[0].name;
    Moment now{.steps = static_cast<double>(run->step.value_or(0)),
               .account = account_of(run->devices[0].account)};
    const double waited = std::chrono::duration<double>(Clock::now() - last).count();
    if (!before || now.account.wall < before->account.wall) {  // or another training began
      before = now;
      last = Clock::now();
    } else if (now.account.wall - before->account.wall >= kSeconds) {
      stretches.push_back(between(*before, now));
      found.stretches.seconds += stretches.back().account.wall;
      before = now;
      last = Clock::now();
      if (progress) progress(static_cast<double>(stretches.size()) / kStretches);
    } else if (waited > kPatience) {
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  BRIM_CHECK(before, Error,
             "[doctor] no training of yours with the process number {} answers; `brim top --once` "
             "lists those that run, or give a run's folder",
             pid);
  const bool has_steps =
      std::ranges::any_of(stretches, [](const train::Measured& m) { return m.steps > 0; });
  BRIM_CHECK(std::ssize(stretches) >= kLeast && has_steps, Error,
             "[doctor] process {}: its training was seen for {:.1f} s, and {:g} s with steps in "
             "them are the least to say anything",
             pid, found.stretches.seconds, kLeast * kSeconds);
  found.stretches.diagnosis = train::diagnosis_of(stretches, least_share);
  return found;
}

}  // namespace brim::command
