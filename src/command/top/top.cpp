// `brim top`: the machine, and the trainings on it.
#include <brim/core/device.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "command/command.h"
#include "command/report.h"
#include "command/say.h"
#include "command/signals.h"
#include "command/top/interactive.h"
#include "command/top/terminal.h"
#include "command/top/view.h"
#include "core/environment.h"
#include "core/runtime_folder.h"

namespace brim::top {
namespace {

using command::Arguments;
using command::UsageError;

/// How long a first reading of GPUs may take where there is one moment only.
constexpr double kFirstGpuSeconds = 3;

struct Options {
  bool once = false, json = false;
  std::string record, replay;
  double interval = 0.5;
};

void check(const Options& o) {
  if (o.once && o.json) throw UsageError("--once and --json: use one of them");
  if (!o.replay.empty() && !o.record.empty())
    throw UsageError("--replay and --record: a recording is not recorded again; use one of them");
}

std::vector<Device> cuda_devices() {
  try {
    return Device::all(DeviceKind::cuda);
  } catch (const Error&) {
    return {};  // `brim env` says why
  }
}

int text_columns() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return static_cast<int>(std::clamp<int64_t>(environment_number("COLUMNS", 80), 40, 1000));
}

/// A moment as text, with room for each run and GPU.
void print(const Moment& moment, const std::string& note) {
  const int rows =
      static_cast<int>(std::min<size_t>(40 + moment.gpus.size() + 3 * moment.runs.size(), 1000));
  const ViewState state{.unicode = is_utf8_locale(), .keys = false, .note = note};
  const Canvas canvas = draw({std::make_shared<const Moment>(moment)}, state,
                             {.rows = rows, .columns = text_columns()});
  command::say(stdout, "{}", command::Lines{canvas.text()});
  std::fflush(stdout);
}

/// Calls `use` with a moment each interval, until it returns false or a signal comes.
template <class F>
void each_moment(const Options& o, Sampler& sampler, const F& use) {
  const std::atomic<int>& signal = command::watch_signals();
  sampler.take();  // what the first shares are from
  do {
    constexpr double kSlice = 0.1;  // a sleep does not end by a signal
    for (double left = o.interval; left > 0; left -= kSlice) {
      std::this_thread::sleep_for(std::chrono::duration<double>(std::min(left, kSlice)));
      if (signal.load() != 0) return;
    }
  } while (use(sampler.take()));
}

int replay(const Options& o) {
  Recording recording(o.replay);
  const std::string note =
      recording.damaged() > 0 ? fmt::format("{} damaged lines", recording.damaged()) : "";
  const MomentPointer last = recording.at(recording.size() - 1);
  if (o.json)
    command::write_json(to_json(*last), "-");
  else if (o.once || !Terminal::is_usable())
    print(*last, note);
  else
    show_recording(recording);
  return 0;
}

int run(const Options& o) {
  check(o);
  if (!o.replay.empty()) return replay(o);
  std::optional<Recorder> recorder;
  if (!o.record.empty()) recorder.emplace(o.record);
  const GpuWatch gpus(cuda_devices, std::max(o.interval, 0.5));
  const Sampler::Sources sources{.folder = runtime_folder(), .gpus = &gpus};
  const bool is_text = o.once || o.json;
  if (!is_text && Terminal::is_usable()) {
    show_machine(sources, o.interval, recorder ? &*recorder : nullptr);
    return 0;
  }
  if (!is_text && isatty(STDOUT_FILENO) != 1)
    throw UsageError("standard output is no terminal; use --once, or --json");
  // A terminal that cannot move its cursor gets one text below the other.
  Sampler sampler(sources);
  if (is_text) gpus.wait_for_first(kFirstGpuSeconds);
  each_moment(o, sampler, [&](const Moment& moment) {
    if (recorder) recorder->add(moment);
    if (!o.json) print(moment, "");
    if (o.json && !recorder) command::write_json(to_json(moment), "-");
    return !o.once && (!o.json || recorder) && std::ferror(stdout) == 0;
  });
  return 0;
}

const command::Register top_command(
    {"top", "show this machine, its GPUs and the trainings on it",
     [](Arguments args) -> std::function<int()> {
       auto o = std::make_shared<Options>();
       args.flag("--once", o->once, "print one moment as text");
       args.flag("--json", o->json, "print one moment as JSON; with --record print nothing");
       args.add("--record", o->record, "add each moment to a file, one JSON document a line")
           .file();
       args.add("--replay", o->replay, "show such a file instead of this machine").file();
       args.add("--interval", o->interval, "seconds between two moments")
           .range(0.05, 3600.0)
           .show_default();
       return [o] { return run(*o); };
     }});

}  // namespace
}  // namespace brim::top
