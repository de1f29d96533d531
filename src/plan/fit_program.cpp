// Activations that nothing uses for a while are moved to pinned memory of the host and fetched
// again behind the launches before their use (vDNN: Rhu et al., "vDNN: virtualized deep neural
// networks for scalable, memory-efficient neural network design", 2016), or computed again (Chen et
// al., "Training deep nets with sublinear memory cost", 2016), whichever of both for each makes the
// step shortest (fit.h). No bit changes.
#include "plan/fit_program.h"

#include <brim/core/allocator.h>
#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "backend/host_copy.h"
#include "core/pinned_memory.h"
#include "core/reclaim.h"
#include "core/runtime.h"
#include "plan/buckets.h"
#include "plan/fit.h"
#include "plan/memory.h"
#include "plan/recomputation.h"
#include "plan/stream_order.h"

namespace brim::plan {
namespace {

constexpr int64_t kLeastBytes = 4096;  // bytes worth a thought
constexpr int kRounds = 6;             // of solving, until the arena's gaps are allowed for
constexpr int64_t kScratch = int64_t{64} << 20;  // bytes that kernels may ask for besides, at least

double seconds_of_copy(const Program& program, const Ref<Storage>& storage, bool to_host) {
  Tensor on_device = as_bytes(storage);
  Tensor on_host = as_bytes(Storage::wrap(nullptr, storage->bytes(), Device::cpu(), {}));
  return to_host ? backend::offload_kernel()
                       .launch(program.device, DType::u8, on_device, on_host)
                       ->estimated_seconds()
                 : backend::fetch_kernel()
                       .launch(program.device, DType::u8, on_host, on_device)
                       ->estimated_seconds();
}

/// A program as a problem of times and bytes.
class Model {
 public:
  explicit Model(Program& program) : program_(program), uses_(program) {
    problem_.seconds.reserve(program.launches.size());
    for (const auto& launch : program.launches)
      problem_.seconds.push_back(launch->stream != PlanStream::main ? 0
                                 : launch->communication            ? seconds_of(*launch)
                                                                    : launch->estimated_seconds());
    for (const auto& launch : program.launches)
      for (const Operand& o : launch->operands())
        if (o.tensor->defined())
          storages_.try_emplace(o.tensor->storage().get(), o.tensor->storage());
    list_groups();
    list_activations();
  }

  FitProblem& problem() { return problem_; }
  /// The storage that an activation is, and the launch that makes it.
  const Ref<Storage>& storage(size_t activation) const {
    return storages_.at(groups_[activation].storage);
  }
  int maker(size_t activation) const { return groups_[activation].maker; }
  const Activation& activation(size_t t) const { return problem_.activations[t]; }
  const Recomputation& recomputation(size_t activation) const {
    return groups_[activation].recomputation;
  }

  /// What people want to know of them.
  void describe(const std::vector<Choice>& choices, MemoryFit& fitted) const;

 private:
  /// Storages of which one takes over the bytes of the one before it.
  struct Group {
    std::vector<const Storage*> members;
    int first, last;
    const Storage* storage = nullptr;  // the one that is not used for a while
    int maker = -1;
    Recomputation recomputation;
  };

  void list_groups() {
    const MemoryPlan memory = plan_memory(program_, true);
    const size_t launches = program_.launches.size();
    std::vector<int64_t> change(launches + 1, 0);
    std::unordered_map<size_t, size_t> of_block;
    for (size_t b = 0; b < memory.blocks.size(); ++b) {
      const Block& block = memory.blocks[b];
      if (block.in_place_of >= 0) continue;
      if (const auto bytes = static_cast<int64_t>(block.bytes); bytes < kLeastBytes) {
        change[static_cast<size_t>(block.first)] += bytes;
        change[static_cast<size_t>(block.last) + 1] -= bytes;
        continue;
      }
      of_block[b] = groups_.size();
      groups_.push_back({.members = {block.storage}, .first = block.first, .last = block.last});
      problem_.activations.push_back({.bytes = static_cast<int64_t>(block.bytes)});
    }
    for (const Block& block : memory.blocks)
      if (block.in_place_of >= 0)
        if (const auto at = of_block.find(static_cast<size_t>(block.in_place_of));
            at != of_block.end())
          groups_[at->second].members.push_back(block.storage);
    int64_t sum = 0;
    for (size_t i = 0; i < launches; ++i) problem_.others.push_back(sum += change[i]);
    for (size_t g = 0; g < groups_.size(); ++g)
      for (const Storage* storage : groups_[g].members) group_of_[storage] = g;
  }

