// Which layers compute in integers, by what passes of the whole network take: layers that are
// faster one by one may change memory formats between them, and what follows a layer joins it in a
// compiled pass in one form, but not in the other.
#pragma once

#include <functional>
#include <vector>

#include "compress/calibrate.h"

namespace brim::compress {

/// `seconds`: QuantizeOptions::pass_seconds. Compares the network in f32, with the layers that are
/// faster alone, with all open ones, and with groups of neighbours changed. Gives the others up;
/// all are dense then.
void choose_by_passes(nn::Module& network, std::vector<Watched>& layers,
                      const std::function<std::vector<double>()>& seconds);

}  // namespace brim::compress
