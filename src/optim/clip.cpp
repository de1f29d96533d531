#include <brim/optim/clip.h>

#include <brim/autograd/autograd.h>
#include <brim/ops/create.h>

#include <algorithm>
#include <span>

#include "backend/kernel.h"
#include "ops/checks.h"
#include "optim/checks.h"

namespace brim::optim {
namespace {

/// Gradients that lie on one device.
struct OnDevice {
  Device device;
  std::vector<Tensor> grads;
};

/// The gradients there are, row-major, so that kernels may write them in place; the first device's
/// first.
std::vector<OnDevice> gradients(const char* op, const std::vector<Tensor>& parameters) {
  std::vector<OnDevice> groups;
  for (Tensor p : parameters) {
    ops::check_defined(op, p);
    Tensor grad = p.grad();
    if (!grad.defined()) continue;
    if (!grad.is_contiguous()) p.set_grad(grad = grad.detach().contiguous());
    if (!groups.empty()) ops::common_dtype(op, groups.front().grads.front(), grad);
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const OnDevice& g) { return g.device == grad.device(); });
    if (group == groups.end()) group = groups.insert(group, {grad.device(), {}});
    group->grads.push_back(std::move(grad));
  }
  return groups;
}

void count_write(const std::vector<Tensor>& tensors) {
  for (const Tensor& t : tensors) t.storage()->bump_version();
}

}  // namespace

Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type) {
  static const backend::Kernel<void(const Context&, std::span<const Tensor>, Tensor& norm, double)>
      norm_kernel("list_norm", {.operands = "tensors, norm"});
  static const backend::Kernel<void(const Context&, std::span<Tensor>, const Tensor& norm, double)>
      clip_kernel("list_clip", {.operands = "rw tensors, norm"});
  check_not_negative("clip_grad_norm_", "max_norm", max_norm);
  BRIM_CHECK(norm_type > 0, ValueError, "[clip_grad_norm_] norm_type is {}; it must be above 0",
             norm_type);
  const NoGrad guard;
  std::vector<OnDevice> groups = gradients("clip_grad_norm_", parameters);
  if (groups.empty()) return zeros({}, {.device = Device::cpu()});
  const Device first = groups.front().device;
  const DType dtype = groups.front().grads.front().dtype();
  // f16 ends below many norms.
  const auto norm_of = [&](Device device, const std::vector<Tensor>& tensors) {
    const DType of = tensors.front().dtype();
    Tensor norm = Tensor::empty({}, ops::statistics_dtype(of), device);
    norm_kernel(device, of, tensors, norm, norm_type);
    return norm;
  };
  std::vector<Tensor> norms;
  for (const OnDevice& group : groups)
    norms.push_back(norm_of(group.device, group.grads).to(first));
  const Tensor norm = norms.size() == 1 ? norms.front() : norm_of(first, norms);
  for (OnDevice& group : groups) {
    count_write(group.grads);
    clip_kernel(group.device, dtype, group.grads, norm.to(group.device), max_norm);
  }
  return norm;
}

void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value) {
  static const backend::Kernel<void(const Context&, std::span<Tensor>, double)> kernel(
      "list_clamp", {.operands = "rw tensors"});
  check_not_negative("clip_grad_value_", "clip_value", clip_value);
  const NoGrad guard;
  for (OnDevice& group : gradients("clip_grad_value_", parameters)) {
    count_write(group.grads);
    kernel(group.device, group.grads.front().dtype(), group.grads, clip_value);
  }
}

}  // namespace brim::optim
