// A plan in words: what each pass did, its memory, what the device made of it, its launches.
#include <fmt/core.h>

#include "plan/plan.h"

namespace brim::plan {
namespace {

std::string readable(size_t bytes) {
  if (bytes < 10000) return fmt::format("{} B", bytes);
  if (bytes < 10'000'000) return fmt::format("{:.1f} kB", static_cast<double>(bytes) * 1e-3);
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) * 1e-6);
}

}  // namespace

std::string Plan::explain() const {
  std::string text = "passes\n";
  for (const std::string& note : notes_) text += "  " + note + "\n";
  text += "results\n";
  for (const Pass* pass : inexact_)
    text += fmt::format("  within {} ulp of the eager ops' ({})\n", pass->ulp, pass->name);
  if (inexact_.empty()) text += "  bit for bit those of the eager step\n";
  text += fmt::format(
      "memory\n  {} temporaries, {} of them in place of others, in an arena of {}; {} live at one "
      "time, {} if nothing were shared, "
      "{} "
      "at the peak of the eager step\n",
      memory_.blocks.size(), memory_.in_place, readable(memory_.bytes), readable(memory_.largest),
      readable(memory_.separate), readable(static_cast<size_t>(program_.eager_peak)));
  if (const RepeatedStats r = launched(); r.queued + r.replayed > 0)
    text += fmt::format(
        "device\n  {} graphs, {} nodes a step; replayed {} times, {} of them with new numbers; "
        "queued launch by launch {} times{}{}\n",
        r.graphs, r.nodes, r.replayed, r.renewed, r.queued, r.why_not.empty() ? "" : ": ",
        r.why_not);
  text += fmt::format("launches ({} recorded)\n", program_.recorded_launches);
  for (size_t i = 0; i < program_.launches.size(); ++i) {
    const Launch& l = *program_.launches[i];
    std::string reads, writes;
    for (const Operand& o : l.operands())
      if (o.tensor->defined()) {
        std::string& side = o.writes ? writes : reads;
        if (side.size() < 60) side += o.tensor->shape().str();
      }
    text += fmt::format("  {:>3} {:<26} {} -> {}\n", i, l.name(), reads, writes);
  }
  return text;
}

}  // namespace brim::plan
