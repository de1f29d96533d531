// Which modules are in training mode, as one number: what depends on it (a compiled step) need not
// know the modules.
#pragma once

#include <cstdint>

namespace brim::nn {

/// The same number whenever the same living modules are in eval mode.
uint64_t training_modes();

}  // namespace brim::nn
