#include "command/top/interactive.h"

#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "command/signals.h"
#include "command/top/terminal.h"
#include "command/top/view.h"
#include "core/environment.h"

namespace brim::top {
namespace {

constexpr int kWaitMilliseconds = 1000;

/// What both views have: the screen, the choices, and the moments that they are of.
class Session {
 public:
  explicit Session(Moments& moments)
      : unicode_(is_utf8_locale()),  // sets the locale, which ncurses asks for when it starts
        moments_(moments),
        // Before ncurses, which leaves others' handlers alone. SIGQUIT would leave the screen as it
        // is.
        signal_(command::watch_signals({SIGQUIT})),
        terminal_(environment("NO_COLOR").empty()) {
    state.unicode = unicode_;
  }

  void show() {
    if (moments_.size() == 0) return;
    const size_t index = moments_.size() - 1 - std::min(state.back, moments_.size() - 1);
    terminal_.show(draw(moments_.until(index, kViewMoments), state, terminal_.size()));
  }

  /// Waits for keys, and for `descriptor` if it is not negative. False when the view is to end.
  bool wait(int descriptor) {
    pollfd entries[] = {{STDIN_FILENO, POLLIN, 0}, {descriptor, POLLIN, 0}};
    poll(entries, 2, kWaitMilliseconds);
    if ((entries[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) return false;
    while (!state.quit && signal_.load() == 0) {
      const KeyPress key = terminal_.read_key();
      if (key.key == Key::none) return true;
      press(state, key, *shown(), moments_.size());
    }
    return false;
  }

  MomentPointer shown() {
    if (moments_.size() == 0) return std::make_shared<const Moment>();
    return moments_.at(moments_.size() - 1 - std::min(state.back, moments_.size() - 1));
  }

  ViewState state;

 private:
  const bool unicode_;
  Moments& moments_;
  const std::atomic<int>& signal_;
  Terminal terminal_;
};

}  // namespace

void show_machine(Sampler::Sources sources, double interval, Recorder* recorder) {
  RecentMoments recent;
  Session session(recent);
  BackgroundSampler sampler(std::move(sources), interval);
  if (recorder) session.state.note = "recording";
  while (session.wait(sampler.descriptor())) {
    for (Moment& moment : sampler.take()) {
      if (recorder && moment.has_rates()) recorder->add(moment);
      recent.add(std::move(moment));
      moments_added(session.state, 1, recent.size());
    }
    const MomentPointer shown = session.shown();
    const Run* const run = session.state.inside ? selected_run(session.state, *shown) : nullptr;
    sampler.watch(run ? run->pid : 0);
    session.show();
  }
}

void show_recording(Recording& recording) {
  Session session(recording);
  session.state.note = recording.damaged() > 0
                           ? fmt::format("recording, {} damaged lines", recording.damaged())
                           : "recording";
  do {
    session.show();
  } while (session.wait(-1));
}

}  // namespace brim::top