  void list_activations() {
    std::vector<double> starts{0};
    for (const double s : problem_.seconds) starts.push_back(starts.back() + s);
    const bool can_move = program_.may_offload && !program_.device.is_cpu() &&
                          backend::offload_kernel().exists(program_.device, DType::u8) &&
                          backend::fetch_kernel().exists(program_.device, DType::u8);
    for (size_t g = 0; g < groups_.size(); ++g) {
      Group& group = groups_[g];
      Activation& a = problem_.activations[g];
      a.made_by = group.first;
      a.last_before = a.first_after = a.last_use = group.last;
      std::vector<std::pair<int, const Storage*>> uses;
      bool beside = false;  // another stream uses it
      for (const Storage* storage : group.members)
        for (const std::vector<int>* list : {&uses_.writers(*storage), &uses_.readers(*storage)})
          for (const int i : *list) {
            uses.emplace_back(i, storage);
            beside |= program_.launches[static_cast<size_t>(i)]->stream != PlanStream::main;
          }
      std::ranges::sort(uses);
      double longest = 0;
      for (size_t u = 1; u < uses.size() && !beside; ++u) {
        const auto [before, storage] = uses[u - 1];
        const auto [after, same] = uses[u];
        const double gap =
            starts[static_cast<size_t>(after)] - starts[static_cast<size_t>(before) + 1];
        if (storage != same || after <= before + 1 || gap < longest) continue;
        longest = gap;
        a.last_before = before;
        a.first_after = after;
        group.storage = storage;
      }
      if (!group.storage) {
        group.storage = group.members.back();
        continue;
      }
      group.maker = uses_.writers(*group.storage).empty() ? -1 : uses_.writers(*group.storage)[0];
      if (can_move) {
        const Ref<Storage>& storage = storages_.at(group.storage);
        a.to_host = seconds_of_copy(program_, storage, true);
        a.to_device = seconds_of_copy(program_, storage, false);
      }
      if (program_.may_recompute && group.maker >= 0) list_recomputation(group, a);
    }
  }

  void list_recomputation(Group& group, Activation& a) {
    Recomputation recomputation(program_, uses_, group.maker, *group.storage, a.first_after);
    if (!recomputation) return;
    std::vector<int> made_of;
    for (const Storage* storage : recomputation.reads()) {
      const auto at = group_of_.find(storage);
      if (at == group_of_.end()) continue;  // small, or not the plan's
      // Its bytes are another one's by then.
      if (groups_[at->second].members.back() != storage) return;
      made_of.push_back(static_cast<int>(at->second));
    }
    a.recompute = recomputation.seconds();
    a.made_of = std::move(made_of);
    group.recomputation = std::move(recomputation);
  }

  Program& program_;
  const Uses uses_;
  FitProblem problem_;
  std::vector<Group> groups_;
  std::unordered_map<const Storage*, size_t> group_of_;
  std::unordered_map<const Storage*, Ref<Storage>> storages_;
};

/// A program with the launches that choices ask for, until that is taken back.
class Rewriting {
 public:
  Rewriting(Program& program, const Model& model, const std::vector<Choice>& choices,
            const Schedule& schedule)
      : program_(program), added_(program.launches.size()) {
    for (size_t t = 0; t < choices.size(); ++t)
      if (choices[t] != Choice::keep) move(model, t, choices[t], schedule.trips[t]);
    std::vector<std::unique_ptr<Launch>> launches;
    const auto add = [&](std::unique_ptr<Launch> launch) {
      new_.insert(launch.get());
      launches.push_back(std::move(launch));
    };
    for (size_t i = 0; i < added_.size(); ++i) {
      const auto by_number = [](const auto& entry) { return entry.first; };
      std::ranges::stable_sort(added_[i].fetches, {}, by_number);
      std::ranges::stable_sort(added_[i].again, {}, by_number);
      const size_t first = launches.size();
      for (auto& [_, fetch] : added_[i].fetches) add(std::move(fetch));
      for (auto& [_, again] : added_[i].again) {
        redirect(*again, i, /*is_new=*/true);
        add(std::move(again));
      }
      redirect(*program.launches[i], i, /*is_new=*/false);
      launches.push_back(std::move(program.launches[i]));
      waiting_.push_back(launches[first].get());
      waiting_.back()->waits_for = added_[i].released;
      for (auto& offload : added_[i].offloads) add(std::move(offload));
    }
    program.launches = std::move(launches);
  }

