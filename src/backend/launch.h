// A launch that can be repeated: a kernel with its arguments. Recording a step makes a list of
// them; the passes of a plan rewrite that list, and replaying it runs them in order.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include <brim/core/tensor.h>

#include "backend/kernel_slot.h"
#include "backend/launch_policy.h"
#include "core/recording.h"

namespace brim::backend {

class Launch;

/// Runs a call, or hands it to the policy of the context's device, and measures it.
void run_call(const Context& context, const KernelSlot& slot, DType dtype, const Call& call);

/// One tensor among a launch's arguments. Those of a span stand one after the other.
struct Operand {
  Tensor* tensor;    ///< the launch's own handle; undefined for an argument left out
  bool writes;       ///< it may be read as well
  uint8_t argument;  ///< which name of the kernel's declaration it has
  bool listed;       ///< it is one of a span
};

/// What a collective takes of what connects the ranks.
struct Communication {
  double latency = 0;           ///< seconds of one, however little it moves
  double seconds_per_byte = 0;  ///< of the operands that are reduced
  double waiting = 1;           ///< the share of it that other work can hide
  double seconds(double bytes) const { return latency + bytes * seconds_per_byte; }
  /// How the collective is cut, in all ranks the same: what rank 0 said when the first plan with it
  /// was made, or "" if ranks call others. Empty where the link was not measured.
  std::function<std::string(const std::string& text)> settle;
};

/// The queues of a plan, each in order. What is not on the main one runs beside it.
enum class PlanStream : uint8_t {
  main,
  collectives,
  to_host,  ///< copies of what is not needed for a while
  to_device
};
inline constexpr int kPlanStreams = 4;

/// What a step reads and changes on the host without a launch of its own to tell of it.
struct HostState {
  std::function<bool()> unchanged;  ///< whether what was read is as the recording met it
  std::function<void()> commit;     ///< changes it as one step does
  std::function<void()> undo;       ///< puts it back to before the recording
};

/// Listens to launches too. The only kind of listener there is.
class LaunchRecorder : public RecordingListener {
 public:
  virtual void launched(std::unique_ptr<Launch> launch) = 0;
  virtual Launch& last_launch() = 0;
  /// Has the host's state put back when the recording ends, in whatever way.
  virtual void at_end(std::function<void()> undo) = 0;
  /// Has the plan look at it before each step. It is put back when the plan is made: until then
  /// each recording goes on where the last one ended, so that what depends on it differs.
  virtual void uses(HostState state) = 0;
  /// What a launch keeps of one of its tensors.
  virtual Tensor kept(const Tensor& t) = 0;

 protected:
  ~LaunchRecorder() = default;
};

inline LaunchRecorder* launch_recorder() { return static_cast<LaunchRecorder*>(recording); }

class Launch {
 public:
  Launch(const KernelSlot& slot, Device device, DType dtype, AnyFunction function,
         std::unique_ptr<extend::KeptArguments> arguments);
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  const char* name() const { return slot_.name; }
  Device device() const { return device_; }
  DType dtype() const { return dtype_; }
  Work work() const { return slot_.work; }

  /// The tensors among the arguments, in their order.
  std::span<const Operand> operands() const { return operands_; }
  /// Those of one name of the kernel's declaration: one, or as many as a span has. Throws Error if
  /// there is no such name.
  std::span<const Operand> operands(std::string_view name) const;
  /// The tensor of that name.
  const Tensor& operand(std::string_view name) const { return *operands(name)[0].tensor; }
  const Tensor& operand(size_t i) const { return *operands_[i].tensor; }
  /// What the declaration says of an operand.
  const OperandTraits& traits(const Operand& o) const;
  /// The name of the operand that the device's kernel converts; "" for none.
  std::string_view converted() const { return slot_.converted[static_cast<size_t>(device_.kind)]; }

  /// The first argument of type T that is no tensor, or null.
  template <class T>
  T* option() {
    return static_cast<T*>(arguments_->option(typeid(T)));
  }
  template <class T>
  const T* option() const {
    return const_cast<Launch*>(this)->option<T>();
  }

  /// How many elements the lists of a launch have that does the same with each: an optimizer's
  /// step. Its spans are as long, or several times as long. 0 without lists.
  size_t elements() const;
  /// The tensors of element `i`, and those that all elements share.
  std::vector<Operand> element(size_t i) const;
  /// Takes elements, in rising order, out of all lists.
  void drop_elements(std::span<const size_t> gone);

  /// Runs the kernel, or queues it where the device has queues.
  void run(const Context& context) {
    run_call(context, slot_, dtype_, {function_, *arguments_, work()});
  }
  /// Whether kernel, dtype, device and all arguments but the tensors are equal.
  bool same_options(const Launch& other) const;
  /// Another one that does the same with the same memory.
  std::unique_ptr<Launch> clone() const;
  /// About how long it takes, where nobody has measured it: by the roofline of its device, and on a
  /// CPU by that of common cores.
  double estimated_seconds() const;
  /// What it works on.
  diag::OpCall op_call() const;

  /// Renews options that change from step to step (learning rate, keys of random numbers). Called
  /// before each replay; returns false where the plan no longer fits and must be made anew.
  std::function<bool(Launch&)> refresh;
  /// Where the launch's RandomKey came from: the generator, and how many it had drawn in the step.
  struct Draw {
    Generator* generator;
    uint64_t index;
  };
  std::optional<Draw> draw;
  /// What the host does once the step is done (counting it).
  std::function<void()> commit;
  /// Of a collective: all ranks make those of a step in one order.
  std::optional<Communication> communication;
  /// Beside the main one it comes behind all launches that stand before it, and those behind it go
  /// on until one of them needs what it uses.
  PlanStream stream = PlanStream::main;
  /// Of other streams: the main one waits for them before this one is queued, whatever it uses.
  std::vector<const Launch*> waits_for;

 private:
  void list_operands();

  const KernelSlot& slot_;
  Device device_;
  DType dtype_;
  AnyFunction function_;
  std::unique_ptr<extend::KeptArguments> arguments_;
  std::vector<Operand> operands_;
};

}  // namespace brim::backend
