// Ranks that are threads of one process.
#pragma once

#include <memory>
#include <vector>

#include "dist/transport.h"

namespace brim::dist {

/// What local_groups() makes groups of, by rank. `timeout`: see GroupOptions. `links`: exchanges
/// take as long as over these; null: as it goes.
std::vector<std::unique_ptr<Transport>> local_transports(int size, double timeout,
                                                         const Links* links = nullptr);

}  // namespace brim::dist
