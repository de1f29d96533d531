// Ranks that are threads of one process.
#pragma once

#include <memory>
#include <vector>

#include "dist/transport.h"

namespace brim::dist {

/// What local_groups() makes groups of, by rank. `timeout`: see GroupOptions.
std::vector<std::unique_ptr<Transport>> local_transports(int size, double timeout);

}  // namespace brim::dist
