// Work that can be queued again, with other scratch memory: what choosing by measuring needs.
#pragma once

#include <functional>

#include "core/context.h"

namespace brim::cuda {

/// Queues work, whose scratch memory is the context's.
using Work = std::function<void(const Context&)>;

}  // namespace brim::cuda
