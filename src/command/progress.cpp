// The bar goes to stderr, so that redirecting standard output does not switch it off.
#include "command/progress.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "command/format.h"
#include "command/report.h"
#include "command/say.h"
#include "core/clock.h"

namespace brim::command {
namespace {

int terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/// "round 2/5  " of iterative pruning, else nothing.
std::string round_of(const train::Progress& p) {
  return p.rounds > 0 ? fmt::format("round {}/{}  ", p.round, p.rounds) : "";
}

}  // namespace

ProgressDisplay::ProgressDisplay(bool quiet)
    : quiet_(quiet), terminal_(isatty(STDERR_FILENO) == 1), last_line_(steady_seconds()) {}

void ProgressDisplay::draw(double fraction, const std::string& text) {
  const int width = std::clamp(terminal_width() - static_cast<int>(text.size()) - 4, 0, 40);
  const int full = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * width);
  std::string bar;
  if (width >= 8)
    bar = fmt::format("[{}{}] ", std::string(static_cast<size_t>(full), '#'),
                      std::string(static_cast<size_t>(width - full), '.'));
  const std::string line = fmt::format("\r{}{}\x1b[K", bar, printable(text));
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
  open_ = true;
  last_draw_ = steady_seconds();
}

void ProgressDisplay::show(const train::Progress& p) {
  if (quiet_) return;
  if (p.report) {
    images_per_s_ = p.images_per_s;
    loss_ = p.loss;
  }
  const bool known = p.report || images_per_s_ > 0;
  const std::string numbers =
      known ? fmt::format("  {:.0f} {}/s  loss {:.4f}", images_per_s_, counted_, loss_) : "";
  if (terminal_) {
    if (p.step < p.steps && steady_seconds() - last_draw_ < 0.1) return;
    draw(static_cast<double>(p.step) / static_cast<double>(p.steps),
         fmt::format("{}epoch {}/{}  step {}/{}{}  {} left", round_of(p), p.epoch + 1, p.epochs,
                     p.step, p.steps, numbers, format_duration(p.seconds_left)));
  } else if (p.report) {
    say(stdout, "{}epoch {}/{}  step {}/{}{}  {} left\n", round_of(p), p.epoch + 1, p.epochs,
        p.step, p.steps, numbers, format_duration(p.seconds_left));
    std::fflush(stdout);
  }
}

void ProgressDisplay::show_validation(const train::Progress& p) {
  if (quiet_ || !p.validation) return;
  finish();
  say(stdout, "{}epoch {}/{}  validation{}: {}{}loss {:.4f}{}\n", round_of(p), p.epoch + 1,
      p.epochs, left_out(*p.validation), metrics_line(*p.validation),
      p.validation->metrics.empty() ? "" : ", ", p.validation->loss,
      p.best ? ", the best so far" : "");
  std::fflush(stdout);
}

void ProgressDisplay::show(const std::string& what, double fraction) {
  if (quiet_) return;
  const int percent = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * 100);
  if (fraction == 0) last_tenth_ = -1;
  if (terminal_) {
    if (fraction < 1 && steady_seconds() - last_draw_ < 0.1) return;
    draw(fraction, fmt::format("{} {} %", what, percent));
  } else if (percent / 10 > last_tenth_ && steady_seconds() - last_line_ >= 1) {
    last_tenth_ = percent / 10;
    last_line_ = steady_seconds();
    say(stdout, "{} {} %\n", what, percent);
    std::fflush(stdout);
  }
}

void ProgressDisplay::finish() {
  if (open_) std::fputc('\n', stderr);
  open_ = false;
  last_tenth_ = -1;
  last_line_ = steady_seconds();
}

}  // namespace brim::command
