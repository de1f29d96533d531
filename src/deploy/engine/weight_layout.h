// Weights in the orders in which the runtime's kernels read them; rt/attributes.h says which.
#pragma once

#include <cstdint>
#include <vector>

namespace brim::deploy {

/// (groups * outputs, inputs, taps) to (groups, panels, taps * inputs, 16).
std::vector<float> panels_of_weights(const std::vector<float>& weights, int64_t groups,
                                     int64_t outputs, int64_t inputs, int64_t taps);
/// (groups * outputs) to (groups, panels, 16).
std::vector<float> panels_of_bias(const std::vector<float>& bias, int64_t groups);
/// (channels, taps) to (taps, channels).
std::vector<float> taps_first(const std::vector<float>& weights, int64_t channels, int64_t taps);
/// Rows (channels, pixels) to (pixels, channels).
std::vector<float> channels_last(const std::vector<float>& weights, int64_t rows, int64_t channels,
                                 int64_t pixels);
/// (outputs, inputs, 9) to (36, panels, inputs, 16), transformed: G g G'.
std::vector<float> winograd_weights(const std::vector<float>& weights, int64_t outputs,
                                    int64_t inputs);

}  // namespace brim::deploy
