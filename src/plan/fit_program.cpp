// Activations that nothing uses for a while are moved to pinned memory of the host and fetched
// again behind the launches before their use (vDNN: Rhu et al., "vDNN: virtualized deep neural
// networks for scalable, memory-efficient neural network design", 2016), or computed again (Chen et
// al., "Training deep nets with sublinear memory cost", 2016), or are bf16 meanwhile, whichever for
// each makes the step shortest (fit.h). No bit changes but by the last, which is asked for.
#include "plan/fit_program.h"

#include <brim/core/allocator.h>
#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "core/pinned_memory.h"
#include "core/reclaim.h"
#include "core/runtime.h"
#include "plan/fit_model.h"
#include "plan/fit_rewriting.h"
#include "plan/forecast.h"
#include "plan/memory.h"
#include "plan/vdnn.h"

namespace brim::plan {
namespace {

constexpr int kRounds = 6;  // of solving, until the arena's gaps are allowed for
constexpr int64_t kScratch = int64_t{64} << 20;  // bytes that kernels may ask for besides, at least

/// Bytes of the arena with what a solution moves and makes again.
int64_t arena_with(Program& program, const FitModel& model, const Solution& solution) {
  FitRewriting rewriting(program, model, solution);
  const auto bytes = static_cast<int64_t>(plan_memory(program, true).bytes);
  rewriting.take_back();
  return bytes;
}

/// Of the ways to fit into a limit, the best one whose arena has room; null where none has. `left`:
/// bytes of room beside the arena of the best one of all, below 0 where that has none.
std::optional<Solution> solution_within(Program& program, FitModel& model, int64_t limit,
                                        int64_t room, std::optional<int64_t>& left) {
  model.problem().limit = limit;
  for (std::vector<Choice>& choices : solve(model.problem())) {
    Solution s{.choices = std::move(choices), .schedule = {}};
    s.schedule = schedule(model.problem(), s.choices);
    const int64_t of_this = room - arena_with(program, model, s);
    if (!left) left = of_this;
    if (of_this >= 0) return s;
  }
  return {};
}

/// The arena has gaps, and places that are taken over: the limit is moved until the arena, not the
/// sum of what lives, just fits.
std::optional<Solution> solve_for_arena(Program& program, FitModel& model, int64_t room) {
  double shortest = 0;
  for (const double seconds : model.problem().seconds) shortest += seconds;
  std::optional<Solution> best;
  int64_t limit = room;
  for (int round = 0; round < kRounds; ++round) {
    std::optional<int64_t> left;
    std::optional<Solution> s = solution_within(program, model, limit, room, left);
    if (!left) break;  // nothing fits any more
    if (s && (!best || s->schedule.seconds < best->schedule.seconds)) best = std::move(s);
    if (*left >= 0 && (*left <= room / 100 || best->schedule.seconds <= shortest)) break;
    limit += *left < 0 ? *left + *left / 16 : *left / 2;
  }
  // What fits into less fits into this, too.
  for (int percent = 98; !best && percent >= 50; percent -= 4) {
    std::optional<int64_t> left;
    best = solution_within(program, model, room / 100 * percent, room, left);
    if (!left) break;
  }
  return best;
}

/// The better one of the best that changes no bit and of the best that may round, where it may.
std::optional<Solution> best_solution(Program& program, FitModel& model, int64_t room) {
  model.problem().may_round = false;
  std::optional<Solution> exact = solve_for_arena(program, model, room);
  if (!program.may_round) return exact;
  model.problem().may_round = true;
  std::optional<Solution> rounded = solve_for_arena(program, model, room);
  if (!rounded || (exact && exact->schedule.seconds <= rounded->schedule.seconds)) return exact;
  return rounded;
}

int64_t host_room_of(const Program& program) {
  return std::min(PinnedMemory::of(program.device.kind).room(), program.host_limit);
}

std::string megabytes(int64_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) * 1e-6);
}

