// Compiled steps: a whole training step recorded, optimised and replayed.
//
//   auto step = compile([&](const Tensor& x, const Tensor& y) {
//     optimizer.zero_grad();
//     Tensor loss = cross_entropy(net(x), y);
//     loss.backward();
//     optimizer.step();
//     return loss;
//   });
//   for (...) meter.add(step(x, y));
//
// The first call with a signature (shapes, dtypes and device of the inputs, training mode of the
// modules, autocast) runs the function to record it, without computing anything; that call and all
// later ones replay the plan. So what the function does besides (counting, printing) happens only
// then, numbers of the host that it passes to ops are constants of the plan, and tensors it reaches
// through its captures are taken as they were: write them with copy_(); one that is replaced has a
// new plan made. Learning rates and other options of brim's optimizers are read anew at each step;
// dropout goes on drawing. One thread at a time may call it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <brim/core/tensor.h>
#include <brim/plan/memory_fit.h>

namespace brim {

/// Options of compile().
struct CompileOptions {
  /// "" or "all": all passes; "-layout,-linear_relu": all but these; "dead_code,memory": these
  /// alone; "exact": those with which the step has the bits of the eager one; "+round_activations":
  /// all, and that one, which rounds what has no room and is none of all.
  std::string passes = {};
  /// Gradients that the step clears and makes anew stay in .grad() afterwards. Otherwise they live
  /// inside the step only, which lets the plan fold their use into their making.
  bool keep_gradients = false;
  /// What cannot be compiled runs eagerly after a warning, instead of throwing CompileError.
  bool fall_back = false;
  /// Past so many plans of one step there is a warning, and the oldest ones go.
  int max_plans = 8;
  /// Memory layouts are chosen by a rule (nhwc where there are large convolutions) instead of by
  /// measurement: the same on every machine, and for a step that computes a batch in several parts.
  bool fixed_layouts = false;
  /// What decides which tensors are moved to the host or computed again, where the step does not
  /// fit; by the rules of vDNN also where it does.
  MemoryPolicy memory_policy = MemoryPolicy::shortest;
  /// Told how much is done while memory layouts are measured: seconds for a large network whose
  /// layers this machine never timed before.
  std::function<void(double fraction)> progress = {};
  /// Told one line each; empty: standard error.
  std::function<void(const std::string& line)> warn = {};
};

/// What a compiled step did so far.
struct CompileStats {
  int64_t plans = 0;        ///< made, those that went included
  int64_t replays = 0;      ///< steps run by a plan
  int64_t eager_steps = 0;  ///< steps run as they are written, after a fall back
  std::string fell_back;    ///< why; "": it did not
  double compile_ms = 0;    ///< spent on recording and passes
  int64_t recorded_launches = 0, launches = 0;  ///< of the newest plan, before and after passes
  /// What these read and write: the bytes of their operands, each counted once a launch.
  int64_t recorded_operand_bytes = 0, operand_bytes = 0;
  int64_t eager_bytes = 0, arena_bytes = 0;  ///< its temporaries' peak, eagerly and in the arena
  int64_t host_bytes = 0;  ///< of pinned memory of the host, for what is moved there meanwhile
  /// Launches of a CUDA graph, and kernels, copies and fills in a step of the newest plan's one: of
  /// the plans that are kept; 0 on other devices.
  int64_t graph_replays = 0, graph_nodes = 0;
};

/// Where a forecast has the times of kernels from.
enum class KernelTimes : uint8_t {
  modelled,  ///< a model of the device: nothing is run
  measured   ///< the device, which runs them
};

/// What a compiled step would take. Times are in seconds.
struct StepForecast {
  double step = 0;            ///< of a whole step
  double compute = 0;         ///< of its kernels
  double communication = 0;   ///< of its collectives
  double exposed = 0;         ///< the part of them that no kernel hides
  double copies = 0;          ///< to the host and back, of what has no room on the device
  double exposed_copies = 0;  ///< the part of them that no kernel hides
  int64_t arena_bytes = 0;    ///< of its temporaries
  int64_t host_bytes = 0;     ///< of the host, for what is copied there
  int64_t kernels = 0, collectives = 0;  ///< launches of each kind
};

/// The newest plan of a compiled step, for those who draw it.
struct PlanTimeline {
  /// A kernel's launch in a step.
  struct Launch {
    std::string name;                  ///< of its kernel
    double operations = 0, bytes = 0;  ///< as in diag::OpTime
  };
  /// A tensor that lives inside the step, from launch `first` to launch `last`.
  struct Temporary {
    std::string shape, dtype;       ///< of the tensor
    int64_t offset = 0, bytes = 0;  ///< of the arena
    int64_t first = 0, last = 0;    ///< launches, from 0
    bool in_place = false;          ///< it takes over the bytes of another one
  };
  std::vector<Launch> launches;        ///< in the order in which they run
  std::vector<Temporary> temporaries;  ///< that share the arena
  int64_t arena_bytes = 0;             ///< of the arena
};

namespace plan {

/// Throws ValueError if `passes` is no selection of passes (see CompileOptions::passes).
void check_passes(const std::string& passes);

/// The part of a compiled step that does not depend on its type.
class Compiler {
 public:
  /// What is compiled, whatever its type was.
  using Step = std::function<std::vector<Tensor>(std::span<const Tensor> inputs)>;

