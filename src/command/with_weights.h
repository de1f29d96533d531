// A network as large as a file's metadata says, with the file's weights.
#pragma once

#include <functional>
#include <memory>

#include <brim/core/device.h>
#include <brim/nn/module.h>
#include <brim/train/weights.h>

namespace brim::command {

using MakeNetwork = std::function<std::unique_ptr<nn::Module>()>;

/// What `make` builds on `device`, within a few times the memory of the file's weights. Throws
/// FileError where it needs more: a recipe or the metadata speaks of another network.
std::unique_ptr<nn::Module> make_within(const train::WeightsFile& file, Device device,
                                        const MakeNetwork& make);

/// The same, with the weights of the file.
std::unique_ptr<nn::Module> with_weights(const train::WeightsFile& file, Device device,
                                         const MakeNetwork& make);

}  // namespace brim::command