/// By the first of vDNN's policies that fits, of those that are asked for. Whether the program is
/// rewritten.
bool follow_vdnn(Program& program, const FitModel& model, MemoryFit& fitted) {
  fitted.seconds_before = fitted.seconds = forecast(program).step;
  for (const auto policy : {MemoryPolicy::vdnn_conv, MemoryPolicy::vdnn_all}) {
    if (program.memory_policy != policy && program.memory_policy != MemoryPolicy::vdnn_dynamic)
      continue;
    const Solution s = vdnn(program, model, policy == MemoryPolicy::vdnn_all);
    fitted.tensors = model.describe(s.choices, policy);
    FitRewriting rewriting(program, model, s);
    const MemoryPlan arena = plan_memory(program, true),
                     on_host = plan_memory(program, true, Role::host);
    fitted.least = static_cast<int64_t>(arena.bytes);
    fitted.host = static_cast<int64_t>(on_host.bytes);
    fitted.fits = fitted.least <= fitted.room;
    fitted.host_is_short = false;
    if (fitted.fits && fitted.host > 0) {
      if (fitted.host <= program.host_limit)
        program.host_room = PinnedMemory::of(program.device.kind).reserve(fitted.host);
      fitted.host_is_short = !program.host_room;
      fitted.fits = !fitted.host_is_short;
    }
    if (fitted.fits) {
      const StepForecast step = forecast(program);
      fitted.after = fitted.least;
      fitted.seconds = step.step;
      fitted.waiting = step.exposed_copies;
      return fitted.host > 0;
    }
    rewriting.take_back();
  }
  fitted.tensors.clear();
  fitted.fits = fitted.before <= fitted.room;
  return false;
}

/// Of a step that fits if it may round; 0 where it does not either.
double seconds_if_rounded(Program& program, FitModel& model, const MemoryFit& fitted) {
  model.problem().may_round = true;
  model.problem().host_limit = host_room_of(program);
  const std::optional<Solution> solution = solve_for_arena(program, model, fitted.room);
  return solution ? solution->schedule.seconds : 0;
}

std::string percent_longer(double seconds, double before) {
  return fmt::format("{:.1f} %", before > 0 ? 100 * (seconds / before - 1) : 0.0);
}

/// The best that the search finds. Whether the program is rewritten.
bool follow_search(Program& program, FitModel& model, MemoryFit& fitted) {
  for (const double s : model.problem().seconds) fitted.seconds_before += s;
  fitted.seconds = fitted.seconds_before;
  model.problem().in_turn = program.memory_policy == MemoryPolicy::in_turn;
  PinnedMemory& host = PinnedMemory::of(program.device.kind);
  int64_t host_room = host_room_of(program);
  for (int round = 0; round < kRounds && !fitted.fits; ++round) {
    model.problem().host_limit = host_room;
    const std::optional<Solution> solution = best_solution(program, model, fitted.room);
    if (!solution) break;
    fitted.tensors = model.describe(solution->choices, program.memory_policy);
    FitRewriting rewriting(program, model, *solution);
    fitted.host = static_cast<int64_t>(plan_memory(program, true, Role::host).bytes);
    fitted.fits = fitted.host == 0 || (fitted.host <= program.host_limit &&
                                       (program.host_room = host.reserve(fitted.host)));
    if (fitted.fits) {
      fitted.seconds = solution->schedule.seconds;
      fitted.waiting = solution->schedule.waiting;
      break;
    }
    // Another plan was faster, or the arena has gaps.
    rewriting.take_back();
    host_room =
        round + 2 < kRounds ? std::min(host_room_of(program), fitted.host - fitted.host / 16) : 0;
  }
  model.problem().may_round = program.may_round;
  fitted.least = least_limit(model.problem());
  if (!fitted.fits) {
    fitted.tensors.clear();
    if (!program.may_round) fitted.seconds_rounded = seconds_if_rounded(program, model, fitted);
    return false;
  }
  fitted.after = static_cast<int64_t>(plan_memory(program, true).bytes);
  return true;
}

