// The members of Tensor that belong to autograd, and autograd::grad.
#include <atomic>
#include <mutex>
#include <vector>

#include <brim/core/stream.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>

#include "autograd/engine.h"
#include "backend/launch_policy.h"
#include "core/check.h"
#include "core/recording.h"

namespace brim {
namespace {

std::atomic<int> next_hook_id{1};

void check_defined(const char* op, const Tensor& t) {
  BRIM_CHECK(t.defined(), ValueError,
             "[{}] a tensor is undefined (default-constructed); give it a value first", op);
}

/// A one of each cuda device and dtype, where a launch for each backward() costs too much. It is
/// lent while nobody else holds its memory, and made anew where somebody wrote into it, or where
/// work is queued on another stream. On other devices, whose memory the host writes without
/// notice, a one costs next to nothing.
class ConstantOnes {
 public:
  Tensor like(const Tensor& output) {
    const Stream stream = Stream::current(output.device());
    const std::lock_guard lock(mutex_);
    One& one = of(stream.device, output.dtype());
    if (!one.value.defined() || one.stream != stream || one.value.storage()->use_count() > 1 ||
        one.value.storage()->version() != one.version) {
      one.value = ones({}, {.dtype = output.dtype(), .device = stream.device});
      one.stream = stream;
      one.version = one.value.storage()->version();
    }
    return one.value.alias(output.shape(), Shape::filled(output.rank(), 1), 0);
  }

