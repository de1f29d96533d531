// The list of runs: two rows each, numbers and where the time goes.
#include <fmt/core.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <iterator>

#include "command/format.h"
#include "command/top/draw.h"
#include "command/top/hints.h"

namespace brim::top {
namespace {

constexpr int kRowsOfRun = 2, kName = 15;
constexpr int kStep = 12, kNumber = 7, kPair = 5;  // widths of columns

/// "3/10", or "3" where that is wider than `width`.
std::string of(const std::optional<int64_t>& part, const std::optional<int64_t>& whole,
               int width = INT_MAX) {
  if (!part) return "-";
  std::string first = short_count(static_cast<double>(*part));
  if (!whole) return first;
  std::string both = first + "/" + short_count(static_cast<double>(*whole));
  return std::ssize(both) <= width ? both : first;
}

std::string loss_of(const Run& run) {
  std::string text = or_dash(run.loss, "{:.4g}");
  return std::ssize(text) <= kNumber ? text : or_dash(run.loss, "{:.1e}");
}

std::string time_left(const Run& run) {
  if (!run.seconds_left) return "-";
  const double seconds = std::clamp(*run.seconds_left, 0.0, 1e8);
  std::string text = command::format_duration(seconds);
  return std::ssize(text) <= kNumber ? text : fmt::format("{:.0f} h", seconds / 3600);
}

/// Where it is: the steps, or what it does besides training.
std::string progress(const Run& run) {
  if (run.pause) return "paused: " + run.pause->why;
  if (run.stage) return fmt::format("{} {}", run.stage->name, percent(run.stage->fraction));
  if (run.state == "training" || run.state.empty()) return of(run.step, run.steps, kStep);
  return run.state;
}

std::string devices_of(const Run& run) {
  if (run.devices.empty()) return "-";
  return run.devices.size() == 1
             ? run.devices[0].name
             : fmt::format("{}+{}", run.devices[0].name, run.devices.size() - 1);
}

std::string name_of(const Run& run) {
  return run.recipe.empty() ? fmt::format("process {}", run.pid) : run.recipe;
}

void draw_numbers(Canvas& canvas, int row, const Run& run, Style style) {
  const int wide = std::clamp((canvas.size().columns - 80) / 2, 0, 24);
  const std::optional<int64_t> epoch = run.epoch ? std::optional(*run.epoch + 1) : std::nullopt;
  const auto queue = run.loader ? of(run.loader->ready, run.loader->slots, kPair) : "-";
  const auto rank = run.rank ? std::optional(*run.rank + 1) : std::nullopt;
  Pen pen(canvas, row, 1);
  pen.left(name_of(run), kName + wide, style == Style::plain ? Style::bold : style)
      .left(devices_of(run), 7, style)
      .right(of(epoch, run.epochs, kPair), kPair, style)
      .right(progress(run), kStep, style)
      .right(run.images_per_s ? short_count(*run.images_per_s) : "-", kNumber, style)
      .right(loss_of(run), kNumber, style)
      .right(time_left(run), kNumber, style)
      .right(queue, kPair, style)
      .right(of(rank, run.ranks, kPair), kPair, style);
}

void draw_run_row(Canvas& canvas, int row, const Moment& moment, const Run& run) {
  const Style style = run.trouble.empty() ? Style::plain : Style::dim;
  draw_numbers(canvas, row, run, style);
  Pen pen(canvas, row + 1, 2);
  if (!run.trouble.empty()) pen.put(fmt::format("{}  ", run.trouble), Style::bad);
  if (!run.command.empty() && run.command != "train") pen.put(run.command + "  ", style);
  if (run.points) pen.put(fmt::format("point {}  ", of(run.point, run.points)), style);
  if (run.rounds) pen.put(fmt::format("round {}  ", of(run.round, run.rounds)), style);
  if (run.devices.empty()) return;
  const RunAccount& account = run.devices[0].recent;
  draw_account(pen, canvas.unicode(), canvas.size().columns >= 120 ? 42 : 24, account);
  pen.gap(1);
  const std::string advice = hint(moment, run);
  if (advice.empty() || canvas.size().columns >= 120)
    for (const auto& [cause, share] : shares(account)) {
      const std::string part = fmt::format("{} {}  ", cause, percent(share));
      if (share < 0.005 || static_cast<int>(part.size()) > pen.room()) break;
      if (!advice.empty() && pen.room() < static_cast<int>(part.size() + advice.size())) break;
      pen.put(part, look_of(cause).style);
    }
  pen.put(advice, Style::notice);
}

}  // namespace

CauseLook look_of(std::string_view cause) {
  static constexpr CauseLook kLooks[] = {
      {"compute", '#', Style::good},        {"communication", 'c', Style::notice},
      {"peer", 'p', Style::notice},         {"copy to device", 'd', Style::notice},
      {"copy to host", 'h', Style::notice}, {"staging", 's', Style::notice},
      {"input", 'i', Style::bad},           {"host read", 'r', Style::bad},
      {"synchronize", 'y', Style::notice},  {"full queue", 'q', Style::plain},
      {"dispatch", 'D', Style::notice},     {"user code", 'u', Style::plain},
      {"host compute", 'H', Style::notice}, {"allocator", 'a', Style::notice},
      {"compile", 'C', Style::plain},       {"checkpoint", 'k', Style::notice},
      {"file read", 'f', Style::plain},     {"file write", 'w', Style::plain},
      {"evaluation", 'e', Style::plain},    {"throttle", 't', Style::bad},
      {"stolen", 'S', Style::bad},          {"other", 'o', Style::dim}};
  const auto found = std::ranges::find(kLooks, cause, &CauseLook::cause);
  return found != std::end(kLooks) ? *found : CauseLook{cause, '?', Style::plain};
}

Named shares(const RunAccount& account) {
  Named result;
  if (account.wall <= 0) return result;
  for (const auto& [cause, seconds] : account.seconds)
    if (seconds > 0) result.emplace_back(cause, std::min(seconds / account.wall, 1.0));
  std::ranges::stable_sort(result, std::greater(), &Named::value_type::second);
  return result;
}

void draw_account(Pen& pen, bool unicode, int width, const RunAccount& account) {
  std::vector<std::string> letters;
  std::vector<BarPart> parts;
  letters.reserve(account.seconds.size());  // the parts point to them
  for (const auto& [cause, seconds] : account.seconds) {
    const CauseLook look = look_of(cause);
    letters.emplace_back(1, look.letter);
    const char* const letter = letters.back().c_str();
    parts.push_back({account.wall > 0 ? seconds / account.wall : 0, look.style,
                     look.letter == '#' ? "\u2588" : letter, letter});
  }
  draw_bar(pen, unicode, width, parts);
}

std::string or_dash(const std::optional<double>& value, const char* format) {
  return value ? fmt::format(fmt::runtime(format), *value) : "-";
}
std::string or_dash(const std::optional<int64_t>& value) {
  return value ? fmt::format("{}", *value) : "-";
}

int draw_runs(Canvas& canvas, int row, const Moment& moment, const ViewState& state, int max_rows) {
  const std::vector<const Run*> runs = listed_runs(state, moment);
  if (max_rows < 1) return row;
  if (runs.empty()) {
    Pen(canvas, row)
        .left("runs", kLabel - 1, Style::title)
        .put(moment.runs.empty() ? "no training of this user runs" : "none passes the filter",
             Style::dim);
    return row + 1;
  }
  const int wide = std::clamp((canvas.size().columns - 80) / 2, 0, 24);
  Pen head(canvas, row++, 1);
  head.left(runs.size() == 1 ? "RUN" : fmt::format("{} RUNS", runs.size()), kName + wide,
            Style::title)
      .left("DEVICE", 7, Style::title)
      .right("EPOCH", kPair, Style::title)
      .right("STEP", kStep, Style::title)
      .right("IMG/S", kNumber, Style::title)
      .right("LOSS", kNumber, Style::title)
      .right("LEFT", kNumber, Style::title)
      .right("QUEUE", kPair, Style::title)
      .right("RANK", kPair, Style::title);
  const Run* const selected = selected_run(state, moment);
  const auto fitting = static_cast<size_t>(std::max((max_rows - 1) / kRowsOfRun, 1));
  const auto at = static_cast<size_t>(std::ranges::find(runs, selected) - runs.begin());
  const size_t first = at < fitting ? 0 : at + 1 - fitting;
  for (size_t i = first; i < std::min(first + fitting, runs.size()); ++i, row += kRowsOfRun) {
    draw_run_row(canvas, row, moment, *runs[i]);
    if (runs[i] == selected && runs.size() > 1) canvas.put(row, 0, ">", Style::selected);
  }
  return row;
}

}  // namespace brim::top
