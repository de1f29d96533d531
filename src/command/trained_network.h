// A trained network as its weights file and recipe describe it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <brim/core/device.h>
#include <brim/nn/module.h>
#include <brim/train/recipe.h>
#include <brim/train/weights.h>

namespace brim::command {

/// A trained network, ready to be asked: in eval mode, its layers in 8-bit integers as in the file.
struct TrainedNetwork {
  std::string path;  ///< of the weights
  train::WeightsInfo info;
  train::Recipe recipe;
  Device device;
  std::unique_ptr<nn::Module> network;
  std::string int8;  ///< "9 layers compute in 8-bit integers", or nothing
};

/// Opens weights with their own recipe, or `recipe` where that is not empty; `check` may refuse it
/// before the network is built. `command` stands in messages. Throws FileError, ValueError.
TrainedNetwork open_network(const std::string& command, const std::string& weights,
                            const std::string& recipe, Device device,
                            const std::function<void(const train::Recipe&)>& check = {});

}  // namespace brim::command
