// What stands in for a sample that cannot be read (OnError::replace): one rule for batches that
// workers make and for data that lives on the device.
#pragma once

#include <cstdint>
#include <functional>

#include "data/loader/order.h"

namespace brim::data {

/// What stands in for `sample`, which a rank meets at `position` of its epoch: the first one behind
/// it that `reads` accepts, of up to 1000 in the data set or, with a sampler, in the sampler's
/// epoch. A function of what lies there, not of the rank. Throws FileError where none can be read.
int64_t find_stand_in(const Dataset& data, const Order& order, int64_t position, int64_t sample,
                      const std::function<bool(int64_t sample)>& reads);

}  // namespace brim::data
