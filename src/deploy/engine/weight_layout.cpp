// Orders of weights, element by element: this is done once.
#include "deploy/engine/weight_layout.h"

#include <array>
#include <cstring>

#include "formula/winograd.h"
#include "rt/kernels/convolution.h"
#include "rt/kernels/plane_convolution.h"

namespace brim::deploy {
namespace {

using rt::kPanel;
using rt::panels_of;

size_t at(int64_t i) { return static_cast<size_t>(i); }

/// G g: 6 values of 3 weights.
std::array<double, 6> weight_line(const std::array<double, 3>& g) {
  using namespace formula::winograd;
  constexpr double a = kA, b = kB, na = 1 / kNa, nb = 1 / kNb;
  const double even_a = na * (g[0] + a * a * g[2]), odd_a = na * a * g[1];
  const double even_b = nb * (g[0] + b * b * g[2]), odd_b = nb * b * g[1];
  return {g[0] / kN0, even_a + odd_a, even_a - odd_a, even_b + odd_b, even_b - odd_b, g[2]};
}

}  // namespace

std::vector<float> panels_of_weights(const std::vector<float>& weights, int64_t groups,
                                     int64_t outputs, int64_t inputs, int64_t taps) {
  const int64_t panels = panels_of(outputs), depth = taps * inputs;
  std::vector<float> to(at(groups * panels * depth * kPanel), 0.0F);
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t o = 0; o < outputs; ++o) {
      const float* const from = weights.data() + (g * outputs + o) * depth;
      float* const panel = to.data() + (g * panels + o / kPanel) * depth * kPanel + o % kPanel;
      for (int64_t i = 0; i < inputs; ++i)
        for (int64_t t = 0; t < taps; ++t) panel[(t * inputs + i) * kPanel] = from[i * taps + t];
    }
  return to;
}

std::vector<float> tiles_of_weights(const std::vector<float>& weights, int64_t outputs,
                                    int64_t taps) {
  const int64_t all = rt::plane_outputs(outputs);
  std::vector<float> to(at(all * taps), 0.0F);
  for (int64_t o = 0; o < outputs; ++o) {
    float* const tile = to.data() + o / rt::kPlaneOutputs * taps * rt::kPlaneOutputs;
    for (int64_t t = 0; t < taps; ++t)
      tile[t * rt::kPlaneOutputs + o % rt::kPlaneOutputs] = weights[at(o * taps + t)];
  }
  return to;
}

std::vector<float> panels_of_bias(const std::vector<float>& bias, int64_t groups) {
  const int64_t outputs = static_cast<int64_t>(bias.size()) / groups, panels = panels_of(outputs);
  std::vector<float> to(at(groups * panels * kPanel), 0.0F);
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t o = 0; o < outputs; ++o)
      to[at(g * panels * kPanel + o)] = bias[at(g * outputs + o)];
  return to;
}

std::vector<float> taps_first(const std::vector<float>& weights, int64_t channels, int64_t taps) {
  return channels_last(weights, 1, channels, taps);
}

std::vector<uint8_t> panels_of_integers(const std::vector<int8_t>& weights, int64_t outputs,
                                        int64_t inputs, int64_t segments, int64_t taps) {
  const int64_t steps = (taps * inputs + 3) / 4, sum_bytes = kPanel * 4;
  const int64_t panel_bytes = sum_bytes + segments * steps * kPanel * 4;
  std::vector<uint8_t> to(at(panels_of(outputs) * panel_bytes), 0);
  for (int64_t o = 0; o < outputs; ++o) {
    uint8_t* const panel = to.data() + o / kPanel * panel_bytes;
    int32_t sum = 0;
    for (int64_t i = 0; i < inputs; ++i)
      for (int64_t s = 0; s < segments; ++s)
        for (int64_t t = 0; t < taps; ++t) {
          const int8_t weight = weights[at(((o * inputs + i) * segments + s) * taps + t)];
          const int64_t input = t * inputs + i;
          panel[sum_bytes + ((s * steps + input / 4) * kPanel + o % kPanel) * 4 + input % 4] =
              static_cast<uint8_t>(weight);
          sum += weight;
        }
    std::memcpy(panel + o % kPanel * 4, &sum, sizeof sum);
  }
  return to;
}

std::vector<float> winograd_weights(const std::vector<float>& weights, int64_t outputs,
                                    int64_t inputs) {
  const int64_t panels = panels_of(outputs);
  std::vector<float> to(at(36 * panels * inputs * kPanel), 0.0F);
  for (int64_t o = 0; o < outputs; ++o)
    for (int64_t i = 0; i < inputs; ++i) {
      const float* const g = weights.data() + (o * inputs + i) * 9;
      std::array<std::array<double, 6>, 3> columns;
      for (int x = 0; x < 3; ++x)
        columns[at(x)] = weight_line({double{g[x]}, double{g[3 + x]}, double{g[6 + x]}});
      for (int r = 0; r < 6; ++r) {
        const std::array<double, 6> line =
            weight_line({columns[0][at(r)], columns[1][at(r)], columns[2][at(r)]});
        for (int k = 0; k < 6; ++k)
          to[at((((r * 6 + k) * panels + o / kPanel) * inputs + i) * kPanel + o % kPanel)] =
              static_cast<float>(line[at(k)]);
      }
    }
  return to;
}

}  // namespace brim::deploy
