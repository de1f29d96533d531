#include "backend/kernel.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string_view>

#include "backend/has_kernel.h"
#include "backend/queued_op.h"
#include "core/check.h"
#include "core/context.h"
#include "core/registration_faults.h"
#include "core/take_word.h"

namespace brim::backend {

thread_local constinit const char* queued_op = nullptr;
constinit std::array<LaunchPolicy, kDeviceKindCount> launch_policies{
    {{.kernels = DeviceKind::cpu}, {.kernels = DeviceKind::cuda}, {.kernels = DeviceKind::sim}}};
thread_local constinit bool anomaly_mode = false;

namespace {

struct Table {
  std::mutex mutex;
  std::map<std::string_view, KernelSlot> slots;
};
Table& table() {
  static auto* all = new Table;
  return *all;
}

}  // namespace

KernelSlot& kernel_slot(const char* name, const std::type_info& signature) {
  const std::lock_guard lock(table().mutex);
  KernelSlot& slot = table().slots[name];
  if (!slot.name) {
    slot.name = name;
    slot.signature = &signature;
  }
  BRIM_CHECK(
      *slot.signature == signature, Error,
      "[kernel] '{}' is there already, with other operands; choose another name, or declare it "
      "alike where it is one op",
      name);
  return slot;
}

namespace {

/// "a, b" as its words.
std::vector<std::string_view> words(std::string_view list) {
  std::vector<std::string_view> all;
  while (!list.empty()) all.push_back(take_word(list, ','));
  return all;
}

}  // namespace

void declare_traits(KernelSlot& slot, const KernelTraits& traits,
                    std::initializer_list<Argument> arguments) {
  std::vector<OperandTraits> operands;
  const std::vector<std::string_view> names = words(traits.operands);
  for (const Argument a : arguments) {
    if (a == Argument::option) continue;
    BRIM_CHECK(operands.size() < names.size(), Error,
               "[kernel] '{}' has more tensors than the names '{}'", slot.name, traits.operands);
    std::string_view name = names[operands.size()];
    const auto marked = [&](std::string_view mark) {
      if (!name.starts_with(mark)) return false;
      name.remove_prefix(mark.size());
      return true;
    };
    const bool rw = marked("rw "), strided = marked("strided ");
    const bool writes = a == Argument::written;
    BRIM_CHECK(writes || (!rw && !strided), Error, "[kernel] '{}' does not write its operand '{}'",
               slot.name, name);
    operands.push_back({.name = std::string(name),
                        .reads = rw || !writes,
                        .writes = writes,
                        .activation = false,
                        .strided = strided});
  }
  BRIM_CHECK(operands.size() == names.size(), Error,
             "[kernel] '{}' has fewer tensors than the names '{}'", slot.name, traits.operands);
  for (const std::string_view name : words(traits.activations)) {
    const auto at = std::find_if(operands.begin(), operands.end(),
                                 [&](const OperandTraits& o) { return o.name == name; });
    BRIM_CHECK(at != operands.end(), Error, "[kernel] '{}' has no operand '{}'", slot.name, name);
    at->activation = true;
  }
  const std::lock_guard lock(table().mutex);
  BRIM_CHECK(slot.operands.empty() || (slot.operands == operands && slot.work == traits.work),
             Error, "[kernel] '{}' is declared twice, with other traits", slot.name);
  if (!slot.operands.empty()) return;
  slot.work = traits.work;
  slot.operands = std::move(operands);
}

bool register_converted(const char* name, DeviceKind kind, const char* operand) {
  const std::lock_guard lock(table().mutex);
  table().slots[name].converted[static_cast<size_t>(kind)] = operand;
  return true;
}

bool has_kernel(std::string_view name, Device device, DType dtype) {
  const DeviceKind kind = launch_policy(device.kind).kernels;
  const std::lock_guard lock(table().mutex);
  const auto slot = table().slots.find(name);
  return slot != table().slots.end() && slot->second.function(kind, dtype);
}

void detail::set_limit(const char* name, DeviceKind kind, const std::type_info& problem,
                       AnyLimit limit) {
  const std::lock_guard lock(table().mutex);
  table().slots[name].limits[static_cast<size_t>(kind)] = {limit, &problem};
}

detail::AnyLimit detail::find_limit(const KernelSlot& slot, Device device,
                                    const std::type_info& problem) {
  const auto kind = static_cast<size_t>(launch_policy(device.kind).kernels);
  const KernelSlot::Limit& limit = slot.limits[kind];
  BRIM_CHECK(!limit.function || *limit.problem == problem, Error,
             "[kernel] the limit of '{}' is about another kind of problem", slot.name);
  return limit.function;
}

const KernelSlot* detail::find_slot(std::string_view name) {
  const std::lock_guard lock(table().mutex);
  const auto slot = table().slots.find(name);
  return slot == table().slots.end() ? nullptr : &slot->second;
}

namespace {

/// "f32, f64": what the slot has functions for on such devices.
std::string dtypes_of(const KernelSlot& slot, DeviceKind kind) {
  std::string all;
  for (int d = 0; d < kDTypeCount; ++d)
    if (slot.function(kind, static_cast<DType>(d)))
      all.append(all.empty() ? "" : ", ").append(name(static_cast<DType>(d)));
  return all;
}

}  // namespace

void missing_kernel(const char* name, DeviceKind kind, DType dtype) {
  BRIM_CHECK(is_computed(dtype), NotImplemented,
             "[{}] {} is stored only: it can be kept, moved and saved, but no op computes with it",
             name, brim::name(dtype));
  const KernelSlot* const slot = detail::find_slot(name);
  const std::string here = slot ? dtypes_of(*slot, launch_policy(kind).kernels) : "";
  if (!here.empty())
    raise<NotImplemented>("[{}] is not implemented on {} for {}, but for {}; cast with x.to(...)",
                          name, brim::name(kind), brim::name(dtype), here);
  if (slot && slot->is_formula && launch_policy(kind).run_text)
    raise<NotImplemented>(
        "[{}] is not implemented on {} for {}: its formula carries no text to compile; define it "
        "with BRIM_DEFINE_FORMULA, or load a plugin that registers it (docs/OWN_OPS.md)",
        name, brim::name(kind), brim::name(dtype));
  raise<NotImplemented>(
      "[{}] is not implemented on {} for {}, nor for another dtype there; choose another device, "
      "or register a kernel or load the plugin that has it (brim/extend.h)",
      name, brim::name(kind), brim::name(dtype));
}

AnyFunction find_function(const KernelSlot& slot, DeviceKind kind, DType dtype) {
  const AnyFunction found = slot.function(launch_policy(kind).kernels, dtype);
  if (!found) [[unlikely]]
    missing_kernel(slot.name, kind, dtype);
  return found;
}

namespace {

[[gnu::noinline, gnu::cold]] void record(const KernelSlot& slot, Device device, DType dtype,
                                         AnyFunction function, const extend::Arguments& arguments) {
  LaunchRecorder& recorder = *launch_recorder();
  recorder.launched(
      std::make_unique<Launch>(slot, device, dtype, function,
                               arguments.kept([&](const Tensor& t) { return recorder.kept(t); })));
}

/// The slot of a declaration. What is wrong with one in a library that is being opened is noted;
/// it gets a slot that nobody finds, without functions.
KernelSlot& declared_slot(const char* name, const std::type_info& signature,
                          const KernelTraits& traits, std::initializer_list<Argument> arguments) {
  try {
    KernelSlot& slot = kernel_slot(name, signature);
    if (*traits.operands)
      declare_traits(slot, traits, arguments);
    else
      BRIM_CHECK(traits.work == Work::other && !*traits.activations, Error,
                 "[kernel] '{}' declares its work or activations, but no operands", name);
    return slot;
  } catch (const Error& error) {
    if (!RegistrationFaults::note(error.what())) throw;
    auto* const nowhere = new KernelSlot;  // for good, as the others
    nowhere->name = name;
    nowhere->signature = &signature;
    return *nowhere;
  }
}

}  // namespace

}  // namespace brim::backend

