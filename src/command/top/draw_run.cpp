// One run alone: all that it tells.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "command/format.h"
#include "command/top/draw.h"
#include "command/top/hints.h"

namespace brim::top {
namespace {

std::string duration(const std::optional<double>& seconds) {
  return seconds ? command::format_duration(std::min(*seconds, 1e8)) : "-";
}
std::string bytes(const std::optional<int64_t>& value) {
  return value ? short_bytes(static_cast<double>(*value)) : "-";
}

/// "name value  name value": names are dim.
void draw_facts(Canvas& canvas, int row, std::string_view label,
                const std::vector<std::pair<std::string, std::string>>& facts) {
  Pen pen(canvas, row);
  pen.left(label, kLabel - 1, Style::title);
  for (const auto& [name, value] : facts) {
    if (value.empty()) continue;
    pen.put(name, Style::dim).gap(name.empty() ? 0 : 1).put(value).gap(2);
  }
}

/// The run as an earlier moment knew it; null where it did not.
const Run* same_run(const Moment& moment, const Run& run) {
  const auto found = std::ranges::find(moment.runs, run.socket, &Run::socket);
  return found != moment.runs.end() && found->started == run.started ? &*found : nullptr;
}

/// The share of a cause in each moment, as a row of levels; a blank where the run was not there.
std::string history(const std::vector<MomentPointer>& moments, const Run& run, size_t device,
                    const std::string& cause, bool unicode) {
  std::string levels;
  for (const MomentPointer& moment : moments) {
    const Run* const then = same_run(*moment, run);
    const Named then_shares =
        then && device < then->devices.size() ? shares(then->devices[device].recent) : Named();
    const auto found = std::ranges::find(then_shares, cause, &Named::value_type::first);
    levels += found == then_shares.end() ? " " : level(found->second, unicode);
  }
  return levels;
}

int draw_causes(Canvas& canvas, int row, const std::vector<MomentPointer>& moments, const Run& run,
                size_t device, int max_rows) {
  const RunAccount& whole = run.devices[device].account;
  const Named recent = shares(run.devices[device].recent);
  const size_t columns = static_cast<size_t>(std::max(canvas.size().columns - 31, 0));
  const std::vector<MomentPointer> newest(
      moments.end() - static_cast<ptrdiff_t>(std::min(columns, moments.size())), moments.end());
  Pen(canvas, row++, 1)
      .left("CAUSE", 15, Style::title)
      .right("NOW", 5, Style::title)
      .right("ALL", 5, Style::title)
      .put("SHARE OVER TIME", Style::title);
  for (const auto& [cause, share] : shares(whole)) {
    if (max_rows-- <= 1) break;
    const auto now = std::ranges::find(recent, cause, &Named::value_type::first);
    const Style style = look_of(cause).style;
    Pen(canvas, row++, 1)
        .left(cause, 15, style)
        .right(percent(now == recent.end() ? 0 : now->second), 5)
        .right(percent(share), 5, Style::dim)
        .put(history(newest, run, device, cause, canvas.unicode()), style);
  }
  return row;
}

/// "train > step > loader, input, for 12 s".
std::string doing_text(const RunDoing& doing) {
  if (doing.spans.empty()) return doing.cause;
  return fmt::format("{}, {}{}", fmt::join(doing.spans, " > "), doing.cause,
                     doing.seconds < 1 ? "" : ", for " + duration(doing.seconds));
}

/// Where a training waits is worth a row while it does.
int draw_doing(Canvas& canvas, int row, const RunDevice& device) {
  if (!device.doing) return row;
  const bool waits = device.doing->seconds >= 1;
  Pen(canvas, row, kLabel)
      .put("in ", Style::dim)
      .put(doing_text(*device.doing), waits ? Style::notice : Style::plain);
  return row + 1;
}

int draw_ops(Canvas& canvas, int row, const Run& run, int max_rows) {
  if (run.ops.empty() || max_rows < 2) return row;
  double all = 0;
  for (const RunOp& op : run.ops) all += op.seconds;
  const auto rate = [](const RunOp& op, const std::optional<double>& each) {
    return each && *each > 0 && op.seconds > 0 ? short_count(*each * op.calls / op.seconds) : "-";
  };
  const bool has_roof =
      std::ranges::any_of(run.ops, [](const RunOp& op) { return op.share_of_roof.has_value(); });
  Pen head(canvas, row++, 1);
  head.left("KERNEL", 28, Style::title)
      .right("TIME", 5, Style::title)
      .right("US", 8, Style::title)
      .right("FLOP/s", 8, Style::title)
      .right("B/s", 8, Style::title);
  if (has_roof) head.right("ROOF", 5, Style::title);
  head.gap(2).put("SHAPES", Style::title);
  for (const RunOp& op : run.ops) {
    if (--max_rows < 1) break;
    Pen pen(canvas, row++, 1);
    pen.left(op.op, 28)
        .right(percent(all > 0 ? op.seconds / all : 0), 5)
        .right(op.calls > 0 ? fmt::format("{:.1f}", 1e6 * op.seconds / op.calls) : "-", 8)
        .right(rate(op, op.operations), 8)
        .right(rate(op, op.bytes), 8);
    if (has_roof) pen.right(op.share_of_roof ? percent(*op.share_of_roof) : "-", 5);
    pen.gap(2).put(op.shapes, Style::dim);
  }
  return row;
}

int draw_device(Canvas& canvas, int row, const RunDevice& device) {
  draw_facts(canvas, row, device.name,
             {{"memory", bytes(device.live)},
              {"peak", bytes(device.peak)},
              {"reserved", bytes(device.reserved)},
              {"limit", device.limit.value_or(0) > 0 ? bytes(device.limit) : "none"},
              {"measured", duration(device.account.wall)},
              {"energy", device.energy ? fmt::format("{:.1f} kJ", *device.energy * 1e-3) : ""}});
  Pen pen(canvas, row + 1, kLabel);
  draw_account(pen, canvas.unicode(), canvas.size().columns - kLabel - 1, device.recent);
  return draw_doing(canvas, row + 2, device);
}

int draw_threads(Canvas& canvas, int row, const Moment& moment, int max_rows) {
  std::vector<diag::ThreadReading> threads = moment.machine.threads;
  std::ranges::stable_sort(threads, std::greater(), &diag::ThreadReading::cores);
  if (threads.empty() || max_rows < 1) return row;
  Pen pen(canvas, row);
  pen.left("threads", kLabel - 1, Style::title)
      .put(fmt::format("{}: ", threads.size()), Style::dim);
  for (const diag::ThreadReading& thread : threads) {
    const std::string part = fmt::format("{} {}  ", thread.name, percent(thread.cores));
    if (static_cast<int>(part.size()) > pen.room() || thread.cores < 0.005) break;
    pen.put(part, thread.cores > 0.9 ? Style::notice : Style::plain);
  }
  return row + 1;
}

std::string validation_text(const Run& run) {
  if (!run.validation) return "";
  std::string text = "loss " + or_dash(run.validation->loss, "{:.4g}");
  for (const auto& [name, value] : run.validation->metrics)
    text += fmt::format(", {} {:.4g}", name, value);
  return text;
}

}  // namespace

int draw_run(Canvas& canvas, int row, const std::vector<MomentPointer>& moments, const Run& run) {
  const Moment& moment = *moments.back();
  const int last = canvas.size().rows - 1;
  Pen title(canvas, row++);
  title.put(run.recipe.empty() ? "run" : run.recipe, Style::bold)
      .put(fmt::format("  {}{}{}", run.state, run.stage ? ", " + run.stage->name : "",
                       run.stage ? " " + percent(run.stage->fraction) : ""))
      .put(run.pause ? ", paused: " + run.pause->why : "", Style::notice)
      .gap(2)
      .put(run.trouble, Style::bad);
  draw_facts(canvas, row++, "what",
             {{"", run.command},
              {"task", run.task},
              {"data", run.data},
              {"batch", or_dash(run.batch)},
              {"precision", run.precision},
              {"process", fmt::format("{}", run.pid)}});
  draw_facts(canvas, row++, "folder", {{"", run.folder.empty() ? "none" : run.folder}});
  draw_facts(canvas, row++, "steps",
             {{"point", run.points ? fmt::format("{} of {}", or_dash(run.point), *run.points) : ""},
              {"round", run.rounds ? fmt::format("{} of {}", or_dash(run.round), *run.rounds) : ""},
              {"epoch", fmt::format("{} of {}", run.epoch ? fmt::format("{}", *run.epoch + 1) : "-",
                                    or_dash(run.epochs))},
              {"step", fmt::format("{} of {}", or_dash(run.step), or_dash(run.steps))},
              {"before", run.steps_before.value_or(0) > 0 ? or_dash(run.steps_before) : ""},
              {"images/s", or_dash(run.images_per_s, "{:.1f}")},
              {"left", duration(run.seconds_left)}});
  draw_facts(canvas, row++, "quality",
             {{"loss", or_dash(run.loss, "{:.5g}")},
              {"learning rate", or_dash(run.learning_rate, "{:.3g}")},
              {"validation", validation_text(run)},
              {"skipped", run.skipped.value_or(0) > 0 ? or_dash(run.skipped) : ""}});
  draw_facts(
      canvas, row++, "host",
      {{"process", or_dash(run.process_cores, "{:.2f} cores")},
       {"memory", bytes(run.resident)},
       {"rank", fmt::format("{} of {}", run.rank ? fmt::format("{}", *run.rank + 1) : "-",
                            or_dash(run.ranks))},
       {"loader", run.loader ? fmt::format("{} of {} ready, {} workers", or_dash(run.loader->ready),
                                           or_dash(run.loader->slots), or_dash(run.loader->workers))
                             : ""},
       {"checkpoints", or_dash(run.checkpoints)},
       {"failed",
        run.checkpoint_failures.value_or(0) > 0 ? or_dash(run.checkpoint_failures) : ""}});
  if (moment.machine.watched == run.pid) row = draw_threads(canvas, row, moment, last - row);
  row = draw_gpus(canvas, row, run.gpus, std::min(4, last - row));
  if (const std::string advice = hint(moment, run); !advice.empty())
    Pen(canvas, row++).left("hint", kLabel - 1, Style::title).put(advice, Style::notice);
  for (size_t i = 0; i < run.devices.size() && row + 2 < last; ++i) {
    row = draw_device(canvas, row, run.devices[i]);
    const int rows_of_ops = i > 0 || run.ops.empty() ? 0 : 5;  // of the first device
    const int most = last - row;
    row = draw_causes(canvas, row, moments, run, i, std::max(most - rows_of_ops, most / 2));
    if (i == 0) row = draw_ops(canvas, row, run, last - row);
  }
  return row;
}

}  // namespace brim::top
