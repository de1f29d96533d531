// Which channels of a network go, and the network without them.
#pragma once

#include <brim/compress/channels.h>

#include <functional>
#include <set>
#include <vector>

#include "compress/channel_flow.h"

namespace brim::compress {

/// Of each output's set: a layer's mean is 1. Throws ValueError where what it needs is not finite.
std::vector<double> channel_scores(const ChannelFlow& flow, const std::function<void()>& run,
                                   ChannelCriterion criterion);

/// Sets of outputs that the same layers make.
struct ChannelGroup {
  std::vector<size_t> sites;  ///< of ChannelFlow::sites
  std::vector<int64_t> sets;  ///< those of the least scores first

  /// Those that go at a sparsity; see ChannelOptions::multiple.
  std::vector<int64_t> least(double sparsity, int64_t multiple) const;
};
/// Of those that can go.
std::vector<ChannelGroup> channel_groups(const ChannelFlow& flow,
                                         const std::vector<double>& scores);

/// A network without sets of its outputs, as long as this lives.
class ChannelRemoval {
 public:
  /// `flow` is kept by reference. Throws ValueError where it does not run so; it is as before then.
  ChannelRemoval(nn::Module& network, const Tensor& example, const ChannelFlow& flow,
                 const std::set<int64_t>& gone, const ChannelOptions& options = {});
  ~ChannelRemoval();
  ChannelRemoval(const ChannelRemoval&) = delete;
  ChannelRemoval& operator=(const ChannelRemoval&) = delete;
  /// For good.
  ShrunkNetwork keep();

 private:
  struct Before;
  void put_back();

  ShrunkNetwork result_;
  std::vector<Before> before_;
};

}  // namespace brim::compress