namespace brim::extend {

AnyKernel::AnyKernel(const char* name, const std::type_info& signature, const KernelTraits& traits,
                     std::initializer_list<Argument> arguments)
    : slot_(backend::declared_slot(name, signature, traits, arguments)) {}

const char* AnyKernel::name() const { return slot_.name; }

void AnyKernel::run(Device device, DType dtype, Arguments& arguments) const {
  const AnyFunction function = backend::find_function(slot_, device.kind, dtype);
  if (recording) [[unlikely]]
    return backend::record(slot_, device, dtype, function, arguments);
  backend::run_call(Context::current(device), slot_, dtype, {function, arguments, slot_.work});
  if (backend::anomaly_mode) [[unlikely]]
    arguments.for_each_tensor([&](const TensorArgument& a) {
      if (a.writes && !a.listed) backend::check_anomaly(slot_.name, a.tensor);
    });
}

void register_function(const char* name, const std::type_info& signature, DeviceKind kind,
                       DType dtype, AnyFunction function) {
  try {
    backend::KernelSlot& slot = backend::kernel_slot(name, signature);
    AnyFunction before = nullptr;
    BRIM_CHECK(slot.functions[static_cast<size_t>(kind)][static_cast<size_t>(dtype)]
                       .compare_exchange_strong(before, function, std::memory_order_acq_rel) ||
                   before == function,
               Error, "[kernel] '{}' has a kernel for {} and {} already; choose another name", name,
               brim::name(kind), brim::name(dtype));
  } catch (const Error& error) {
    if (!RegistrationFaults::note(error.what())) throw;
  }
}

Stream stream_of(const Context& context) { return context.stream; }

}  // namespace brim::extend
