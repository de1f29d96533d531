// Training on several devices: a copy of the network on each, one part of every batch for each, and
// one sum of gradients on the first device, where the optimizer works.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <brim/core/device.h>
#include <brim/core/tensor.h>
#include <brim/data/loader.h>
#include <brim/nn/module.h>
#include <brim/optim/grad_scaler.h>

namespace brim::train {

class Replicas {
 public:
  /// Makes a network as it is on the first device, on `device`.
  using Make = std::function<std::unique_ptr<nn::Module>(Device device)>;
  /// The mean loss of a part of a batch.
  using Loss = std::function<Tensor(nn::Module& network, const data::Batch& part)>;

  /// `first` lives on devices[0]. With one device nothing is copied.
  Replicas(nn::Module& first, std::vector<Device> devices, const Make& make);

  /// Forward and backward of a batch of a data::DeviceLoader over these devices, or of a part of it
  /// for each device. Leaves the gradient of the mean loss in the first
  /// network's parameters, and returns that loss on the first device. Waits for no device.
  /// Statistics of batch normalisation are each device's own; the first one's are kept. With a
  /// `scaler` the gradient is that of the scaled loss.
  Tensor forward_backward(const data::Batch& batch, const Loss& loss,
                          const optim::GradScaler* scaler = nullptr);

 private:
  /// Copies the first network's parameters to the others.
  void spread();
  /// Adds the others' gradients to the first one's.
  void gather();

  std::vector<Device> devices_;
  std::vector<std::unique_ptr<nn::Module>> made_;  // of devices 1, 2, ...
  std::vector<nn::Module*> networks_;
  std::vector<std::vector<Tensor>> parameters_;  // by device
};

}  // namespace brim::train
