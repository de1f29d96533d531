#include "command/top/view.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "command/top/draw.h"
#include "command/top/hints.h"

namespace brim::top {
namespace {

constexpr int kTallRows = 30;

std::string clock_text(double unix_seconds) {
  const auto seconds = static_cast<std::time_t>(std::clamp(unix_seconds, 0.0, 1e11));
  std::tm local{};
  char text[16] = "";
  if (localtime_r(&seconds, &local)) std::strftime(text, sizeof text, "%H:%M:%S", &local);
  return text;
}

void draw_title(Canvas& canvas, const Moment& moment, const ViewState& state) {
  Pen pen(canvas, 0);
  pen.put("brim top", Style::bold).gap(2).put(moment.hostname, Style::plain, 24).gap(2);
  pen.put(clock_text(moment.time)).gap(2);
  pen.put(fmt::format("{} processes", moment.process_count), Style::dim).gap(2);
  if (state.frozen)
    pen.put(state.back > 0 ? fmt::format("[{} back]", state.back) : "[frozen]", Style::notice)
        .gap(1);
  if (!state.filter.empty() && !state.typing) pen.put("/" + state.filter, Style::notice).gap(1);
  if (!moment.has_rates()) pen.put("first shares follow", Style::dim).gap(1);
  if (!state.note.empty()) pen.put(state.note, Style::dim).gap(1);
  pen.put(machine_hint(moment), Style::bad);
}

void draw_keys(Canvas& canvas, const ViewState& state) {
  const int row = canvas.size().rows - 1;
  if (state.typing) {
    canvas.put(row, 0, "filter: " + state.filter + "_", Style::selected);
    return;
  }
  canvas.put(row, 0,
             state.inside
                 ? "Esc back  up/down other run  left/right time  space freeze  ? help  q quit"
                 : "q quit  s sort  / filter  Enter run  left/right time  space freeze  ? help",
             Style::dim);
}

void draw_list(Canvas& canvas, const Moment& moment, const ViewState& state, int end) {
  const bool is_tall = canvas.size().rows >= kTallRows;
  int row = draw_cores(canvas, 1, moment, is_tall ? 8 : 2);
  row = draw_memory(canvas, row, moment);
  row = draw_pressure(canvas, row, moment);
  row = draw_traffic(canvas, row, moment);
  row = draw_gpus(canvas, row, moment.gpus, is_tall ? 16 : 3);
  // Processes keep a third of what is left.
  row = draw_runs(canvas, row, moment, state, (end - row) * 2 / 3);
  draw_processes(canvas, row, moment, state, end - row);
}

}  // namespace

int draw_help(Canvas& canvas, int row) {
  static constexpr const char* kHelp[] = {
      "q           quit",
      "s           sort processes by CPU, memory, GPU memory, storage, number",
      "/           show only what contains the text; Enter keeps it, Esc ends it",
      "up, down    select a run; PgUp, PgDn go through processes",
      "Enter       the selected run alone; Esc: back",
      "left, right back in time and forth; [ and ] by 60 moments",
      "space       let time stand still, and go on",
      "",
      "Cores: # programs, + kernel, ! another machine had it, . waits for a disk",
      "Runs: a bar shows the device's time since the sample before, by cause:",
      "  # compute        i input          D dispatch       c communication",
      "  d copy to device h copy to host   s staging        p peer",
      "  r host read      y synchronize    q full queue     u user code",
      "  H host compute   a allocator      C compile        k checkpoint",
      "  f file read      w file write     e evaluation     t throttle",
      "  S stolen         o other",
      "  QUEUE: batches that wait for the device, of the loader's slots",
      "",
      "docs/TOP.md says more. Any key goes back."};
  for (const char* line : kHelp) canvas.put(row++, 1, line);
  return row;
}

Canvas draw(const std::vector<MomentPointer>& moments, const ViewState& state, Size size) {
  const Moment& moment = *moments.back();
  Canvas canvas(size, state.unicode);
  const int end = canvas.size().rows - (state.keys ? 1 : 0);
  const Run* const run = selected_run(state, moment);
  draw_title(canvas, moment, state);
  if (state.help)
    draw_help(canvas, 2);
  else if (state.inside && run)
    draw_run(canvas, 1, moments, *run);
  else
    draw_list(canvas, moment, state, end);
  if (state.keys && size.rows > 1) draw_keys(canvas, state);
  return canvas;
}

}  // namespace brim::top
