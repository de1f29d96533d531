// The plans of one step, by signature.
#include <brim/plan/compile.h>

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <optional>

#include <brim/autograd/autocast.h>
#include <brim/autograd/autograd.h>
#include <brim/core/tf32.h>

#include "backend/kernel.h"
#include "core/check.h"
#include "core/printable.h"
#include "core/recording.h"
#include "diag/span.h"
#include "nn/modes.h"
#include "ops/memory/copy.h"
#include "plan/first_use.h"
#include "plan/forecast.h"
#include "plan/plan.h"
#include "plan/replays.h"
#include "plan/traffic.h"

namespace brim::plan {
namespace {

thread_local int64_t thread_replays = 0;

/// What a plan is made for.
struct Signature {
  struct Input {
    Shape shape;
    DType dtype;
    Device device;
  };
  std::vector<Input> inputs;
  uint64_t modes;  // of all modules, training or not
  bool gradients;
  DType autocast;
  bool tf32;
  Device made_on;  // what names no device

  bool fits(std::span<const Tensor> tensors) const {
    if (modes != nn::training_modes() || gradients != grad_enabled() ||
        autocast != Autocast::current() || tf32 != Tf32::allowed() || made_on != default_device() ||
        tensors.size() != inputs.size())
      return false;
    for (size_t i = 0; i < tensors.size(); ++i)
      if (tensors[i].shape() != inputs[i].shape || tensors[i].dtype() != inputs[i].dtype ||
          tensors[i].device() != inputs[i].device)
        return false;
    return true;
  }

  /// "inputs (4, 3, 32, 32) f32, (4) i64".
  std::string str() const {
    if (inputs.empty()) return "no inputs";
    std::string text = "inputs";
    for (const Input& i : inputs)
      text +=
          fmt::format("{} {} {}", &i == &inputs.front() ? "" : ",", i.shape.str(), name(i.dtype));
    return text;
  }
};

Signature signature_of(std::span<const Tensor> tensors) {
  Signature s{{},
              nn::training_modes(),
              grad_enabled(),
              Autocast::current(),
              Tf32::allowed(),
              default_device()};
  for (const Tensor& t : tensors) s.inputs.push_back({t.shape(), t.dtype(), t.device()});
  return s;
}

void check_inputs(std::span<const Tensor> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    BRIM_CHECK(inputs[i].defined(), ValueError, "[compile] input {} of the step is undefined", i);
    BRIM_CHECK(
        !inputs[i].requires_grad(), CompileError,
        "[compile] input {} of the step requires a gradient; make it a leaf inside the step, "
        "or detach() it",
        i);
  }
}

/// A recording that failed may have left tensors behind that the step finds now.
void check_computed(const Program& program) {
  for (const auto& launch : program.launches)
    for (const Operand& o : launch->operands())
      BRIM_CHECK(!o.tensor->defined() || !o.tensor->storage()->uncomputed, CompileError,
                 "[compile] '{}' uses a tensor that '{}' made while the step was recorded, and "
                 "that no plan computes; make it before the first step",
                 launch->name(), o.tensor->storage()->uncomputed);
}

}  // namespace

int64_t replays_of_thread() { return thread_replays; }

void check_passes(const std::string& passes) { const PassSelection parsed(passes); }

struct Compiler::State {
  explicit State(CompileOptions o) : options(std::move(o)), passes(options.passes) {
    BRIM_CHECK(options.max_plans >= 1, ValueError, "[compile] max_plans is {}; use 1 or more",
               options.max_plans);
    BRIM_CHECK(!is_vdnn(options.memory_policy) || passes.contains("offload"), ValueError,
               "[compile] the rules of vDNN move activations to the host, which the passes '{}' do "
               "not; add offload, or choose another memory policy",
               options.passes);
  }

  struct Entry {
    Signature signature;
    std::unique_ptr<Plan> plan;
    Plan::Fit fit;  // when it was last asked
  };

  void warn(const std::string& line) const {
    const diag::Span span("warn", diag::Cause::user);
    if (options.warn)
      options.warn(line);
    else
      warn_on_stderr(line);
  }

  /// A plan that fits and is prepared; made where there is none.
  Plan& plan_for(std::span<const Tensor> inputs, const Step& step) {
    outdated += static_cast<int64_t>(std::erase_if(entries, [&](Entry& e) {
      if (!e.signature.fits(inputs)) return false;
      e.fit = e.plan->prepare();
      return e.fit == Plan::Fit::never;
    }));
    if (outdated >= kOften && outdated * 4 > stats.replays && !std::exchange(told_outdated, true))
      warn(fmt::format(
          "[compile] plans of a step were made anew {} times: tensors that they use were replaced "
          "(write them with copy_()), or options of an optimizer with a step() of its own; that "
          "runs no faster than eagerly",
          outdated));
    for (Entry& e : entries)
      if (e.signature.fits(inputs) && e.fit == Plan::Fit::fits) return *e.plan;
    std::unique_ptr<Plan> made = make(inputs, step);
    if (entries.size() >= static_cast<size_t>(options.max_plans)) {
      if (!told_many)
        warn(fmt::format(
            "[compile] a step was compiled for {} signatures (shapes, training modes of "
            "modules, states of gradients and autocast); ever new ones run no faster than eagerly, "
            "the oldest plans are dropped",
            entries.size()));
      told_many = true;
      entries.erase(entries.begin());
    }
    entries.push_back({signature_of(inputs), std::move(made), Plan::Fit::fits});
    return *entries.back().plan;
  }

