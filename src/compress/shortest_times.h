// How long calls take.
#pragma once

#include <brim/core/device.h>

#include <functional>
#include <vector>

namespace brim::compress {

/// The shortest time of each, in seconds, of rounds in turns: five at least, and more of them where
/// they are short.
std::vector<double> shortest_times(const std::vector<std::function<void()>>& calls, Device device);

}  // namespace brim::compress
