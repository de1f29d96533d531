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

Tensor Replicas::forward_backward(const Tensor& x, const Tensor& y, const Loss& loss,
                                  const optim::GradScaler* scaler) {
  const auto backward = [&](const Tensor& value) {
    scaler ? scaler->scale(value).backward() : value.backward();
  };
  const int64_t n = y.numel(), count = static_cast<int64_t>(devices_.size());
  if (count == 1) {
    const Tensor whole = loss(*networks_[0], x.to(devices_[0]), y.to(devices_[0]));
    backward(whole);
    return whole;
  }
  spread();
  std::vector<Tensor> losses;
  int64_t begin = 0;
  for (int64_t k = 0; k < count && begin < n; ++k) {
    const int64_t end = begin + n / count + (k < n % count);
    const Device device = devices_[static_cast<size_t>(k)];
    const Tensor part = loss(*networks_[static_cast<size_t>(k)], x.slice(0, begin, end).to(device),
                             y.slice(0, begin, end).to(device)) *
                        (static_cast<double>(end - begin) / static_cast<double>(n));
    backward(part);
    losses.push_back(part.detach());
    begin = end;
  }
  gather();
  Tensor sum = losses[0];
  for (size_t k = 1; k < losses.size(); ++k) sum = sum + losses[k].to(devices_[0]);
  return sum;
}

}  // namespace brim::train