  std::unique_ptr<Plan> make(std::span<const Tensor> inputs, const Step& step) {
    const diag::Scope scope("compile", diag::Cause::compile);
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    std::unique_ptr<Plan> plan = plan_of(inputs, step);
    BRIM_CHECK(plan->prepare() == Plan::Fit::fits, CompileError,
               "[compile] the step changes the optimizer it uses; do so outside of it");
    ++stats.plans;
    stats.compile_ms += std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    stats.recorded_launches = static_cast<int64_t>(plan->program().recorded_launches);
    stats.launches = static_cast<int64_t>(plan->program().launches.size());
    stats.recorded_operand_bytes = plan->program().recorded_bytes;
    stats.operand_bytes = traffic_of(plan->program()).bytes;
    stats.eager_bytes = plan->program().eager_peak;
    stats.arena_bytes = static_cast<int64_t>(plan->memory().bytes);
    stats.host_bytes = static_cast<int64_t>(plan->host_memory().bytes);
    return plan;
  }

  /// Records until two recordings agree: what differs from one to the next is no constant. Tensors
  /// that the ones before them made, and they find, are computed first.
  std::unique_ptr<Plan> plan_of(std::span<const Tensor> inputs, const Step& step) {
    constexpr int kMax = 4;
    struct Undo {
      std::vector<std::function<void()>> all;
      ~Undo() {
        for (auto i = all.rbegin(); i != all.rend(); ++i) (*i)();
      }
    } undo;
    std::vector<Recording> before;
    Recording last = record(step, inputs, options.keep_gradients, &undo.all);
    std::string differs = "nothing";
    for (int i = 1; i < kMax && !differs.empty(); ++i) {
      before.push_back(
          std::exchange(last, record(step, inputs, options.keep_gradients, &undo.all)));
      differs = difference(before.back().program, last.program);
    }
    BRIM_CHECK(
        differs.empty(), CompileError,
        "[compile] the step does not do the same twice: {}; give what changes to the step as "
        "an input, or keep it in a tensor",
        differs);
    before.pop_back();
    for (Recording& first : before)
      compute_first_use(std::move(first), last.program, inputs, passes);
    check_computed(last.program);
    last.program.progress = options.progress;
    last.program.fixed_layouts = options.fixed_layouts;
    last.program.memory_policy = options.memory_policy;
    last.program.reserve = reserve;
    last.program.host_limit = host_limit;
    last.program.host_refused = host_refused;
    return std::make_unique<Plan>(std::move(last), passes);
  }

  /// Whether a plan that is made anew should be tried, where one found too little room.
  bool leave_more_room(const Plan& plan) {
    constexpr int kMax = 6;
    if (plan.lacks_host_memory()) {
      constexpr int kHostMax = 8;
      if (++host_was_missed > kHostMax) return false;
      const auto wanted = static_cast<int64_t>(plan.host_memory().bytes);
      host_refused = std::min(host_refused, wanted);
      host_limit = host_was_missed < kHostMax ? std::min(host_limit, wanted - wanted / 8) : 0;
      if (host_was_missed == 1)
        warn(fmt::format("[compile] the host has no {:.1f} MiB to pin; the step moves less there",
                         static_cast<double>(wanted) / (1 << 20)));
    } else {
      if (!plan.wanted_reserve() || ++room_was_missed > kMax) return false;
      reserve = std::max(reserve, *plan.wanted_reserve());
    }
    std::erase_if(entries, [&](const Entry& e) { return e.plan.get() == &plan; });
    return true;
  }

  std::span<const Tensor> run_eagerly(std::span<const Tensor> inputs, const Step& step, int count,
                                      const std::function<void()>& after_each) {
    for (int i = 0; i < count; ++i) {
      const diag::Span span("eager step", diag::Cause::user);
      ++stats.eager_steps;
      eager_results = step(inputs);
      for (Tensor& t : eager_results) t = t.detach();
      if (after_each) after_each();
    }
    return eager_results;
  }

  struct Running {
    explicit Running(std::atomic<bool>& flag) : flag(flag) {
      BRIM_CHECK(!flag.exchange(true), ValueError,
                 "[compile] the step is called while it runs: not from after_each(), nor by two "
                 "threads");
    }
    ~Running() { flag = false; }
    std::atomic<bool>& flag;
  };