/// What was done, in one line.
std::string note_of(const MemoryFit& fitted, bool is_rewritten, bool by_vdnn) {
  if (!is_rewritten && fitted.host_is_short)
    return fmt::format(
        "nothing moved: vDNN's rules need {} of the host, more than its limit or the system gives",
        megabytes(fitted.host));
  if (!is_rewritten && by_vdnn)
    return fmt::format("{} do not fit into {}, nor do the {} that vDNN's rules leave",
                       megabytes(fitted.before), megabytes(fitted.room), megabytes(fitted.least));
  if (!is_rewritten && fitted.seconds_rounded > 0)
    return fmt::format(
        "{} do not fit into {}, nor would less than about {}; with "
        "round_activations they would, {} longer",
        megabytes(fitted.before), megabytes(fitted.room), megabytes(fitted.least),
        percent_longer(fitted.seconds_rounded, fitted.seconds_before));
  if (!is_rewritten)
    return fmt::format("{} do not fit into {}, nor would less than about {}",
                       megabytes(fitted.before), megabytes(fitted.room), megabytes(fitted.least));
  const auto count = [&](Choice choice) {
    return std::ranges::count(fitted.tensors, name(choice), &MemoryFit::Tensor::choice);
  };
  const auto masks = count(Choice::keep_mask);
  return fmt::format(
      "{} instead of {}: {} tensors moved to the host and back, {} computed again{}; predicted to "
      "take {} longer",
      megabytes(fitted.after), megabytes(fitted.before),
      count(Choice::offload) + count(Choice::offload_bf16), count(Choice::recompute),
      masks > 0 ? fmt::format(", {} kept as masks", masks) : "",
      percent_longer(fitted.seconds, fitted.seconds_before));
}

}  // namespace

int64_t room_of(const Program& program) {
  const Device device = program.device;
  const MemoryStats stats = Allocator::of(device).stats();
  // The host's memory is everybody's: what is free there tells little.
  if (device.is_cpu() && stats.limit == 0) return std::numeric_limits<int64_t>::max();
  const auto free = static_cast<int64_t>(runtime(device.kind).memory(device.index).free);
  int64_t room = free + stats.idle;
  if (stats.limit > 0) room = std::min(room, stats.limit - stats.live - stats.cached + stats.idle);
  for (const Storage* storage : program.storages())
    if (const Role role = program.role(*storage); role == Role::output || role == Role::kept)
      room -= static_cast<int64_t>(storage->bytes());
  room -= std::max({program.reserve, room / 50, std::min(kScratch, room / 10)});
  // To 0.1 %: some bytes more or less would have the search end elsewhere.
  room = std::max<int64_t>(room, 0);
  return room - room % static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(room) / 1024 + 1));
}

bool fits(const Program& program) {
  return static_cast<int64_t>(plan_memory(program, true).bytes) <= room_of(program);
}

std::string fit(Program& program) {
  if (!program.may_offload && !program.may_recompute && !program.may_round) return "";
  const auto before = static_cast<int64_t>(plan_memory(program, true).bytes);
  int64_t room = room_of(program);
  if (before > room && reclaim(program.device)) room = room_of(program);  // other plans take turns
  const bool by_vdnn = is_vdnn(program.memory_policy);
  const bool even_if_it_fits = by_vdnn && program.memory_policy != MemoryPolicy::vdnn_dynamic;
  const std::string not_needed =
      program.device.is_cpu()
          ? ""
          : fmt::format("not needed, {} of the {} there are", megabytes(before), megabytes(room));
  if (before <= room && !even_if_it_fits) return not_needed;
  FitModel model(program);
  MemoryFit fitted{.room = room, .before = before, .after = before};
  model.problem().limit = room;
  model.problem().may_round = program.may_round;
  fitted.link_bound = link_bound(model.problem());
  fitted.step_bound = step_bound(model.problem());
  const bool is_rewritten =
      by_vdnn ? follow_vdnn(program, model, fitted) : follow_search(program, model, fitted);
  if (!is_rewritten && fitted.fits && !fitted.host_is_short) return not_needed;  // nothing to move
  program.fitted = std::move(fitted);
  return note_of(*program.fitted, is_rewritten, by_vdnn);
}

}  // namespace brim::plan
