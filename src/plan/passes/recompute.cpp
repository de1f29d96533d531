// Makes the result of a normalisation with its ReLU a second time where the backward pass reads it,
// instead of keeping it meanwhile: what it is made of is kept anyway. Only as long as that lowers
// the memory that the plan takes, and on CPUs, where it costs little; elsewhere, and where that is
// not enough, what is computed again is chosen together with what is moved (fit.h).
#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "core/same_elements.h"
#include "plan/fit_program.h"
#include "plan/memory.h"
#include "plan/pass.h"
#include "plan/recomputation.h"

namespace brim::plan {
namespace {

constexpr size_t kLeast = size_t{1} << 20;  // bytes worth a launch

/// A launch whose result nobody reads from `from` up to `to`.
struct Candidate {
  int launch, from, to;
  size_t bytes;
};

/// The launch during which the most bytes live.
int peak_of(const MemoryPlan& memory, size_t launches) {
  std::vector<int64_t> change(launches + 1, 0);
  for (const Block& b : memory.blocks) {
    if (b.in_place_of >= 0) continue;  // the block whose place it takes lives as long
    change[static_cast<size_t>(b.first)] += static_cast<int64_t>(b.bytes);
    change[static_cast<size_t>(b.last) + 1] -= static_cast<int64_t>(b.bytes);
  }
  int64_t live = 0, most = -1;
  int at = 0;
  for (size_t i = 0; i < launches; ++i) {
    live += change[i];
    if (live <= most) continue;
    most = live;
    at = static_cast<int>(i);
  }
  return at;
}

std::optional<Candidate> candidate(const Program& program, const Uses& uses, int index, int peak) {
  const Launch& l = *program.launches[static_cast<size_t>(index)];
  if (!is(l, "batch_norm_relu")) return std::nullopt;
  const Tensor &x = l.operand("x"), &y = l.operand("y");
  if (!program.temporary(y) || !covers_storage(y)) return std::nullopt;
  Candidate c{index, index, -1, y.storage()->bytes()};
  for (const int r : uses.readers(y)) {
    if (r <= peak)
      c.from = r;
    else if (c.to < 0)
      c.to = r;
  }
  // What it is made of must live beyond the gap anyway.
  const std::vector<int>& needs = uses.readers(x);
  if (c.to < 0 || c.from >= peak || c.bytes < kLeast || needs.empty() || needs.back() < c.to ||
      !Recomputation(program, uses, index, *y.storage(), c.to))
    return std::nullopt;
  return c;
}

/// The largest one that bridges the peak.
std::optional<Candidate> largest(const Program& program, const MemoryPlan& memory) {
  const Uses uses(program);
  const int peak = peak_of(memory, program.launches.size());
  std::optional<Candidate> best;
  for (size_t i = 0; i < program.launches.size(); ++i)
    if (const auto c = candidate(program, uses, static_cast<int>(i), peak))
      if (!best || c->bytes > best->bytes) best = c;
  return best;
}

/// A launch that was made a second time, and whose result was read before.
struct Repeat {
  const Launch* again;
  Tensor result, first_result;
};

/// Lets the launches from `first` on use the elements of `to` where they use those of `from`.
void redirect(Program& program, size_t first, const Tensor& from, const Tensor& to) {
  for (size_t i = first; i < program.launches.size(); ++i)
    for (const Operand& o : program.launches[i]->operands())
      if (o.tensor->defined() && o.tensor->storage() == from.storage())
        *o.tensor = to.alias(o.tensor->shape(), o.tensor->strides(), o.tensor->offset());
}

Repeat repeat(Program& program, const Candidate& c) {
  const Tensor y = program.launches[static_cast<size_t>(c.launch)]->operand("y");
  Tensor again;
  std::unique_ptr<Launch> launch =
      Recomputation(program, Uses(program), c.launch, *y.storage(), c.to).make(program, again);
  redirect(program, static_cast<size_t>(c.to), y, again);
  const auto made = program.launches.insert(program.launches.begin() + c.to, std::move(launch));
  return {made->get(), again, y};
}

void take_back(Program& program, const Repeat& r) {
  std::erase_if(program.launches, [&](const auto& l) { return l.get() == r.again; });
  redirect(program, 0, r.result, r.first_result);
}

std::string normalise_twice(Program& program) {
  MemoryPlan memory = plan_memory(program, true);
  const size_t before = memory.bytes;
  size_t least = before, kept = 0;
  std::vector<Repeat> repeats;
  while (const std::optional<Candidate> next = largest(program, memory)) {
    repeats.push_back(repeat(program, *next));
    memory = plan_memory(program, true);
    if (memory.bytes >= least) continue;  // it may take several, where peaks are equally high
    least = memory.bytes;
    kept = repeats.size();
  }
  for (; repeats.size() > kept; repeats.pop_back()) take_back(program, repeats.back());
  return kept ? fmt::format("{} normalisations made twice: {:.1f} instead of {:.1f} MB", kept,
                            static_cast<double>(least) * 1e-6, static_cast<double>(before) * 1e-6)
              : "";
}

}  // namespace

std::string recompute(Program& program) {
  if (!backend::launch_policy(program.device.kind).trades_time_for_memory || !fits(program))
    return "";  // then what is computed again is chosen together with what is moved
  return normalise_twice(program);
}

}  // namespace brim::plan
