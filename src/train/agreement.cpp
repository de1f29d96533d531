// What a training's ranks settle between two steps: whether they go on, save, or let a device cool.
#include <brim/train/heat_guard.h>
#include <brim/train/status.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "diag/span.h"
#include "train/training_loop.h"

namespace brim::train {
namespace {

/// Ends what the board says of a pause, however that ends.
class PausedOnBoard {
 public:
  /// `board` may be null.
  explicit PausedOnBoard(StatusBoard* board) : board_(board) {}
  ~PausedOnBoard() { publish(-1); }
  PausedOnBoard(const PausedOnBoard&) = delete;
  PausedOnBoard& operator=(const PausedOnBoard&) = delete;
  void publish(double seconds) const {
    if (board_) board_->set_paused(seconds);
  }

 private:
  StatusBoard* board_;
};

}  // namespace

void TrainingLoop::agree() {
  constexpr double kEvery = 0.2;  // seconds
  const auto now = Clock::now();
  const auto steps = static_cast<double>(progress_.step - last_agreement_);
  const double rate = steps / std::max(seconds(now - agreed_at_), 1e-6);
  const auto next = std::clamp<int64_t>(std::llround(kEvery * rate), 1, 100000);
  const bool heat = s_.options.heat && s_.options.heat->calls();
  const std::vector<std::string> ranks = control_->all_gather_text(
      fmt::format("{} {} {} {} {}", s_.stop_wanted() ? 1 : 0,
                  shards_ && checkpointer_.overdue() ? 1 : 0, heat ? 1 : 0, next, feed_.skipped()));
  const auto some_rank_says = [&ranks](size_t at) {
    return std::ranges::any_of(ranks, [at](const std::string& r) { return r[at] == '1'; });
  };
  s_.stop_agreed = some_rank_says(0);
  last_agreement_ = progress_.step;
  save_agreed_ = shards_ && ranks[0][2] == '1';  // as rank 0 proposes, here and below
  next_agreement_ = progress_.step + std::stoll(ranks[0].substr(6));
  take_skipped(ranks);
  if (some_rank_says(4) && more()) wait_for_heat();
  agreed_at_ = Clock::now();
}

void TrainingLoop::take_skipped(const std::vector<std::string>& ranks) {
  skipped_by_others_ = -feed_.skipped();
  for (const std::string& r : ranks) skipped_by_others_ += std::stoll(r.substr(r.rfind(' ') + 1));
}

void TrainingLoop::share_skipped() {
  if (control_ && s_.recipe.input.on_corrupt == "skip")
    take_skipped(control_->all_gather_text(fmt::format(" {}", feed_.skipped())));
}

bool TrainingLoop::some_rank_is_hot() {
  const bool hot = s_.options.heat && s_.options.heat->hot();
  const std::vector<std::string> ranks =
      control_->all_gather_text(fmt::format("{} {}", s_.stop_wanted() ? 1 : 0, hot ? 1 : 0));
  s_.stop_agreed = std::ranges::any_of(ranks, [](const std::string& r) { return r[0] == '1'; });
  return !*s_.stop_agreed &&
         std::ranges::any_of(ranks, [](const std::string& r) { return r[2] == '1'; });
}

void TrainingLoop::wait_for_heat() {
  constexpr auto kLook = std::chrono::milliseconds(500), kNap = std::chrono::milliseconds(20);
  const diag::Span span("wait for heat", diag::Cause::throttle);
  StatusBoard* const board = s_.options.board;
  HeatGuard* const heat = s_.options.heat;
  const Clock::time_point begin = Clock::now();
  const PausedOnBoard paused(board);
  bool was_hot = false;   // some rank
  bool is_paused = true;  // of several ranks: all, until they look at one another again
  Clock::time_point next_look = begin;
  const auto ended = [&] {
    if (!control_) return s_.stop_wanted() || progress_.step >= progress_.steps;
    if (is_paused && Clock::now() >= next_look) {
      is_paused = some_rank_is_hot();
      was_hot = was_hot || is_paused;
      next_look = Clock::now() + kLook;
    }
    return !is_paused;
  };
  const auto publish = [&](double so_far) { paused.publish(so_far); };
  const bool tells = s_.options.devices[0] == s_.devices[0];  // one of the process's ranks
  while (true) {
    if (heat)
      heat->wait({.stop = ended, .paused = publish, .warn = tells ? s_.options.warn : nullptr});
    if (!control_ || ended()) break;
    publish(seconds(Clock::now() - begin));
    std::this_thread::sleep_for(kNap);
  }
  if (control_ && was_hot) {
    ++s_.heat_pauses;
    s_.heat_seconds += seconds(Clock::now() - begin);
  }
  last_report_ += Clock::now() - begin;  // it is no part of the next report's steps
}

}  // namespace brim::train
