#include <brim/optim/clip.h>

#include <brim/autograd/autograd.h>
#include <brim/ops/create.h>

#include <span>

#include "backend/kernel.h"
#include "ops/checks.h"
#include "optim/checks.h"

namespace brim::optim {
namespace {

/// The gradients there are, row-major, so that kernels may write them in place.
std::vector<Tensor> gradients(const char* op, const std::vector<Tensor>& parameters) {
  std::vector<Tensor> found;
  for (Tensor p : parameters) {
    ops::check_defined(op, p);
    Tensor grad = p.grad();
    if (!grad.defined()) continue;
    if (!grad.is_contiguous()) p.set_grad(grad = grad.detach().contiguous());
    if (!found.empty()) {
      ops::common_device(op, found.front(), grad);
      ops::common_dtype(op, found.front(), grad);
    }
    found.push_back(std::move(grad));
  }
  return found;
}

void count_write(const std::vector<Tensor>& tensors) {
  for (const Tensor& t : tensors) t.storage()->bump_version();
}

}  // namespace

Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type) {
  static const backend::Kernel<void(const Context&, std::span<const Tensor>, Tensor& norm, double)>
      norm_kernel("list_norm");
  static const backend::Kernel<void(const Context&, std::span<Tensor>, const Tensor& norm, double)>
      clip_kernel("list_clip");
  check_not_negative("clip_grad_norm_", "max_norm", max_norm);
  BRIM_CHECK(norm_type > 0, ValueError, "[clip_grad_norm_] norm_type is {}; it must be above 0",
             norm_type);
  const NoGrad guard;
  std::vector<Tensor> grads = gradients("clip_grad_norm_", parameters);
  if (grads.empty()) return zeros({});
  const Device device = grads.front().device();
  const DType dtype = grads.front().dtype();
  Tensor norm = Tensor::empty({}, dtype, device);
  norm_kernel(device, dtype, grads, norm, norm_type);
  count_write(grads);
  clip_kernel(device, dtype, grads, norm, max_norm);
  return norm;
}

void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value) {
  static const backend::Kernel<void(const Context&, std::span<Tensor>, double)> kernel(
      "list_clamp");
  check_not_negative("clip_grad_value_", "clip_value", clip_value);
  const NoGrad guard;
  std::vector<Tensor> grads = gradients("clip_grad_value_", parameters);
  if (grads.empty()) return;
  count_write(grads);
  kernel(grads.front().device(), grads.front().dtype(), grads, clip_value);
}

}  // namespace brim::optim
