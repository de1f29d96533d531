// Weights in the orders in which the runtime's kernels read them; rt/attributes.h says which.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace brim::deploy {

/// (groups * outputs, inputs, taps) to (groups, panels, taps * inputs, 16).
std::vector<float> panels_of_weights(const std::vector<float>& weights, int64_t groups,
                                     int64_t outputs, int64_t inputs, int64_t taps);
/// (outputs, taps) to what a plane_convolution reads.
std::vector<float> tiles_of_weights(const std::vector<float>& weights, int64_t outputs,
                                    int64_t taps);
/// (groups * outputs) to (groups, panels, 16).
std::vector<float> panels_of_bias(const std::vector<float>& bias, int64_t groups);
/// (channels, taps) to (taps, channels).
std::vector<float> taps_first(const std::vector<float>& weights, int64_t channels, int64_t taps);
/// Rows (channels, pixels) to (pixels, channels).
template <class T>
std::vector<T> channels_last(const std::vector<T>& weights, int64_t rows, int64_t channels,
                             int64_t pixels) {
  std::vector<T> to(weights.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t p = 0; p < pixels; ++p)
        to[static_cast<size_t>((r * pixels + p) * channels + c)] =
            weights[static_cast<size_t>((r * channels + c) * pixels + p)];
  return to;
}
/// (outputs, inputs, segments, taps) to what an int8_convolution reads; a segment's inputs lie side
/// by side in the image, tap by tap.
std::vector<uint8_t> panels_of_integers(const std::vector<int8_t>& weights, int64_t outputs,
                                        int64_t inputs, int64_t segments, int64_t taps);
/// (outputs, inputs, 9) to (36, panels, inputs, 16), transformed: G g G'.
std::vector<float> winograd_weights(const std::vector<float>& weights, int64_t outputs,
                                    int64_t inputs);

}  // namespace brim::deploy