  explicit Compiler(CompileOptions options);  ///< throws ValueError for unknown passes
  ~Compiler();
  ///@{
  /// Moves; what is left behind runs nothing.
  Compiler(Compiler&&) noexcept;
  Compiler& operator=(Compiler&&) noexcept;
  ///@}

  /// Runs it `count` times, and `after_each` (may be empty if count is 1) on the host after each.
  /// The results, of the last one, stay valid until the next call. `step` is called when a plan is
  /// to be made.
  std::span<const Tensor> run(std::span<const Tensor> inputs, const Step& step, int count = 1,
                              const std::function<void()>& after_each = {});
  /// Of a step with these inputs. It is recorded, and its plan made, where there is none.
  StepForecast forecast(std::span<const Tensor> inputs, const Step& step,
                        KernelTimes times = KernelTimes::modelled);
  std::string explain() const;    ///< as CompiledStep::explain()
  PlanTimeline timeline() const;  ///< of the newest plan; empty without one
  /// As CompiledStep::memory_fit().
  std::optional<MemoryFit> memory_fit() const;
  CompileStats stats() const;  ///< what it did so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace plan

/// A step that compile() made: it is recorded at its first call with inputs of some shapes, dtypes
/// and devices, and replayed after that.
template <class F>
class CompiledStep {
 public:
  /// For compile().
  CompiledStep(F step, CompileOptions options)
      : step_(std::make_unique<F>(std::move(step))), compiler_(std::move(options)) {}

  /// Runs the step. Inputs may not require a gradient. Throws CompileError where the step does what
  /// a plan cannot repeat (reading a value on the host, for one), and whatever the step throws. The
  /// results have no history.
  template <class... Inputs>
  requires(std::is_convertible_v<const Inputs&, const Tensor&>&&...) auto operator()(
      const Inputs&... inputs) {
    return run(1, {}, inputs...);
  }

  /// Runs the step `count` times on the same inputs, as one launch where the device takes them so
  /// (one CUDA graph): for steps that find their data themselves, on the device. `after_each` is
  /// called on the host after each step, where learning rates may be changed for the next; it may
  /// not touch tensors, the steps have not run yet. Returns what the last step returned: results
  /// of the others are overwritten, so keep sums in tensors that the step writes.
  template <class... Inputs>
  requires(std::is_convertible_v<const Inputs&, const Tensor&>&&...) auto repeat(
      int count, const std::function<void()>& after_each, const Inputs&... inputs) {
    return run(
        count, after_each ? after_each : [] {}, inputs...);
  }

