// Which layers read which outputs of which others, found by running the network: outputs are made
// NaN, and where NaN arrives is what depends on them. Each layer that is reached puts out zeros, so
// that NaN passes what lies between layers alone.
#pragma once

#include <brim/nn/conv.h>
#include <brim/nn/linear.h>
#include <brim/nn/norm.h>

#include <string>
#include <vector>

namespace brim::compress {

/// A module with parameters.
struct ChannelSite {
  enum class Kind : uint8_t {
    layer,    ///< a convolution of one group, or linear: reads channels, makes others
    passing,  ///< batch norm, a depthwise convolution: a channel stays itself
    other,    ///< whose channels cannot go
  };
  std::string name;
  Kind kind = Kind::other;
  nn::Module* module = nullptr;
  nn::Conv2d* conv = nullptr;
  nn::Linear* linear = nullptr;
  nn::BatchNorm2d* norm = nullptr;
  /// Of each channel that it reads, one of the outputs that it is made of: a place in
  /// ChannelFlow::outputs; -1: of none that can go.
  std::vector<int64_t> reads = {};
  int64_t first_output = 0;  ///< of a layer, in ChannelFlow::outputs
  int64_t outputs() const { return conv ? conv->weight.size(0) : linear->weight.size(0); }
  int64_t inputs() const {
    if (norm) return norm->options.features;
    return conv ? conv->options.in : linear->weight.size(1);
  }
  const Tensor& weight() const { return conv ? conv->weight : linear->weight; }
};

/// Outputs of layers, in sets that go together.
struct ChannelFlow {
  std::vector<ChannelSite> sites;
  struct Output {
    size_t site;
    int64_t channel;
    int64_t set;         ///< an output of the set, the same one for all of it
    bool stays = false;  ///< of the set's output that names it
  };
  std::vector<Output> outputs;

  /// Names the output's set.
  int64_t set_of(int64_t output) const { return outputs[static_cast<size_t>(output)].set; }
  bool stays(int64_t output) const { return outputs[static_cast<size_t>(set_of(output))].stays; }
};

/// The modules with parameters.
std::vector<ChannelSite> channel_sites(nn::Module& network);

/// Of a network in eval mode, in a NoGrad scope. `example`: (N, ..), of which the first sample
/// counts.
ChannelFlow channel_flow(nn::Module& network, const Tensor& example);

}  // namespace brim::compress
