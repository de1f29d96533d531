#include "train/replicas.h"

#include <brim/autograd/autograd.h>
#include <brim/ops/binary.h>

#include <algorithm>

#include "diag/span.h"
#include "ops/memory/copy.h"

namespace brim::train {

Replicas::Replicas(nn::Module& first, std::vector<Device> devices, const Make& make)
    : devices_(std::move(devices)) {
  networks_.push_back(&first);
  for (size_t k = 1; k < devices_.size(); ++k) {
    made_.push_back(make(devices_[k]));
    networks_.push_back(made_.back().get());
  }
  for (nn::Module* network : networks_) parameters_.push_back(network->parameters());
}

void Replicas::spread() {
  const diag::Span span("spread parameters", diag::Cause::communication);
  const NoGrad guard;
  for (size_t k = 1; k < devices_.size(); ++k) {
    networks_[k]->train(networks_[0]->training());
    ops::copy_between_devices(parameters_[0], parameters_[k]);
    for (size_t i = 0; i < parameters_[k].size(); ++i) {
      Tensor& p = parameters_[k][i];
      p.storage()->bump_version();
      p.set_requires_grad(parameters_[0][i].requires_grad());
      p.zero_grad();
    }
  }
}

void Replicas::gather() {
  const diag::Span span("gather gradients", diag::Cause::communication);
  const NoGrad guard;
  for (size_t k = 1; k < devices_.size(); ++k) {
    std::vector<Tensor> grads, landed, sums;
    for (size_t i = 0; i < parameters_[k].size(); ++i) {
      const Tensor grad = parameters_[k][i].grad();
      if (!grad.defined()) continue;
      grads.push_back(grad.contiguous());
      landed.push_back(Tensor::empty(grad.shape(), grad.dtype(), devices_[0]));
      sums.push_back(parameters_[0][i]);
    }
    ops::copy_between_devices(grads, landed);
    for (size_t i = 0; i < sums.size(); ++i) {
      Tensor sum = sums[i].grad();
      sum.defined() ? void(sum.add_(landed[i])) : sums[i].set_grad(landed[i]);
    }
  }
}

Tensor Replicas::forward_backward(const data::Batch& batch, const Loss& loss,
                                  const optim::GradScaler* scaler) {
  const auto backward = [&](const Tensor& value) {
    scaler ? scaler->scale(value).backward() : value.backward();
  };
  if (devices_.size() == 1) {
    const Tensor whole = loss(*networks_[0], batch);
    backward(whole);
    return whole;
  }
  spread();
  int64_t n = 0;
  for (const data::Batch& part : batch.parts) n += part.x.size(0);
  std::vector<Tensor> losses;
  for (size_t k = 0; k < batch.parts.size(); ++k) {
    const data::Batch& part = batch.parts[k];
    const double share = static_cast<double>(part.x.size(0)) / static_cast<double>(n);
    const Tensor value = loss(*networks_[k], part) * share;
    backward(value);
    losses.push_back(value.detach());
  }
  gather();
  Tensor sum = losses[0];
  for (size_t k = 1; k < losses.size(); ++k) sum = sum + losses[k].to(devices_[0]);
  return sum;
}

}  // namespace brim::train