  void take_back() {
    for (const auto& [tensor, before] : redirected_) *tensor = before;
    for (Launch* launch : waiting_) launch->waits_for.clear();
    for (const Tensor& t : made_) program_.forget(*t.storage());
    std::erase_if(program_.launches, [&](const auto& l) { return new_.contains(l.get()); });
  }

 private:
  /// By launch: what stands between it and the one before, and behind it.
  struct Added {
    std::vector<std::pair<int, std::unique_ptr<Launch>>> fetches;  // and by which launch needed
    std::vector<std::pair<int, std::unique_ptr<Launch>>> again;    // and which launch made it first
    std::vector<std::unique_ptr<Launch>> offloads;
    std::vector<const Launch*> released;  // copies that are waited for before all of these
  };
  struct Moved {
    int from;  // the launch
    Ref<Storage> storage;
  };

  void move(const Model& model, size_t t, Choice choice, const Schedule::Trip& trip) {
    const auto at = [&](int launch) -> Added& { return added_[static_cast<size_t>(launch)]; };
    const Ref<Storage>& storage = model.storage(t);
    Tensor back;
    if (choice == Choice::recompute) {
      auto again = model.recomputation(t).make(program_, back);
      for (const Operand& o : again->operands())
        if (o.writes && o.tensor->defined()) made_.push_back(*o.tensor);
      at(trip.needed_by).again.emplace_back(model.maker(t), std::move(again));
    } else {
      Tensor host = program_.make_on_host(storage->bytes());
      back = as_bytes(Storage::wrap(nullptr, storage->bytes(), program_.device, {}));
      program_.set_role(*back.storage(), Role::temporary);
      made_.insert(made_.end(), {host, back});
      auto out =
          backend::offload_kernel().launch(program_.device, DType::u8, as_bytes(storage), host);
      auto in = backend::fetch_kernel().launch(program_.device, DType::u8, host, back);
      out->stream = PlanStream::to_host;
      in->stream = PlanStream::to_device;
      if (trip.released_by >= 0) at(trip.released_by).released.push_back(out.get());
      at(trip.fetched_at).fetches.emplace_back(trip.needed_by, std::move(in));
      at(model.activation(t).last_before).offloads.push_back(std::move(out));
    }
    moved_[storage.get()] = {trip.needed_by, back.storage()};
  }

  /// Has a launch use what came back, where it stands behind that.
  void redirect(Launch& launch, size_t position, bool is_new) {
    for (const Operand& o : launch.operands()) {
      if (!o.tensor->defined()) continue;
      const auto found = moved_.find(o.tensor->storage().get());
      if (found == moved_.end() || static_cast<int>(position) < found->second.from) continue;
      if (!is_new) redirected_.emplace_back(o.tensor, *o.tensor);
      *o.tensor = over(*o.tensor, found->second.storage);
    }
  }

