// A plan in words: what each pass did, its memory, what the device made of it, its launches.
#include <fmt/core.h>

#include <array>
#include <string>
#include <unordered_map>

#include "backend/fused/chain.h"
#include "plan/plan.h"
#include "plan/traffic.h"

namespace brim::plan {
namespace {

/// Of the memory behind tensors: what it is to the step, and a number.
class Names {
 public:
  explicit Names(const Program& program) : program_(program) {}
  std::string of(const Tensor& t) {
    const Role role = program_.role(*t.storage());
    const auto [at, fresh] = numbers_.try_emplace(t.storage().get(), 0);
    if (fresh) at->second = ++count_[static_cast<size_t>(role)];
    constexpr std::array<const char*, 6> kKinds = {"t", "in", "out", "kept", "own", "host"};
    return fmt::format("{}{}", kKinds[static_cast<size_t>(role)], at->second);
  }

 private:
  const Program& program_;
  std::unordered_map<const Storage*, int> numbers_;
  std::array<int, 6> count_{};
};

std::string readable(size_t bytes) {
  if (bytes < 10000) return fmt::format("{} B", bytes);
  if (bytes < 10'000'000) return fmt::format("{:.1f} kB", static_cast<double>(bytes) * 1e-3);
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) * 1e-6);
}

/// What was chosen for each tensor that a step does not use for a while.
std::string explain_fit(const MemoryFit& fit, bool by_vdnn) {
  const auto of = [](int64_t bytes) { return readable(static_cast<size_t>(bytes)); };
  std::string text = fmt::format("room\n  {} for temporaries, which take {} as they are",
                                 of(fit.room), of(fit.before));
  if (fit.host_is_short)
    return text +
           fmt::format(
               "; vDNN's rules need {} of the host, more than its limit or the system gives\n",
               of(fit.host));
  if (!fit.fits)
    return text +
           fmt::format(
               "; {} {}{}\n",
               by_vdnn ? "vDNN's rules leave" : "the least in which the step could run is about",
               of(fit.least),
               fit.seconds_rounded > 0 ? ", and with round_activations it fits" : "");
  text += fmt::format(
      ", {} now and {} on the host\n  predicted: {:.3f} ms instead of {:.3f}, {:.3f} of them "
      "waiting "
      "for copies\n  made by                        bytes  choice         cost ms  because\n",
      of(fit.after), of(fit.host), 1e3 * fit.seconds, 1e3 * fit.seconds_before, 1e3 * fit.waiting);
  for (const MemoryFit::Tensor& t : fit.tensors)
    text += fmt::format("  {:<26}{:>10}  {:<13}{:>9.3f}  {} ({} {})\n", t.made_by, of(t.bytes),
                        t.choice, 1e3 * t.seconds, t.why, t.dtype, t.shape);
  return text;
}

}  // namespace

std::string Plan::explain() const {
  std::string text = "passes\n";
  for (const std::string& note : notes_) text += "  " + note + "\n";
  text += "results\n";
  for (const Pass& pass : inexact_)
    text += fmt::format("  within {} ulp of the eager ops' ({})\n", pass.ulp, pass.name);
  if (inexact_.empty()) text += "  bit for bit those of the eager step\n";
  text += fmt::format(
      "memory\n  {} temporaries, {} of them in place of others, in an arena of {}; {} live at one "
      "time, {} if nothing were shared, "
      "{} "
      "at the peak of the eager step\n",
      memory_.blocks.size(), memory_.in_place, readable(memory_.bytes), readable(memory_.largest),
      readable(memory_.separate), readable(static_cast<size_t>(program_.eager_peak)));
  if (program_.fitted) text += explain_fit(*program_.fitted, is_vdnn(program_.memory_policy));
  if (const RepeatedStats r = launched(); r.queued + r.replayed > 0)
    text += fmt::format(
        "device\n  {} graphs, {} nodes a step; replayed {} times, {} of them with new numbers; "
        "queued launch by launch {} times{}{}\n",
        r.graphs, r.nodes, r.replayed, r.renewed, r.queued, r.why_not.empty() ? "" : ": ",
        r.why_not);
  const Traffic now = traffic_of(program_);
  text += fmt::format("launches: {} instead of {}, {} instead of {} of operands\n", now.launches,
                      program_.recorded_launches, readable(static_cast<size_t>(now.bytes)),
                      readable(static_cast<size_t>(program_.recorded_bytes)));
  text +=
      "  t: a temporary; in, out: of the caller; kept, own: seen by others, made by the step or\n"
      "  before it; host: in the host's memory; * transposed or with gaps\n";
  Names names(program_);
  for (size_t i = 0; i < program_.launches.size(); ++i) {
    const Launch& l = *program_.launches[i];
    std::string reads, writes;
    for (const Operand& o : l.operands())
      if (o.tensor->defined()) {
        std::string& side = o.writes ? writes : reads;
        if (side.size() < 90)
          side += fmt::format(" {}{}{}", names.of(*o.tensor), o.tensor->shape().str(),
                              o.tensor->is_contiguous() ? "" : "*");
        else if (!side.ends_with("..."))
          side += " ...";
      }
    const std::string links = backend::names_of_links(l);
    text += fmt::format("  {:>3} {:<26}{:>10} {} ->{}{}\n", i, l.name(),
                        readable(static_cast<size_t>(bytes_of(l))), reads, writes,
                        links.empty() ? "" : "  of " + links);
  }
  return text;
}

}  // namespace brim::plan
