#include "backend/launch.h"

#include <brim/core/threads.h>
#include <brim/extend/native.h>

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "core/context.h"
#include "core/runtime.h"
#include "diag/op_sink.h"
#include "diag/span.h"

namespace brim::backend {

double bytes_of(const Call& call) {
  double bytes = 0;
  call.for_each_tensor([&](const Tensor& t, bool) {
    if (t.defined())
      bytes += std::min(static_cast<double>(t.storage()->bytes()),
                        static_cast<double>(t.numel()) * static_cast<double>(size_of(t.dtype())));
  });
  return bytes;
}

diag::OpCall op_call(const char* name, DType dtype, const Call& call) {
  diag::OpCall op{name, dtype, call.operations(), bytes_of(call)};
  if (crosses_link(call.work())) {
    if (op.operations >= 0) op.bytes = op.operations;
    op.operations = 0;
  }
  // Where nothing is declared, an operation for each element of the largest tensor is counted.
  if (op.operations < 0)
    call.for_each_tensor([&](const Tensor& t, bool) {
      if (t.defined()) op.operations = std::min(op.operations, -static_cast<double>(t.numel()));
    });
  op.operations = std::abs(op.operations);
  return op;
}

std::string shapes_of(const Call& call) {
  constexpr size_t kMost = 80;
  std::string shapes;
  call.for_each_tensor([&](const Tensor& t, bool) {
    if (!t.defined() || shapes.ends_with("...")) return;
    if (!shapes.empty()) shapes += ' ';
    shapes += shapes.size() < kMost ? t.shape().str() : "...";
  });
  return shapes;
}

namespace {

/// The same on the CPU, for profiles of ops: what a Scope makes is not the step's.
[[gnu::noinline, gnu::cold]] void run_counted(const Context& context, const KernelSlot& slot,
                                              DType dtype, const Call& call) {
  const diag::Meter* const meter = diag::active_meter;
  const diag::OpCall op = op_call(slot.name, dtype, call);
  uint64_t ticks = 0;
  {
    const diag::Span span(slot.name, diag::Cause::compute);
    const diag::AddTicks time(ticks);
    call.run(context);
  }
  if (meter && meter->scope != diag::Cause::other) return;
  diag::op_ran(context.stream.device, op, ticks, [&] { return shapes_of(call); });
}

}  // namespace

void run_call(const Context& context, const KernelSlot& slot, DType dtype, const Call& call) {
  const LaunchPolicy& policy = launch_policy(context.stream.device.kind);
  if (policy.launch) [[unlikely]] {
    policy.launch(context, slot.name, dtype, call);
  } else if (diag::profiles_ops()) [[unlikely]] {
    run_counted(context, slot, dtype, call);
  } else {
    const diag::Span span(slot.name, diag::Cause::compute);
    call.run(context);
  }
}

Launch::Launch(const KernelSlot& slot, Device device, DType dtype, AnyFunction function,
               std::unique_ptr<extend::KeptArguments> arguments)
    : slot_(slot),
      device_(device),
      dtype_(dtype),
      function_(function),
      arguments_(std::move(arguments)) {
  list_operands();
}

void Launch::list_operands() {
  operands_.clear();
  arguments_->for_each_tensor([&](const extend::TensorArgument& a) {
    // They are the launch's own: what asks for arguments may not change those of a call.
    operands_.push_back({const_cast<Tensor*>(&a.tensor), a.writes, a.argument, a.listed});
  });
}

bool Launch::same_options(const Launch& other) const {
  return function_ == other.function_ && dtype_ == other.dtype_ && device_ == other.device_ &&
         arguments_->same_options(*other.arguments_);
}

std::unique_ptr<Launch> Launch::clone() const {
  auto other = std::make_unique<Launch>(slot_, device_, dtype_, function_,
                                        arguments_->kept([](const Tensor& t) {
                                          return t.alias(t.shape(), t.strides(), t.offset());
                                        }));
  other->refresh = refresh;
  other->draw = draw;
  other->commit = commit;
  other->communication = communication;
  other->stream = stream;
  return other;
}

double Launch::estimated_seconds() const {
  // What kernels reach on a core of a server with AVX2, and what one core moves.
  constexpr double kOperations = 60e9, kBytes = 10e9, kLaunch = 1e-6;
  const Call call(function_, *arguments_, work());
  if (const auto estimate = launch_policy(device_.kind).estimate)
    if (const double seconds = estimate(device_, dtype_, call); seconds > 0) return seconds;
  return kLaunch + std::max(std::abs(call.operations()) / kOperations, bytes_of(call) / kBytes) /
                       num_threads();
}

diag::OpCall Launch::op_call() const {
  return backend::op_call(name(), dtype_, Call(function_, *arguments_, work()));
}

void Launch::drop_elements(std::span<const size_t> gone) {
  arguments_->drop_elements(gone, elements());
  list_operands();
}

std::span<const Operand> Launch::operands(std::string_view name) const {
  for (size_t argument = 0; argument < slot_.operands.size(); ++argument) {
    if (slot_.operands[argument].name != name) continue;
    size_t first = 0;
    while (first < operands_.size() && operands_[first].argument < argument) ++first;
    size_t last = first;
    while (last < operands_.size() && operands_[last].argument == argument) ++last;
    return operands().subspan(first, last - first);
  }
  raise<Error>("[{}] the kernel has no operand '{}'", slot_.name, name);
}

const OperandTraits& Launch::traits(const Operand& o) const {
  static const OperandTraits undeclared;
  return o.argument < slot_.operands.size() ? slot_.operands[o.argument] : undeclared;
}

size_t Launch::elements() const {
  size_t count = 0;
  for (const Operand& o : operands_)
    if (o.listed && o.argument == operands_[0].argument) ++count;
  return count;
}

std::vector<Operand> Launch::element(size_t i) const {
  const size_t count = elements();
  std::vector<Operand> found;
  for (size_t first = 0; first < operands_.size();) {
    size_t last = first;
    while (last < operands_.size() && operands_[last].argument == operands_[first].argument) ++last;
    const size_t each = operands_[first].listed ? (last - first) / count : 1;
    const size_t from = operands_[first].listed ? first + i * each : first;
    found.insert(found.end(), operands_.begin() + static_cast<std::ptrdiff_t>(from),
                 operands_.begin() + static_cast<std::ptrdiff_t>(from + each));
    first = last;
  }
  return found;
}

}  // namespace brim::backend

namespace brim::extend {

void* native_stream(const Context& context) {
  return runtime(context.stream.device.kind).native_stream(context.stream);
}

void queue_native(const Context& context, const std::function<int()>& call) {
  std::optional<int> code;
  queue_repeatable(context, [&] {
    if (!code) code = call();
    return *code;
  });
}

void queue_repeatable(const Context& context, const std::function<int()>& call) {
  runtime(context.stream.device.kind).queue_native(context.stream, call);
}

}  // namespace brim::extend
