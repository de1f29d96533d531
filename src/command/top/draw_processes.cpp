// The list of processes.
#include <fmt/core.h>

#include <algorithm>
#include <tuple>

#include "command/top/draw.h"
#include "command/top/hints.h"

namespace brim::top {
namespace {

using diag::ProcessReading;

std::vector<const ProcessReading*> sorted_processes(const Moment& moment, const ViewState& state) {
  std::vector<const ProcessReading*> processes;
  for (const ProcessReading& p : moment.machine.processes)
    if (passes(state, p)) processes.push_back(&p);
  const auto key = [&](const ProcessReading* p) -> double {
    switch (state.sort) {
      case Sort::cpu:
        return p->cores;
      case Sort::memory:
        return static_cast<double>(p->resident);
      case Sort::gpu:
        return gpu_use(moment, p->pid).value_or(GpuUse()).memory;
      case Sort::storage:
        return p->read.value_or(0) + p->written.value_or(0);
      case Sort::pid:
        return -static_cast<double>(p->pid);
    }
    return 0;
  };
  std::ranges::stable_sort(processes, std::greater(), [&](const ProcessReading* p) {
    return std::tuple(key(p), p->resident, -p->pid);
  });
  return processes;
}

/// What a screen of 80 columns has no space for.
bool shows_threads(const Canvas& canvas) { return canvas.size().columns >= 100; }

bool has_gpu_processes(const Moment& moment) {
  return std::ranges::any_of(moment.gpus,
                             [](const Gpu& g) { return g.answers && !g.processes.empty(); });
}

std::string rate_text(const std::optional<double>& bytes) {
  return bytes ? short_bytes(*bytes) : "-";
}

void draw_process(Canvas& canvas, int row, const Moment& moment, const ProcessReading& p) {
  const auto run = std::ranges::find(moment.runs, p.pid, &Run::pid);
  Pen pen(canvas, row);
  pen.right(fmt::format("{}", p.pid), 7)
      .right(fmt::format("{}", p.uid), 6, Style::dim)
      .right(percent(p.cores), 5, p.cores > 0.9 ? Style::notice : Style::plain)
      .right(short_bytes(static_cast<double>(p.resident)), 6)
      .right(rate_text(p.read), 6, Style::dim)
      .right(rate_text(p.written), 6, Style::dim)
      .right(fmt::format("{}", p.threads), 4, Style::dim);
  if (shows_threads(canvas)) {
    const double cores = p.busiest ? p.busiest->cores : 0;
    pen.right(p.busiest ? percent(cores) : "-", 5, cores > 0.9 ? Style::notice : Style::dim);
  }
  if (has_gpu_processes(moment)) {
    const std::optional<GpuUse> use = gpu_use(moment, p.pid);
    pen.right(use && use->utilisation ? percent(*use->utilisation) : "-", 5)
        .right(use ? short_bytes(use->memory) : "-", 7);
  }
  if (run != moment.runs.end() && !run->recipe.empty())
    pen.put(fmt::format("{}: ", run->recipe), Style::bold);
  else if (const std::string advice = hint(moment, p); !advice.empty())
    pen.put(advice + " ", Style::notice);
  pen.put(p.command.empty() ? fmt::format("[{}]", p.name) : p.command,
          p.command.empty() ? Style::dim : Style::plain);
}

}  // namespace

int draw_processes(Canvas& canvas, int row, const Moment& moment, const ViewState& state,
                   int max_rows) {
  if (max_rows < 2) return row;
  const auto head = [&](Sort sort) { return state.sort == sort ? Style::selected : Style::title; };
  Pen pen(canvas, row++);
  pen.right("PID", 7, head(Sort::pid))
      .right("UID", 6, Style::title)
      .right("CPU", 5, head(Sort::cpu))
      .right("MEMORY", 6, head(Sort::memory))
      .right("READ/S", 6, head(Sort::storage))
      .right("WRIT/S", 6, head(Sort::storage))
      .right("THR", 4, Style::title);
  if (shows_threads(canvas)) pen.right("1 THR", 5, Style::title);
  if (has_gpu_processes(moment))
    pen.right("GPU", 5, head(Sort::gpu)).right("GPU-MEM", 7, head(Sort::gpu));
  pen.put("COMMAND", Style::title);
  const std::vector<const ProcessReading*> processes = sorted_processes(moment, state);
  const size_t room = static_cast<size_t>(max_rows - 1);
  const size_t last = processes.size() - std::min(processes.size(), room);
  const size_t first = std::min(state.first_process, last);
  for (size_t i = first; i < std::min(first + room, processes.size()); ++i)
    draw_process(canvas, row++, moment, *processes[i]);
  return row;
}

}  // namespace brim::top