  /// What the step would take, without running it (but for tensors that it makes on first use): on
  /// a virtual accelerator by its profile (SimOptions::profile), elsewhere by what such devices can
  /// do, roughly. Collectives take what their group's links do (dist::simulated_group). Throws what
  /// a call without fall_back does; CompileError inside of another step.
  template <class... Inputs>
  requires(std::is_convertible_v<const Inputs&, const Tensor&>&&...) StepForecast
      forecast(const Inputs&... inputs) {
    return forecast_by(KernelTimes::modelled, inputs...);
  }

  /// The same with kernels that are measured on the device. On the CPU the step runs on copies of
  /// these inputs for half a second, which is tens of thousands of small steps: weights and what
  /// else it writes are then those of so many steps, while random numbers go on as if none had been
  /// drawn. On other devices each kernel runs by itself, on memory of its own. Collectives are not
  /// run, and take what their group's links do. Throws what forecast() and the kernels do.
  template <class... Inputs>
  requires(std::is_convertible_v<const Inputs&, const Tensor&>&&...) StepForecast
      measured_forecast(const Inputs&... inputs) {
    return forecast_by(KernelTimes::measured, inputs...);
  }

  /// Of each plan in use, the newest first: what each pass did to it, its launches and its memory.
  std::string explain() const { return compiler_.explain(); }
  /// Empty without a plan.
  PlanTimeline timeline() const { return compiler_.timeline(); }
  /// How the newest plan was fitted into its device's memory; empty where it fits as it is and its
  /// MemoryPolicy has nothing moved.
  std::optional<MemoryFit> memory_fit() const { return compiler_.memory_fit(); }
  CompileStats stats() const { return compiler_.stats(); }  ///< what it did so far

 private:
  template <class... Inputs>
  StepForecast forecast_by(KernelTimes times, const Inputs&... inputs) {
    using Result = std::invoke_result_t<F&, decltype(static_cast<const Tensor&>(inputs))...>;
    const std::array<Tensor, sizeof...(Inputs)> list{inputs...};
    const auto step = [f = step_.get()](std::span<const Tensor> t) {
      return call<Result>(*f, t, std::make_index_sequence<sizeof...(Inputs)>());
    };
    return compiler_.forecast(list, step, times);
  }

  template <class... Inputs>
  auto run(int count, const std::function<void()>& after_each, const Inputs&... inputs) {
    using Result = std::invoke_result_t<F&, decltype(static_cast<const Tensor&>(inputs))...>;
    constexpr size_t kCount = sizeof...(Inputs);
    const std::array<Tensor, kCount> list{inputs...};
    // A pointer's worth of capture, so that std::function does not allocate.
    const auto step = [f = step_.get()](std::span<const Tensor> t) {
      return call<Result>(*f, t, std::make_index_sequence<kCount>());
    };
    const std::span<const Tensor> results = compiler_.run(list, step, count, after_each);
    if constexpr (std::is_same_v<Result, Tensor>)
      return Tensor(results[0]);
    else if constexpr (!std::is_void_v<Result>)
      return std::vector<Tensor>(results.begin(), results.end());
  }

  template <class Result, size_t... I>
  static std::vector<Tensor> call(F& step, std::span<const Tensor> t, std::index_sequence<I...>) {
    if constexpr (std::is_void_v<Result>) {
      step(t[I]...);
      return {};
    } else if constexpr (std::is_same_v<Result, Tensor>) {
      return {step(t[I]...)};
    } else {
      return step(t[I]...);
    }
  }

  std::unique_ptr<F> step_;
  plan::Compiler compiler_;
};

/// Compiles a function of tensors that returns a Tensor, a std::vector<Tensor> or nothing. Throws
/// ValueError for unknown passes.
template <class F>
CompiledStep<std::decay_t<F>> compile(F&& step, CompileOptions options = {}) {
  return {std::forward<F>(step), std::move(options)};
}

}  // namespace brim
