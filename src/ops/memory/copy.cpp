// copy_ and clone: elements from one tensor into another, across dtypes, layouts and devices
#include "ops/memory/copy.h"

#include <algorithm>

#include "autograd/node.h"
#include "core/recording.h"
#include "core/runtime.h"
#include "diag/span.h"
#include "ops/elementwise.h"

namespace brim {
namespace ops {

void copy_elements(const Tensor& x, Tensor& y) {
  static const backend::Kernel<void(const Context&, const Tensor&, Tensor&)> kernel(
      "copy", {.operands = "x, y", .work = backend::Work::copy});
  if (x.dtype() != y.dtype()) {
    check_computed("to", x);
    check_computed("to", y);
  }
  kernel(y.device(), y.dtype(), x, y);
}

void fill_elements(Tensor& y, double value) {
  static const backend::Kernel<void(const Context&, Tensor&, double)> kernel("fill",
                                                                             {.operands = "y"});
  if (is_integral(y.dtype()) && y.dtype() != DType::bool_) check_whole("fill", value);
  kernel(y.device(), y.dtype(), y, value);
}

void copy_between_devices(std::span<const Tensor> from, std::span<const Tensor> to,
                          bool non_blocking) {
  if (from.empty()) return;
  refuse_in_recording("copy between devices",
                      "a plan works on one device; move tensors there before the step");
  const Device source = from[0].device(), target = to[0].device();
  const Device device = target.is_cpu() ? source : target;
  const bool to_host = target.is_cpu(), peers = !to_host && !source.is_cpu();
  BRIM_CHECK(!peers || source.kind == target.kind, NotImplemented,
             "[copy] {} to {} is not implemented; copy to the CPU first", source.str(),
             target.str());
  const auto is_pinned = [&](const Tensor& t) { return t.storage()->pinned_for() == device.kind; };
  const bool waits = to_host && !(non_blocking && std::ranges::all_of(to, is_pinned));
  const bool stages = !to_host && !peers && !std::ranges::all_of(from, is_pinned);
  const diag::Span span("copy", waits    ? diag::Cause::host_read
                                : stages ? diag::Cause::staging
                                         : diag::Cause::dispatch);
  const Stream stream = Stream::current(device), other = Stream::current(source);
  if (peers) {
    Event made;
    made.record(other);
    made.wait(stream);
  }
  for (size_t i = 0; i < from.size(); ++i) {
    Storage& storage = *from[i].storage();
    const size_t bytes = static_cast<size_t>(to[i].numel()) * size_of(to[i].dtype());
    storage.last_write.wait(stream);
    // So that the event behind this copy stands for those before it, too.
    for (const Tensor* t : {&from[i], &to[i]})
      if (is_pinned(*t) && !t->storage()->last_copy.query()) t->storage()->last_copy.wait(stream);
    if (is_pinned(from[i])) {
      runtime(device.kind).copy_from_pinned(to[i].raw(), target, from[i].raw(), bytes, stream);
    } else {
      runtime(device.kind).copy(to[i].raw(), target, from[i].raw(), source, bytes, stream);
    }
  }
  if (waits) {
    stream.synchronize();
    return;
  }
  Event done;
  done.record(stream);
  for (const Tensor& t : from)
    if (is_pinned(t)) t.storage()->last_copy = done;
  for (const Tensor& t : to) {
    (to_host ? t.storage()->last_copy : t.storage()->last_write) = done;
    if (to_host) t.storage()->copied_from = source;
  }
  if (peers) done.wait(other);
}

namespace {

/// x's values into y, across dtypes, devices and by broadcasting.
void copy_values(const Tensor& x, Tensor& y, const CopyOptions& options) {
  if (x.device() == y.device()) {
    // Views of one storage may overlap: read everything before anything is written.
    const Tensor from = x.storage() == y.storage() ? x.detach().clone() : x.detach();
    copy_elements(from.expand(y.shape()), y);
    return;
  }
  // Cast and pack where the data is, so that one dense copy crosses the link.
  const MemoryFormat format = format_of(y);
  const Tensor packed = x.detach().to(y.dtype()).expand(y.shape()).to(format);
  if (y.is_contiguous(format)) {
    copy_between_devices({&packed, 1}, {&y, 1}, options.non_blocking);
  } else {
    Tensor landed = Tensor::empty(y.shape(), y.dtype(), y.device());  // row-major, as packed is
    copy_between_devices({&packed, 1}, {&landed, 1});
    copy_elements(landed, y);
  }
}

}  // namespace
}  // namespace ops

Tensor& Tensor::fill_(double value) {
  ops::check_defined("fill_", *this);
  autograd::check_recordable("fill_", *this);
  ops::fill_elements(*this, value);
  autograd::record_in_place("fill_", *this, {}, [](autograd::GradCall&) {});
  return *this;
}

Tensor& Tensor::copy_(const Tensor& source, const CopyOptions& options) {
  ops::check_defined("copy_", *this);
  ops::check_defined("copy_", source);
  BRIM_CHECK(broadcast_shapes(shape(), source.shape(), "copy_") == shape(), ShapeError,
             "[copy_] shape {} does not broadcast into {}", source.shape().str(), shape().str());
  autograd::check_recordable("copy_", *this, {source});
  ops::copy_values(source, *this, options);
  autograd::record_in_place(
      "copy_", *this, {source},
      [from = source.shape(), dtype = source.dtype(),
       device = source.device()](autograd::GradCall& g) {
        g.set_if_needed(1, [&] { return ops::sum_to(g.dy(), from).to(dtype).to(device); });
      });
  return *this;
}

Tensor Tensor::clone() const {
  ops::check_defined("clone", *this);
  Tensor y = ops::empty_as(*this);
  ops::copy_elements(*this, y);
  return autograd::with_grad("clone", y, {*this}, [](autograd::GradCall& g) { g.set(0, g.dy()); });
}

Tensor Tensor::copy_to(Device target) const {
  ops::check_defined("copy_to", *this);
  if (target == device()) return clone();
  check_available(target);
  const Tensor packed = detach().to(ops::format_of(*this));
  Tensor y = ops::empty_as(*this, dtype(), target);
  ops::copy_between_devices({&packed, 1}, {&y, 1});
  return autograd::with_grad("copy_to", y, {*this}, [from = device()](autograd::GradCall& g) {
    g.set(0, g.dy().to(from));
  });
}

}  // namespace brim