  Program& program_;
  std::vector<Added> added_;
  std::unordered_map<const Storage*, Moved> moved_;
  std::vector<std::pair<Tensor*, Tensor>> redirected_;  // and what they were
  std::vector<Launch*> waiting_;
  std::vector<Tensor> made_;
  std::unordered_set<const Launch*> new_;
};

struct Solution {
  std::vector<Choice> choices;
  Schedule schedule;
};

/// Of the ways to fit into a limit, the best one whose arena has room; null where none has. `left`:
/// bytes of room beside its arena, or beside that of the best one.
std::optional<Solution> solution_within(Program& program, Model& model, int64_t limit, int64_t room,
                                        std::optional<int64_t>& left) {
  model.problem().limit = limit;
  for (std::vector<Choice>& choices : solve(model.problem())) {
    Solution s{.choices = std::move(choices), .schedule = {}};
    s.schedule = schedule(model.problem(), s.choices);
    Rewriting rewriting(program, model, s.choices, s.schedule);
    const int64_t of_this = room - static_cast<int64_t>(plan_memory(program, true).bytes);
    rewriting.take_back();
    if (!left || of_this >= 0) left = of_this;
    if (of_this >= 0) return s;
  }
  return {};
}

/// The arena has gaps, and places that are taken over: the limit is moved until the arena, not the
/// sum of what lives, just fits.
std::optional<Solution> solve_for_arena(Program& program, Model& model, int64_t room) {
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

std::string megabytes(int64_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) * 1e-6);
}

/// Why a tensor is where it is, for people.
std::string why(const Activation& a, Choice choice) {
  if (choice == Choice::offload)
    return a.recompute == kImpossible ? "what makes it cannot be run again"
                                      : "its copies cost less than to compute it again";
  if (choice == Choice::recompute)
    return a.to_host == kImpossible ? "nothing is copied to the host"
                                    : "to compute it again costs less than its copies";
  if (a.to_host == kImpossible && a.recompute == kImpossible)
    return "it can neither be moved nor computed again";
  return "there is room for it";
}

void Model::describe(const std::vector<Choice>& choices, MemoryFit& fitted) const {
  for (size_t t = 0; t < choices.size(); ++t) {
    const Activation& a = problem_.activations[t];
    const Group& group = groups_[t];
    if (group.maker < 0) continue;  // it has no gap
    const Launch& maker = *program_.launches[static_cast<size_t>(group.maker)];
    MemoryFit::Tensor& tensor = fitted.tensors.emplace_back();
    tensor.made_by = maker.name();
    for (const Operand& o : maker.operands())
      if (o.tensor->defined() && o.tensor->storage().get() == group.storage) {
        tensor.shape = o.tensor->shape().str();
        tensor.dtype = name(o.tensor->dtype());
      }
    tensor.bytes = a.bytes;
    tensor.choice = name(choices[t]);
    tensor.why = why(a, choices[t]);
    if (choices[t] == Choice::offload) tensor.seconds = a.to_host + a.to_device;
    if (choices[t] == Choice::recompute) tensor.seconds = a.recompute;
  }
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
  return std::max<int64_t>(room, 0);
}

bool fits(const Program& program) {
  return static_cast<int64_t>(plan_memory(program, true).bytes) <= room_of(program);
}

std::string fit(Program& program) {
  if (!program.may_offload && !program.may_recompute) return "";
  const auto before = static_cast<int64_t>(plan_memory(program, true).bytes);
  int64_t room = room_of(program);
  if (before > room && reclaim(program.device)) room = room_of(program);  // other plans take turns
  if (before <= room)
    return program.device.is_cpu() ? ""
                                   : fmt::format("not needed, {} of the {} there are",
                                                 megabytes(before), megabytes(room));
  Model model(program);
  MemoryFit fitted{.room = room, .before = before, .after = before};
  for (const double s : model.problem().seconds) fitted.seconds_before += s;
  model.problem().limit = room;
  fitted.link_bound = link_bound(model.problem());
  PinnedMemory& host = PinnedMemory::of(program.device.kind);
  std::optional<Solution> solution;
  std::optional<Rewriting> rewriting;
  int64_t host_room = host.room();
  for (int round = 0; round < kRounds; ++round) {
    model.problem().host_limit = host_room;
    solution = solve_for_arena(program, model, room);
    if (!solution) break;
    rewriting.emplace(program, model, solution->choices, solution->schedule);
    fitted.host = static_cast<int64_t>(plan_memory(program, true, Role::host).bytes);
    if (fitted.host == 0 || (program.host_room = host.reserve(fitted.host))) break;
    // Another plan was faster, or the arena has gaps.
    rewriting->take_back();
    rewriting.reset();
    solution.reset();
    host_room = round + 2 < kRounds ? std::min(host.room(), fitted.host - fitted.host / 16) : 0;
  }
  fitted.least = least_limit(model.problem());
  fitted.fits = solution.has_value();
  if (!solution) {
    program.fitted = std::move(fitted);
    return fmt::format("{} do not fit into {}, nor would less than about {}", megabytes(before),
                       megabytes(room), megabytes(program.fitted->least));
  }
  model.describe(solution->choices, fitted);
  fitted.after = static_cast<int64_t>(plan_memory(program, true).bytes);
  fitted.seconds = solution->schedule.seconds;
  fitted.waiting = solution->schedule.waiting;
  int offloaded = 0, again = 0;
  for (const Choice c : solution->choices) {
    offloaded += c == Choice::offload ? 1 : 0;
    again += c == Choice::recompute ? 1 : 0;
  }
  std::string note = fmt::format(
      "{} instead of {}: {} tensors moved to the host and back, {} computed again; predicted to "
      "take {:.1f} % longer",
      megabytes(fitted.after), megabytes(before), offloaded, again,
      fitted.seconds_before > 0 ? 100 * (fitted.seconds / fitted.seconds_before - 1) : 0.0);
  program.fitted = std::move(fitted);
  return note;
}

}  // namespace brim::plan
