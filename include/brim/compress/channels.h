// Whole channels: outputs of layers that matter little are left out with all that reads them, so
// that the network is a smaller dense one.
//
//   compress::shrink_channels(net, example, [&] { for (...) net(batch.x); }, {.sparsity = 0.5});
//   ...  // train on, with a new optimizer
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <brim/core/tensor.h>
#include <brim/nn/module.h>

namespace brim::compress {

/// Which channels go: those with the least of it.
enum class ChannelCriterion : uint8_t {
  magnitude,    ///< the mean magnitude of the weights that make it
  activations,  ///< the magnitudes of the weights that read it times those of its values in the run
};
/// "magnitude" or "activations". Throws ValueError.
ChannelCriterion parse_channel_criterion(std::string_view text);

/// Of shrink_channels().
struct ChannelOptions {
  double sparsity = 0.5;                                       ///< of each layer's outputs
  ChannelCriterion criterion = ChannelCriterion::activations;  ///< what tells which channels go
  std::vector<std::string> dense = {};        ///< names of layers that keep their outputs
  std::map<std::string, double> layers = {};  ///< sparsities of layers that have their own
  /// Layers keep a multiple of so many outputs, which kernels are fast with, where they have twice
  /// as many; of half of it where they have as many.
  int64_t multiple = 16;
};

/// How many inputs and outputs modules have, by name: what a network is shrunk to.
struct Channels {
  std::map<std::string, int64_t> inputs = {};   ///< that a module takes
  std::map<std::string, int64_t> outputs = {};  ///< that it makes
  /// Whether all modules keep theirs.
  bool empty() const { return inputs.empty() && outputs.empty(); }
};

/// What became of a layer.
struct ShrunkLayer {
  std::string name;     ///< dotted
  Shape before, after;  ///< of its weight
  std::string why;      ///< it keeps its outputs
};

/// What became of a network.
struct ShrunkNetwork {
  std::vector<ShrunkLayer> layers;  ///< in the order of its modules
  Channels channels;                ///< of all modules that have changed
};

/// Leaves out channels of convolutions and linear layers, and what belongs to them in batch norm,
/// depthwise convolutions and the layers that read them. What depends on what is found by running
/// the network over `example` (N, ..): outputs that are added up, as residuals are, go together;
/// those that reach the network's output, or what mixes or cannot lose channels, stay. `run` runs
/// the network over data of the criterion `activations`. Parameters are new tensors: make
/// optimizers and compiled steps anew. Throws ValueError for options out of range, a name that is
/// no layer, or if no channel can go; then, or where the network does not run without the channels
/// (sizes may stand in its code), it is as before.
ShrunkNetwork shrink_channels(nn::Module& network, const Tensor& example,
                              const std::function<void()>& run, const ChannelOptions& options = {});

/// Gives modules of a network as it is made these numbers of channels, to load the weights of one
/// that was shrunk. Their parameters hold nothing of use. Throws ValueError for a name that is no
/// such module, or a number beyond what it has.
void resize_channels(nn::Module& network, const Channels& channels);

}  // namespace brim::compress
