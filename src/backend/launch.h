// A launch that can be repeated: a kernel with its arguments. Recording a step makes a list of
// them; the passes of a plan rewrite that list, and replaying it runs them in order.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <brim/core/tensor.h>

#include "backend/dispatch.h"
#include "backend/kernel_slot.h"
#include "core/recording.h"
#include "core/same_bits.h"

namespace brim::backend {

class Launch;

/// One tensor among a launch's arguments. Those of a span stand one after the other.
struct Operand {
  Tensor* tensor;    ///< the launch's own handle; undefined for an argument left out
  bool writes;       ///< it may be read as well
  uint8_t argument;  ///< which name of the kernel's declaration it has
  bool listed;       ///< it is one of a span
};

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
  virtual ~Launch() = default;
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
    return static_cast<T*>(find_option(typeid(T)));
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
  virtual void drop_elements(std::span<const size_t> gone) = 0;

  /// Runs the kernel, or queues it where the device has queues.
  virtual void run(const Context& context) = 0;
  /// Whether kernel, dtype, device and all arguments but the tensors are equal.
  virtual bool same_options(const Launch& other) const = 0;

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

 protected:
  Launch(const KernelSlot& slot, Device device, DType dtype)
      : slot_(slot), device_(device), dtype_(dtype) {}
  virtual void* find_option(const std::type_info& type) = 0;
  std::vector<Operand> operands_;

 private:
  const KernelSlot& slot_;
  Device device_;
  DType dtype_;
};

template <class... Args>
class TypedLaunch final : public Launch {
 public:
  using Function = void(const Context&, Args...);
  using Operations = double (*)(const std::remove_reference_t<Args>&...);

  /// `keep(tensor)` gives the handle that the launch holds.
  template <class Keep>
  TypedLaunch(const KernelSlot& slot, Device device, DType dtype, Function* function,
              Operations operations, const Keep& keep, std::type_identity_t<Args>... args)
      : Launch(slot, device, dtype),
        function_(function),
        operations_(operations),
        kept_(kept_argument<std::remove_cvref_t<Args>>(args, keep)...) {
    list(std::index_sequence_for<Args...>());
  }

  void run(const Context& context) override {
    std::apply(
        [&](auto&... values) {
          dispatch<Args...>(context, name(), dtype(), function_, operations_, values...);
        },
        kept_);
  }

  bool same_options(const Launch& other) const override {
    const auto* o = dynamic_cast<const TypedLaunch*>(&other);
    return o && function_ == o->function_ && dtype() == o->dtype() && device() == o->device() &&
           same(*o, std::index_sequence_for<Args...>());
  }

 private:
  template <size_t... I>
  void list(std::index_sequence<I...>) {
    (list_one<Args>(std::get<I>(kept_)), ...);
  }
  template <class A, class K>
  void list_one(K& kept) {
    using Plain = std::remove_cvref_t<A>;
    if constexpr (std::is_same_v<Plain, Tensor>) {
      operands_.push_back({&kept, argument_of<A>() == Argument::written, arguments_++, false});
    } else if constexpr (IsTensorSpan<Plain>::value) {
      for (Tensor& t : kept)
        operands_.push_back({&t, argument_of<A>() == Argument::written, arguments_, true});
      ++arguments_;
    }
  }

  template <size_t... I>
  bool same(const TypedLaunch& other, std::index_sequence<I...>) const {
    return (same_one(std::get<I>(kept_), std::get<I>(other.kept_)) && ...);
  }
  template <class K>
  static bool same_one(const K& a, const K& b) {
    if constexpr (std::is_same_v<K, Tensor>) {
      return true;
    } else if constexpr (std::is_same_v<K, std::vector<Tensor>>) {
      return a.size() == b.size();
    } else if constexpr (std::is_floating_point_v<K>) {
      return same_bits(a, b);
    } else {
      return a == b;
    }
  }

  void drop_elements(std::span<const size_t> gone) override {
    const size_t count = elements();
    std::apply([&](auto&... values) { (drop_from(values, gone, count), ...); }, kept_);
    operands_.clear();
    arguments_ = 0;
    list(std::index_sequence_for<Args...>());
  }
  template <class K>
  static void drop_from(K& kept, std::span<const size_t> gone, size_t count) {
    if constexpr (std::is_same_v<K, std::vector<Tensor>>) {
      const size_t each = kept.size() / count;
      for (size_t i = gone.size(); i-- > 0;) {
        const auto first = kept.begin() + static_cast<std::ptrdiff_t>(gone[i] * each);
        kept.erase(first, first + static_cast<std::ptrdiff_t>(each));
      }
    }
  }

  void* find_option(const std::type_info& type) override {
    void* found = nullptr;
    std::apply([&](auto&... values) { (match(values, type, found), ...); }, kept_);
    return found;
  }
  template <class K>
  static void match(K& kept, const std::type_info& type, void*& found) {
    if constexpr (!std::is_same_v<K, Tensor> && !std::is_same_v<K, std::vector<Tensor>>)
      if (!found && typeid(K) == type) found = const_cast<std::remove_const_t<K>*>(&kept);
  }

  uint8_t arguments_ = 0;  // met so far
  Function* function_;
  Operations operations_;
  std::tuple<typename KeptArgument<std::remove_cvref_t<Args>>::Type...> kept_;
};

}  // namespace brim::backend