  /// Up to `count` steps by the plan.
  Plan::Repeated replay(Plan& plan, std::span<const Tensor> inputs, int count,
                        const std::function<void()>& after_each) {
    const bool dense = std::all_of(inputs.begin(), inputs.end(),
                                   [](const Tensor& t) { return t.is_contiguous(); });
    const Plan::Repeated done = [&] {
      if (dense && !plan.writes_into(inputs)) return plan.replay(inputs, count, after_each);
      std::vector<Tensor> copies;
      for (const Tensor& t : inputs) {
        copies.push_back(Tensor::empty(t.shape(), t.dtype(), t.device()));
        ops::copy_elements(t.detach(), copies.back());
      }
      return plan.replay(copies, count, after_each);
    }();
    stats.replays += done.steps;
    thread_replays += done.steps;
    return done;
  }

  CompileOptions options;
  PassSelection passes;
  std::vector<Entry> entries;
  int64_t reserve = 0;                                         // Program::reserve
  int64_t host_limit = std::numeric_limits<int64_t>::max();    // Program::host_limit
  int64_t host_refused = std::numeric_limits<int64_t>::max();  // Program::host_refused
  int host_was_missed = 0;
  int room_was_missed = 0;
  static constexpr int64_t kOften = 8;
  int64_t outdated = 0;  // plans that were dropped
  bool told_many = false, told_outdated = false;
  CompileStats stats;
  std::vector<Tensor> eager_results;
  std::atomic<bool> running = false;
};

Compiler::Compiler(CompileOptions options) : state_(std::make_unique<State>(std::move(options))) {}
Compiler::~Compiler() = default;
Compiler::Compiler(Compiler&&) noexcept = default;
Compiler& Compiler::operator=(Compiler&&) noexcept = default;

std::span<const Tensor> Compiler::run(std::span<const Tensor> inputs, const Step& step, int count,
                                      const std::function<void()>& after_each) {
  State& s = *state_;
  BRIM_CHECK(count >= 1, ValueError, "[compile] repeat() of {} steps; use 1 or more", count);
  // Inside another compiled step this one is a part of it; anomalies are looked for op by op.
  if (recording || backend::anomaly_mode || !s.stats.fell_back.empty())
    return s.run_eagerly(inputs, step, count, after_each);
  const diag::Span span("compiled step", diag::Cause::dispatch);
  check_inputs(inputs);
  const State::Running guard(s.running);
  while (true) {
    Plan* plan = nullptr;
    try {
      plan = &s.plan_for(inputs, step);
    } catch (const CompileError& error) {
      if (!s.options.fall_back) throw;
      s.stats.fell_back = error.what();
      s.warn(s.stats.fell_back + "; the step runs eagerly");
      return s.run_eagerly(inputs, step, count, after_each);
    }
    try {
      const Plan::Repeated done = s.replay(*plan, inputs, count, after_each);
      s.room_was_missed = 0;
      count -= done.steps;
      if (count == 0) return done.results;
    } catch (const OutOfMemory&) {
      if (!s.leave_more_room(*plan)) throw;
    }
  }
}

StepForecast Compiler::forecast(std::span<const Tensor> inputs, const Step& step,
                                KernelTimes times) {
  refuse_in_recording("forecast", "it makes a plan of its own; ask outside of the step");
  check_inputs(inputs);
  const State::Running guard(state_->running);
  Plan& plan = state_->plan_for(inputs, step);
  std::vector<double> measured;
  if (times == KernelTimes::measured) {
    std::vector<Tensor> own;  // dense, and written instead of the caller's
    for (const Tensor& t : inputs) own.push_back(t.detach().clone().contiguous());
    measured = plan.measure(own);
  }
  StepForecast forecast = plan::forecast(plan.program(), measured);
  forecast.arena_bytes = static_cast<int64_t>(plan.memory().bytes);
  forecast.host_bytes = static_cast<int64_t>(plan.host_memory().bytes);
  return forecast;
}

std::string Compiler::explain() const {
  const State& s = *state_;
  if (!s.stats.fell_back.empty()) return "runs eagerly: " + s.stats.fell_back + "\n";
  if (s.entries.empty()) return "no plan yet: call the step\n";
  std::string text;
  for (size_t k = s.entries.size(); k-- > 0;) {
    const State::Entry& e = s.entries[k];
    if (s.entries.size() > 1)
      text += fmt::format("plan {} of {}, for {}:\n", k + 1, s.entries.size(), e.signature.str());
    text += e.plan->explain();
  }
  return text;
}

std::optional<MemoryFit> Compiler::memory_fit() const {
  const State& s = *state_;
  if (!s.stats.fell_back.empty() || s.entries.empty()) return {};
  return s.entries.back().plan->program().fitted;
}

PlanTimeline Compiler::timeline() const {
  const State& s = *state_;
  if (!s.stats.fell_back.empty() || s.entries.empty()) return {};
  return s.entries.back().plan->timeline();
}

CompileStats Compiler::stats() const {
  CompileStats stats = state_->stats;
  for (const State::Entry& e : state_->entries) {
    const RepeatedStats launched = e.plan->launched();
    stats.graph_replays += launched.replayed;
    stats.graph_nodes = launched.nodes;
  }
  return stats;
}

}  // namespace brim::plan
