// That each rank has a device of its own.
#pragma once

#include <string>
#include <vector>

#include "dist/transport.h"

namespace brim::dist {

/// A rank's device.
struct RankDevice {
  std::string
      identity;        ///< what no other device of any host has; "" where nothing tells them apart
  std::string device;  ///< what the rank calls it: "cuda:0"
  std::string host;    ///< the machine's name
};

/// "ranks 0 and 2 share ...", with the cure, of the first two that do; "" where none do. By rank.
std::string shared_device(const std::vector<RankDevice>& ranks);

/// Compares this rank's device with those of the others. Called by all ranks, as Transport::meet().
/// Throws DistError, in all of them, where two share one.
void check_own_device(Transport& transport, const Call& call, const RankDevice& own);

}  // namespace brim::dist
