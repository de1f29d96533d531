// Which of a layer's channels stay, and its parameters with those alone.
#pragma once

#include <brim/core/tensor.h>

#include <cstdint>
#include <set>
#include <vector>

#include "compress/channel_flow.h"

namespace brim::compress {

/// Which channels of a site stay.
struct KeptChannels {
  std::vector<int64_t> inputs, outputs;

  KeptChannels() = default;
  /// All but those of sets that go.
  KeptChannels(const ChannelFlow& flow, const ChannelSite& site, const std::set<int64_t>& gone);
  bool are_all(const ChannelSite& site) const;
};

/// What is replaced in a module.
struct ChannelParameters {
  Tensor weight, bias, mean, var;

  explicit ChannelParameters(const ChannelSite& site);
  /// Copies of what is kept of them.
  ChannelParameters(const ChannelSite& site, const KeptChannels& kept);
  void put_into(const ChannelSite& site) const;
};

}  // namespace brim::compress