 private:
  struct One {
    Device device;
    DType dtype;
    Tensor value;
    Stream stream;
    uint32_t version = 0;
  };
  One& of(Device device, DType dtype) {
    for (One& one : all_)
      if (one.device == device && one.dtype == dtype) return one;
    return all_.emplace_back(One{device, dtype, {}, {}});
  }
  std::mutex mutex_;
  std::vector<One> all_;
};

Tensor one_like(const Tensor& output) {
  if (!backend::has_own_kernels(output.device().kind) || recording)
    return ones(output.shape(), {.dtype = output.dtype(), .device = output.device()});
  static auto& constants = *new ConstantOnes;  // not ended: the device may be gone by then
  return constants.like(output);
}

/// `gradient`, or a one for a tensor of one element.
Tensor seed_gradient(const Tensor& output, const Tensor& gradient, const char* op) {
  check_defined(op, output);
  BRIM_CHECK(output.requires_grad(), AutogradError,
             "[{}] the tensor has no history: nothing it was made from requires a gradient, or it "
             "was made under NoGrad, or by an op of one's own without with_grad()",
             op);
  if (!gradient.defined()) {
    BRIM_CHECK(output.numel() == 1, ShapeError,
               "[{}] a tensor of shape {} needs a gradient to start from; reduce it to one number "
               "(a loss) or pass one of its shape",
               op, output.shape().str());
    return one_like(output);
  }
  BRIM_CHECK(gradient.shape() == output.shape(), ShapeError,
             "[{}] the gradient's shape {} is not the tensor's {}", op, gradient.shape().str(),
             output.shape().str());
  BRIM_CHECK(gradient.dtype() == output.dtype(), DTypeError,
             "[{}] the gradient is {}, the tensor {}; cast the gradient", op,
             name(gradient.dtype()), name(output.dtype()));
  BRIM_CHECK(gradient.device() == output.device(), DeviceError,
             "[{}] the gradient is on {}, the tensor on {}; move the gradient", op,
             gradient.device().str(), output.device().str());
  return gradient;
}

}  // namespace

bool Tensor::requires_grad() const {
  check_defined("requires_grad", *this);
  const auto& meta = impl_->autograd;
  return meta && meta->requires_grad;
}

Tensor& Tensor::set_requires_grad(bool value) {
  check_defined("set_requires_grad", *this);
  BRIM_CHECK(!value || is_floating(dtype()), DTypeError,
             "[set_requires_grad] a tensor of {} has no gradient; cast it to a floating type",
             name(dtype()));
  BRIM_CHECK(is_leaf(), AutogradError,
             "[set_requires_grad] the tensor was made by an op; detach() it first");
  if (value || impl_->autograd) autograd::meta_of(*this).requires_grad = value;
  return *this;
}

bool Tensor::is_leaf() const {
  check_defined("is_leaf", *this);
  return !impl_->autograd || !impl_->autograd->node;
}

Tensor Tensor::grad() const {
  check_defined("grad", *this);
  if (recording) [[unlikely]]
    recording->grad_changes(*impl_, false);
  return impl_->autograd ? impl_->autograd->grad : Tensor();
}

void Tensor::set_grad(const Tensor& grad) {
  check_defined("set_grad", *this);
  if (recording) [[unlikely]]
    recording->grad_changes(*impl_, !grad.defined());
  if (!grad.defined()) {
    if (impl_->autograd) impl_->autograd->grad = {};
    return;
  }
  BRIM_CHECK(grad.shape() == shape(), ShapeError,
             "[set_grad] a gradient of shape {} does not fit a tensor of shape {}; reshape it",
             grad.shape().str(), shape().str());
  BRIM_CHECK(grad.dtype() == dtype(), DTypeError,
             "[set_grad] the gradient is {}, the tensor {}; cast the gradient", name(grad.dtype()),
             name(dtype()));
  BRIM_CHECK(grad.device() == device(), DeviceError,
             "[set_grad] the gradient is on {}, the tensor on {}; move the gradient",
             grad.device().str(), device().str());
  autograd::meta_of(*this).grad = grad;
}

void Tensor::retain_grad() {
  BRIM_CHECK(requires_grad(), AutogradError,
             "[retain_grad] the tensor requires no gradient, so none will arrive");
  autograd::Meta& meta = autograd::meta_of(*this);
  if (is_leaf() || meta.retain_grad) return;
  meta.retain_grad = true;
  meta.node->retained.push_back(&meta);
}

void Tensor::backward(const Tensor& gradient, BackwardOptions options) const {
  const Tensor seed = seed_gradient(*this, gradient, "backward");
  autograd::run_backward({this, 1}, {&seed, 1}, {}, options);
}

Tensor Tensor::detach() const {
  check_defined("detach", *this);
  return alias(shape(), strides(), offset());
}

int Tensor::register_hook(std::function<Tensor(const Tensor&)> hook) {
  BRIM_CHECK(requires_grad(), AutogradError,
             "[register_hook] the tensor requires no gradient, so the hook would never run");
  autograd::Meta& meta = autograd::meta_of(*this);
  const int id = next_hook_id++;
  auto& hooks = meta.node ? meta.node->hooks : meta.hooks;
  hooks.push_back({meta.index, id, std::move(hook)});
  return id;
}

int Tensor::register_post_accumulate_grad_hook(std::function<void(Tensor&)> hook) {
  BRIM_CHECK(requires_grad() && is_leaf(), AutogradError,
             "[register_post_accumulate_grad_hook] only leaves that require a gradient "
             "accumulate one; use register_hook for others");
  BRIM_CHECK(hook, ValueError, "[register_post_accumulate_grad_hook] the hook is empty");
  const int id = next_hook_id++;
  autograd::meta_of(*this).grad_hooks.emplace_back(id, std::move(hook));
  return id;
}

void Tensor::remove_hook(int id) {
  check_defined("remove_hook", *this);
  if (!impl_->autograd) return;
  autograd::Meta& meta = *impl_->autograd;
  std::erase_if(meta.grad_hooks, [id](const auto& entry) { return entry.first == id; });
  std::erase_if(meta.node ? meta.node->hooks : meta.hooks,
                [id](const autograd::HookEntry& h) { return h.id == id; });
}

namespace autograd {

std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                         std::span<const Tensor> grad_outputs, BackwardOptions options) {
  BRIM_CHECK(grad_outputs.empty() || grad_outputs.size() == outputs.size(), ValueError,
             "[grad] {} grad_outputs for {} outputs", grad_outputs.size(), outputs.size());
  BRIM_CHECK(!inputs.empty(), ValueError, "[grad] no inputs were given");
  for (const Tensor& input : inputs)
    BRIM_CHECK(input.defined() && input.requires_grad(), AutogradError,
               "[grad] an input does not require a gradient; call set_requires_grad() on it");
  std::vector<Tensor> seeds;
  for (size_t i = 0; i < outputs.size(); ++i)
    seeds.push_back(
        seed_gradient(outputs[i], grad_outputs.empty() ? Tensor() : grad_outputs[i], "grad"));
  return run_backward(outputs, seeds, inputs, options);
}

}  // namespace autograd
}  // namespace brim
