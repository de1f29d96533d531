#include "plan/plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <set>

#include <brim/autograd/autograd.h>

#include "autograd/node.h"
#include "core/context.h"
#include "core/runtime.h"
#include "diag/span.h"
#include "formula/optim.h"
#include "plan/stream_order.h"

namespace brim::plan {
namespace {

/// A handle to the same elements over other memory.
Tensor over(const Tensor& t, const Ref<Storage>& storage) {
  Tensor other = t.alias(t.shape(), t.strides(), t.offset());
  other.impl()->storage = storage;
  return other;
}

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
  for (const Pass& pass : all_passes()) {
    if (!passes.contains(pass.name)) {
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
  if (memory_.bytes > 0) {
    arena_ = Storage::allocate(memory_.bytes, program_.device);
    for (const Block& b : memory_.blocks)
      const_cast<Storage*>(b.storage)->rebind(static_cast<char*>(arena_->data()) + b.offset);
  }
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
  if (!order.has_side_stream()) return;
  side_ = SideStream::create(program_.device);
  // On the side stream before each launch.
  std::vector<size_t> queued(program_.launches.size() + 1);
  for (size_t i = 0; i < program_.launches.size(); ++i) {
    queued[i + 1] = queued[i] + (program_.launches[i]->on_side_stream ? 1 : 0);
    const int last = order.waits_for(i);
    waits_for_.push_back(last < 0 ? 0 : queued[static_cast<size_t>(last) + 1]);
  }
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

/// A caller who keeps every loss would have it at a new address each time, where no graph of the
/// device can be replayed: the plan then writes to memory of its own, and hands out copies.
bool Plan::is_copied(const Result& r) const {
  constexpr int kOften = 3;
  return r.held >= kOften && r.handles == 1 &&
         backend::launch_policy(program_.device.kind).keeps_addresses;
}

/// Results that somebody still holds, or that another stream may still read, keep their values;
/// others are overwritten.
void Plan::renew_results() {
  copies_.clear();
  for (Result& r : result_storages_) {
    if (is_copied(r)) continue;
    bool held = r.memory->use_count() != r.handles + 1 || r.memory->is_used_elsewhere();
    for (const Tensor& t : results_)
      held |= t.defined() && t.storage() == r.memory && t.impl()->use_count() != 1;
    r.held = held ? r.held + 1 : 0;
    if (held) {
      const Ref<Storage> fresh = Storage::allocate(r.storage->bytes(), program_.device);
      for (size_t i = 0; i < results_.size(); ++i)
        if (results_[i].defined() && results_[i].storage() == r.memory)
          results_[i] = over(program_.outputs[i], fresh);
      r.memory = fresh;
    }
    r.storage->rebind(r.memory->data());
  }
  // What a caller did to a handle (requires_grad) is not for the next one.
  for (Tensor& t : results_)
    if (t.defined() && t.impl()->autograd) t = over(t, t.storage());
}

std::span<const Tensor> Plan::handed_out() {
  const NoGrad guard;
  for (const Result& r : result_storages_) {
    if (!is_copied(r)) continue;
    if (copies_.empty()) copies_ = results_;
    for (Tensor& t : copies_)
      if (t.defined() && t.storage() == r.memory) t = t.clone();
  }
  return copies_.empty() ? results_ : copies_;
}

/// Addresses that the launches of this replay are made with. Everything else but the numbers is as
/// it was when the plan was made.
void Plan::sign(std::span<const Tensor> inputs) {
  signature_.clear();
  const auto add = [&](const void* address) {
    signature_.push_back(reinterpret_cast<uintptr_t>(address));
  };
  for (const Tensor& t : inputs) add(t.raw());
  for (const Result& r : result_storages_) add(r.memory->data());
  for (const Ref<Storage>& memory : {scratch_memory_, side_scratch_memory_})
    add(memory ? memory->data() : nullptr);
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

void Plan::draw_keys() {
  for (const Program::Draws& d : program_.draws) {
    const RandomKey base = d.generator->state();
    for (Launch* launch : drawing_) {
      if (launch->draw->generator != d.generator) continue;
      RandomKey& key = *launch->option<RandomKey>();
      key.seed = base.seed;
      key.offset = base.offset + launch->draw->index;
    }
    d.generator->set_state({base.seed, base.offset + d.count});
  }
}

void Plan::take_parameters() {
  for (const RepeatedWork::Parameter& n : parameters_) {
    const size_t at = values_.size();
    values_.resize(at + n.words);
    std::memcpy(&values_[at], n.argument, n.words * sizeof(uint64_t));
  }
}

bool Plan::queue(int step, const Context& context) {
  size_t words = 0;
  for (const RepeatedWork::Parameter& n : parameters_) words += n.words;
  const uint64_t* from = values_.data() + static_cast<size_t>(step) * words;
  for (const RepeatedWork::Parameter& n : parameters_) {
    std::memcpy(const_cast<void*>(n.argument), from, n.words * sizeof(uint64_t));
    from += n.words;
  }
  if (!side_) {
    for (const auto& launch : program_.launches) launch->run(context);
    return scratch_.max_bytes() <= scratch_.bytes();
  }
  queue_on_both(context);
  return scratch_.max_bytes() <= scratch_.bytes() &&
         side_->scratch().max_bytes() <= side_->scratch().bytes();
}

void Plan::queue_on_both(const Context& context) {
  const Stream& main = context.stream;
  try {
    for (size_t i = 0; i < program_.launches.size(); ++i) {
      Launch& launch = *program_.launches[i];
      if (launch.on_side_stream) {
        side_->queue([&launch](const Context& side) { launch.run(side); }, main);
        continue;
      }
      if (waits_for_[i] > 0) side_->wait_for(waits_for_[i], main);
      launch.run(context);
    }
  } catch (...) {
    // What is on its way uses the plan's memory.
    try {
      side_->finish(main);
    } catch (...) {  // the first error is the one to tell of
    }
    throw;
  }
  side_->finish(main);
}

/// The arena is one, and goes back to the allocator on the stream it was made on: others wait for
/// that stream before they use it, and it waits for them.
void Plan::enter(const Stream& stream) {
  if (stream == home_) return;
  Event before;
  before.record(home_);
  before.wait(stream);
}
void Plan::leave(const Stream& stream) {
  if (stream == home_) return;
  Event after;
  after.record(stream);
  after.wait(home_);
}

/// What the host does after each step.
void Plan::count_step() {
  for (Launch* launch : committed_) launch->commit();
  for (const backend::HostState& state : host_) state.commit();
  for (const LeafGradient& g : gradients_)
    if (g.leaf->autograd && !g.leaf->autograd->grad.is_same(g.after))
      g.leaf->autograd->grad = g.after;
}

/// What it does after the last one that was queued.
void Plan::finish() {
  // What others see stays theirs; the caller gets a copy.
  const NoGrad guard;
  for (size_t i = 0; i < results_.size(); ++i)
    if (program_.role(*program_.outputs[i].storage()) == Role::kept)
      results_[i] = program_.outputs[i].clone();
  for (const Ref<Storage>& s : written_) s->bump_version();
  rebind_scratch(scratch_, scratch_memory_);
  if (side_) rebind_scratch(side_->scratch(), side_scratch_memory_);
}

void Plan::rebind_scratch(ScratchStack& scratch, Ref<Storage>& memory) {
  if (scratch.max_bytes() <= scratch.bytes()) return;
  const StreamGuard home(home_);
  memory = Storage::allocate(scratch.max_bytes(), program_.device);
  scratch.rebind(memory->data(), memory->bytes());
}

Plan::Repeated Plan::replay(std::span<const Tensor> inputs, int steps,
                            const std::function<void()>& after_each) {
  for (size_t i = 0; i < inputs.size(); ++i) program_.inputs[i].storage()->rebind(inputs[i].raw());
  renew_results();
  for (size_t i = 0; i < results_.size(); ++i)
    for (size_t k = 0; k < inputs.size(); ++k)
      if (program_.outputs[i].storage() == program_.inputs[k].storage()) {
        const Tensor& t = program_.outputs[i];
        results_[i] = inputs[k].alias(t.shape(), t.strides(), inputs[k].offset() + t.offset());
      }
  values_.clear();
  int taken = 0;             // steps whose parameters are known
  std::exception_ptr error;  // of the caller's; the steps that are counted are done before it flies
  const auto called_back = [&] {
    try {
      if (after_each) {
        const diag::Span span("after a step", diag::Cause::user);
        after_each();
      }
      return taken == steps || prepare() == Fit::fits;
    } catch (...) {
      error = std::current_exception();
      return false;
    }
  };
  while (true) {
    draw_keys();
    take_parameters();
    if (++taken == steps) break;
    count_step();
    if (!called_back()) break;
  }
  const Context context{Stream::current(program_.device), &scratch_};
  sign(inputs);
  enter(context.stream);
  runtime(program_.device.kind)
      .launch_as_one(context.stream,
                     {.signature = signature_,
                      .parameters = parameters_,
                      .values = values_,
                      .steps = taken,
                      .queue = [&](int step) { return queue(step, context); }},
                     graphs_);
  leave(context.stream);
  if (taken == steps) {
    count_step();
    (void)called_back();
  }
  finish();
  if (error) std::rethrow_exception(error);
  return {handed_out(), taken};
}

RepeatedStats Plan::launched() const { return runtime(program_.device.kind).repeated(graphs_); }

}  // namespace brim::plan
