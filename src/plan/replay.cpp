// A plan's replay: its arenas, what changes from step to step, its launches on their streams, its
// results.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include <brim/autograd/autograd.h>

#include "autograd/node.h"
#include "core/context.h"
#include "core/runtime.h"
#include "diag/span.h"
#include "plan/before_step.h"
#include "plan/fit_program.h"
#include "plan/plan.h"

namespace brim::plan {
namespace {

/// While one lives, nobody takes the arena away.
class ArenaInUse {
 public:
  explicit ArenaInUse(std::atomic<bool>& flag) : flag_(flag) {
    while (flag_.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
  }
  ~ArenaInUse() { flag_.store(false, std::memory_order_release); }
  ArenaInUse(const ArenaInUse&) = delete;
  ArenaInUse& operator=(const ArenaInUse&) = delete;

 private:
  std::atomic<bool>& flag_;
};

OutOfMemory with_more(const OutOfMemory& e, const std::string& what) {
  return {fmt::format("{}; {}", e.what(), what), e.requested, e.free, e.cached};
}

std::string does_not_fit(const MemoryFit& fit, bool by_vdnn, int64_t host_refused) {
  const auto mib = [](int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  if (fit.host_is_short)
    return fmt::format(
        "the rules of vDNN move {:.1f} MiB to the host, more than {}; choose another memory policy",
        mib(fit.host), fit.host >= host_refused ? "it pins" : "its limit leaves: raise that");
  return fmt::format(
      "{}, the step's temporaries need about {:.1f} MiB, and have {:.1f}, beside "
      "what its kernels ask for{}{}",
      by_vdnn ? "moved by the rules of vDNN" : "even with all moved or computed again that can be",
      mib(fit.least), mib(fit.room),
      host_refused == std::numeric_limits<int64_t>::max()
          ? ""
          : fmt::format("; the host did not pin {:.1f} MiB", mib(host_refused)),
      fit.seconds_rounded > 0
          ? fmt::format("; with some rounded to bf16 meanwhile (the pass +round_activations) they "
                        "fit, {:.1f} % slower",
                        100 * (fit.seconds_rounded / fit.seconds_before - 1))
          : "");
}

void bind(const MemoryPlan& memory, const Storage& arena) {
  for (const Block& b : memory.blocks)
    const_cast<Storage*>(b.storage)->rebind(static_cast<char*>(arena.data()) + b.offset);
}

}  // namespace

/// Made by the first replay: what only forecasts or explains a step needs none.
void Plan::take_arena() {
  if (arena_ || memory_.bytes == 0) return;
  try {
    const StreamGuard home(home_);
    arena_ = Storage::allocate(memory_.bytes, program_.device, /*alone=*/true);
  } catch (const OutOfMemory& e) {
    if (!program_.fitted || program_.fitted->fits) throw;
    throw with_more(
        e, does_not_fit(*program_.fitted, is_vdnn(program_.memory_policy), program_.host_refused));
  }
  bind(memory_, *arena_);
}

void Plan::take_host_arena() {
  if (host_arena_ || host_memory_.bytes == 0) return;
  program_.host_room = nullptr;
  try {
    host_arena_ = Storage::pinned(host_memory_.bytes, program_.device.kind);
  } catch (const OutOfMemory& e) {
    lacks_host_memory_ = may_be_made_anew();
    throw with_more(e,
                    "it is for activations that the device has no room for; raise --memory-limit, "
                    "take smaller batches, or leave the pass out (--passes -offload)");
  }
  bind(host_memory_, *host_arena_);
}

bool Plan::give_back(Device device) noexcept {
  if (device != program_.device || is_arena_used_.exchange(true, std::memory_order_acquire))
    return false;
  const bool has_arena = arena_ != nullptr;
  arena_ = nullptr;
  is_arena_used_.store(false, std::memory_order_release);
  return has_arena;
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
  add(arena_ ? arena_->data() : nullptr);
  add(scratch_memory_ ? scratch_memory_->data() : nullptr);
  for (const Ref<Storage>& memory : side_scratch_memory_) add(memory ? memory->data() : nullptr);
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
  if (measured_) {
    run_timed(context);
    return false;
  }
  if (!has_side_streams_) {
    for (const auto& launch : program_.launches) launch->run(context);
    return scratch_.max_bytes() <= scratch_.bytes();
  }
  queue_on_all(context);
  return scratch_.max_bytes() <= scratch_.bytes() &&
         std::ranges::all_of(side_, [](const auto& side) {
           return !side || side->scratch().max_bytes() <= side->scratch().bytes();
         });
}

void Plan::queue_on_all(const Context& context) {
  const Stream& main = context.stream;
  std::exception_ptr error;  // the first one is the one to tell of
  try {
    for (size_t i = 0; i < program_.launches.size(); ++i) {
      Launch& launch = *program_.launches[i];
      for (const Wait& wait : waits_[i]) wait.of->wait_for(wait.count, main);
      if (SideStream* const side = side_[static_cast<size_t>(launch.stream)].get())
        side->queue([&launch](const Context& beside) { launch.run(beside); }, main);
      else
        launch.run(context);
    }
  } catch (...) {
    error = std::current_exception();
  }
  // What is on its way uses the plan's memory.
  for (const auto& side : side_) try {
      if (side) side->finish(main);
    } catch (...) {
      if (!error) error = std::current_exception();
    }
  if (error) std::rethrow_exception(error);
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
  ++counted_;
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
  for (size_t i = 0; i < side_.size(); ++i)
    if (side_[i]) rebind_scratch(side_[i]->scratch(), side_scratch_memory_[i]);
}

void Plan::rebind_scratch(ScratchStack& scratch, Ref<Storage>& memory) {
  if (scratch.max_bytes() <= scratch.bytes()) return;
  const StreamGuard home(home_);
  try {
    memory = Storage::allocate(scratch.max_bytes(), program_.device);
  } catch (const OutOfMemory&) {
    return;  // kernels go on asking for theirs
  }
  scratch.rebind(memory->data(), memory->bytes());
}

/// Alone: other ranks make their calls once, and a plan with other launches would make others.
bool Plan::may_be_made_anew() const {
  return (program_.may_offload || program_.may_recompute) &&
         (!program_.fitted || program_.fitted->fits) &&
         std::ranges::none_of(program_.launches,
                              [](const auto& l) { return l->communication.has_value(); });
}

/// Kernels may ask for more beside the arena than there is.
bool Plan::is_tight() const {
  return may_be_made_anew() &&
         (program_.fitted || static_cast<int64_t>(memory_.bytes) > room_of(program_) / 2);
}

Plan::Repeated Plan::replay(std::span<const Tensor> inputs, int steps,
                            const std::function<void()>& after_each) {
  take_host_arena();  // a plan with a smaller arena would need more of the host
  const bool is_first = !std::exchange(has_run_, true);
  std::optional<BeforeStep> before;
  if (is_first && is_tight()) {
    try {
      before.emplace(program_, written_);
      steps = 1;
    } catch (const std::bad_alloc&) {  // then it has one try
    }
  }
  try {
    return replay_now(inputs, steps, after_each);
  } catch (const OutOfMemory& e) {
    const bool is_done = counted_ > counted_before_;  // then the error is after_each's
    if (is_done || !may_be_made_anew()) throw;
    if (!has_begun_) {
      wanted_reserve_ = program_.reserve;
    } else if (before) {
      size_t scratch = scratch_.max_bytes();
      for (const auto& side : side_) scratch += side ? side->scratch().max_bytes() : 0;
      wanted_reserve_ = std::max(static_cast<int64_t>(scratch) + e.requested + e.requested / 4,
                                 program_.reserve + program_.reserve / 2);
      {
        const ArenaInUse guard(is_arena_used_);
        arena_ = nullptr;
      }
      before->put_back();
    }
    throw;
  }
}

Plan::Repeated Plan::replay_now(std::span<const Tensor> inputs, int steps,
                                const std::function<void()>& after_each) {
  const ArenaInUse guard(is_arena_used_);
  counted_before_ = counted_;
  has_begun_ = false;
  take_arena();
  has_begun_ = true;
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

}  // namespace brim::plan
