#include "plan/plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <map>
#include <set>
#include <utility>

#include <brim/autograd/autograd.h>

#include "autograd/node.h"
#include "core/runtime.h"
#include "formula/optim.h"
#include "plan/stream_order.h"

namespace brim::plan {
namespace {

/// One entry per tensor.
void drop_repeats(std::vector<Seen>& seen) {
  std::sort(seen.begin(), seen.end(),
            [](const Seen& a, const Seen& b) { return a.impl.get() < b.impl.get(); });
  seen.erase(std::unique(seen.begin(), seen.end(),
                         [](const Seen& a, const Seen& b) { return a.impl == b.impl; }),
             seen.end());
  // Views made for one launch end with it; nobody can change them any more.
  std::erase_if(seen, [](const Seen& s) { return s.impl->use_count() == 1; });
}

}  // namespace

Plan::Plan(Recording recording, const PassSelection& passes)
    : program_(std::move(recording.program)),
      gradients_(std::move(recording.gradients)),
      seen_(std::move(recording.seen)),
      kept_(std::move(recording.kept)),
      host_(std::move(recording.host)) {
  drop_repeats(seen_);
  allow(program_, passes);
  for (const Pass& pass : all_passes()) {
    if (!runs(pass, passes)) {
      notes_.push_back(fmt::format("{}: off", pass.name));
      continue;
    }
    const std::string note = pass.run(program_);
    if (pass.ulp > 0 && !note.empty()) inexact_.push_back(pass);
    notes_.push_back(fmt::format("{}: {}", pass.name, note.empty() ? "nothing to do" : note));
  }
  allocate(passes.contains(kMemoryPass));
  list_waits();
  for (const auto& launch : program_.launches) {
    if (launch->refresh) refreshed_.push_back(launch.get());
    if (launch->commit) committed_.push_back(launch.get());
    if (launch->draw) drawing_.push_back(launch.get());
    for (const Operand& o : launch->operands()) {
      if (!o.writes || !o.tensor->defined()) continue;
      const Ref<Storage>& s = o.tensor->storage();
      if (program_.role(*s) == Role::external &&
          std::find(written_.begin(), written_.end(), s) == written_.end())
        written_.push_back(s);
    }
  }
  list_parameters();
  list_holdings();
  start_reclaiming();
}

Plan::~Plan() {
  stop_reclaiming();
  if (!host_arena_) return;
  try {  // copies may be under way
    host_arena_->last_copy.record(home_);
  } catch (const std::exception&) {
    host_arena_->keep_alive(host_arena_);  // nobody knows when they are done
  }
}

/// What was there before and others hold as well, and what the step gives to others. A constant
/// that it makes anew each time is not among that, nor are gradients, which prepare() knows.
void Plan::list_holdings() {
  struct Handles {
    uint32_t own = 0;
    std::map<TensorImpl*, uint32_t> shared;
  };
  std::map<Storage*, Handles> found;
  for (const Seen& s : seen_) {
    Handles& h = found[s.storage.get()];
    ++h.own;  // that of the list itself
    ++h.shared[s.impl.get()];
  }
  for (const LeafGradient& g : gradients_)
    for (auto& [storage, h] : found)
      if (const auto at = h.shared.find(g.leaf.get()); at != h.shared.end()) ++at->second;
  std::set<const TensorImpl*> met;  // of the plan alone
  const auto count = [&](const Tensor& t) {
    if (t.defined() && met.insert(t.impl()).second)
      if (const auto at = found.find(t.storage().get()); at != found.end()) ++at->second.own;
  };
  for (const auto& launch : program_.launches)
    for (const Operand& o : launch->operands()) count(*o.tensor);
  for (const Tensor& t : program_.outputs) count(t);
  for (const Tensor& t : results_) count(t);  // made anew now and then, over the same storage
  for (const Ref<Storage>& s : written_)
    if (const auto at = found.find(s.get()); at != found.end()) ++at->second.own;
  for (const LeafGradient& g : gradients_)
    for (const Tensor& t : {g.before, g.after})
      if (t.defined()) found.erase(t.storage().get());
  for (auto& [storage, h] : found) {
    if (program_.role(*storage) != Role::external) continue;
    Holding holding(Ref<Storage>(storage), h.own, std::move(h.shared));
    if (holding.is_held_by_others()) holdings_.push_back(std::move(holding));
  }
  for (const auto& [storage, twin] : kept_)
    holdings_.emplace_back(storage, 1, std::map<TensorImpl*, uint32_t>());
}

void Plan::allocate(bool share) {
  home_ = Stream::current(program_.device);
  memory_ = plan_memory(program_, share);
  host_memory_ = plan_memory(program_, share, Role::host);
  for (const auto& [storage, twin] : kept_) {
    give_memory(*storage);
    twin->rebind(storage->data());
  }
  std::map<const Storage*, size_t> places;
  for (const Tensor& t : program_.outputs) {
    const Role role = program_.role(*t.storage());
    if (role == Role::input) {  // handed through
      results_.emplace_back();
      continue;
    }
    if (role == Role::kept) {
      results_.emplace_back();
      continue;
    }
    if (role != Role::output) {
      results_.push_back(t.alias(t.shape(), t.strides(), t.offset()));
      continue;
    }
    const auto [at, fresh] = places.try_emplace(t.storage().get(), result_storages_.size());
    if (fresh)
      result_storages_.push_back(
          {t.storage(), Storage::allocate(t.storage()->bytes(), program_.device), 0});
    Result& r = result_storages_[at->second];
    ++r.handles;
    results_.push_back(over(t, r.memory));
  }
}

void Plan::list_waits() {
  const StreamOrder order(program_);
  has_side_streams_ = order.has_side_streams();
  if (!has_side_streams_) return;
  std::vector<size_t> queued(program_.launches.size());  // on its stream, it included
  std::array<size_t, backend::kPlanStreams> count{};
  for (size_t i = 0; i < program_.launches.size(); ++i) {
    const PlanStream stream = program_.launches[i]->stream;
    queued[i] = ++count[static_cast<size_t>(stream)];
    if (std::unique_ptr<SideStream>& side = side_[static_cast<size_t>(stream)];
        stream != PlanStream::main && !side)
      side = SideStream::create(program_.device, stream);
    std::vector<Wait>& waits = waits_.emplace_back();
    for (const int last : order.waits_for(i)) {
      const auto met = static_cast<size_t>(last);
      waits.push_back(
          {side_[static_cast<size_t>(program_.launches[met]->stream)].get(), queued[met]});
    }
  }
}

/// Where the launches keep what changes from step to step.
void Plan::list_parameters() {
  const auto add = [&](const auto* option, const Launch& launch) {
    static_assert(sizeof(*option) % sizeof(uint64_t) == 0);
    parameters_.push_back({option, sizeof(*option) / sizeof(uint64_t), launch.name()});
  };
  for (Launch* launch : drawing_) add(launch->option<RandomKey>(), *launch);
  for (Launch* launch : refreshed_)
    if (const auto* params = launch->option<formula::StepParams>()) add(params, *launch);
}

Plan::Fit Plan::prepare() {
  for (const Seen& s : seen_)
    if (s.impl->storage != s.storage ||
        (s.impl->autograd && s.impl->autograd->requires_grad) != s.requires_grad)
      return Fit::never;
  // A variable holds another tensor by now (of another plan's, for one): only the function itself
  // can find it, or assign to it again.
  for (const Holding& h : holdings_)
    if (!h.is_held_by_others()) return Fit::never;
  for (const backend::HostState& state : host_)
    if (!state.unchanged()) return Fit::never;
  for (const LeafGradient& g : gradients_) {
    if (g.cleared) continue;  // one that the step throws away may be any
    const Tensor now = g.leaf->autograd ? g.leaf->autograd->grad : Tensor();
    if (now.defined() != g.before.defined() ||
        (now.defined() && now.storage() != g.before.storage()))
      return Fit::not_now;
  }
  for (Launch* launch : refreshed_)
    if (!launch->refresh(*launch)) return Fit::never;
  return Fit::fits;
}

bool Plan::writes_into(std::span<const Tensor> inputs) const {
  const auto overlap = [](const Storage& a, const Storage& b) {
    const auto begin = [](const Storage& s) { return reinterpret_cast<uintptr_t>(s.data()); };
    return begin(a) < begin(b) + b.bytes() && begin(b) < begin(a) + a.bytes();
  };
  for (const Tensor& t : inputs) {
    for (const Ref<Storage>& s : written_)
      if (overlap(*t.storage(), *s)) return true;
    for (const auto& [s, twin] : kept_)
      if (overlap(*t.storage(), *s)) return true;
  }
  return false;
}

RepeatedStats Plan::launched() const { return runtime(program_.device.kind).repeated(graphs_); }

}  // namespace brim::plan
