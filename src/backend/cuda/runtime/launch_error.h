// Errors that code compiled by nvcc throws.
#pragma once

namespace brim::cuda {

/// Throws NotImplemented: "[kernel] why".
[[noreturn]] void cannot_launch(const char* kernel, const char* why);

}  // namespace brim::cuda
