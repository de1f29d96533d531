// How the backend finds NVIDIA's libraries, and when it does without. The emulation has its own.
#pragma once

#include <cstdint>

#include "core/cuda_libraries.h"

namespace brim::cuda {

/// Opens a library by its soname.
OpenedLibrary open_library(const std::string& soname);

/// The rule for small problems: products and convolutions of fewer multiply-adds than this are
/// computed by brim's own kernels, and no library is asked. A launch takes longer than they do, and
/// a library needs more of the CPU for one.
int64_t small_work();

}  // namespace brim::cuda
