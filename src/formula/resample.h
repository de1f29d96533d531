// Bilinear resampling with anti-aliasing, as PIL's Image.resize(BILINEAR) does it with 8 bits: a
// triangle filter as wide as the reduction, with integer weights; rows first, then columns, each
// rounded to 8 bits. All arithmetic on pixels is on integers, so that every CPU gives the same.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace brim::formula {

/// Weights have so many bits behind the point: 8-bit samples times weights must stay within 31.
inline constexpr int kWeightBits = 22;

/// The inputs of one output along an axis.
struct Taps {
  int first, count;
};

/// The inputs and weights of outputs along one axis, where `extent` pixels from `from` on become
/// `out`.
struct ResampleAxis {
  int begin = 0, end = 0;        ///< the pixels that the area touches
  bool same = false;             ///< nothing changes: output i is pixel begin + i
  std::vector<Taps> taps;        ///< counted from `begin`
  std::vector<int32_t> weights;  ///< `max_taps` per output
  int max_taps = 0;

  ResampleAxis(double from, double extent, int64_t out)
      : begin(static_cast<int>(std::floor(from))),
        end(static_cast<int>(std::ceil(from + extent))),
        same(from == begin && extent == static_cast<double>(out)),
        offset_(from - begin),
        scale_(extent / static_cast<double>(out)) {}

  /// Of outputs [first_output, first_output + outputs); `nearest`: the pixel at the middle of an
  /// output's place alone.
  void weigh(int first_output, int outputs, bool nearest = false) {
    const int in = end - begin;
    const double support = std::max(scale_, 1.0);
    max_taps = static_cast<int>(std::ceil(support)) * 2 + 1;
    taps.resize(static_cast<size_t>(outputs));
    weights.resize(static_cast<size_t>(outputs) * static_cast<size_t>(max_taps));
    std::vector<double> triangle(static_cast<size_t>(max_taps));
    for (int i = 0; i < outputs; ++i) {
      int32_t* const to = &weights[static_cast<size_t>(i) * static_cast<size_t>(max_taps)];
      Taps& of = taps[static_cast<size_t>(i)];
      const double centre = offset_ + (static_cast<double>(first_output + i) + 0.5) * scale_;
      if (nearest) {
        of = {std::clamp(static_cast<int>(centre), 0, in - 1), 1};
        to[0] = 1 << kWeightBits;
        continue;
      }
      const int first = std::max(0, static_cast<int>(centre - support + 0.5));
      const int count = std::min(in, static_cast<int>(centre + support + 0.5)) - first;
      of = {first, count};
      double sum = 0;
      for (int k = 0; k < count; ++k) {
        double& weight = triangle[static_cast<size_t>(k)];
        weight = std::max(0.0, 1 - std::abs((k + first - centre + 0.5) / support));
        sum += weight;
      }
      for (int k = 0; k < count; ++k)
        to[k] =
            static_cast<int32_t>(0.5 + triangle[static_cast<size_t>(k)] / sum * (1 << kWeightBits));
    }
  }

 private:
  double offset_, scale_;
};

/// Where the middle `want` of `have` pixels begin. Half a pixel goes where torchvision puts it: to
/// even inside, to the right where more are wanted than there are.
inline int64_t centred(int64_t have, int64_t want) {
  if (have < want) return -((want - have) / 2);
  return static_cast<int64_t>(std::nearbyint(static_cast<double>(have - want) / 2.0));
}

}  // namespace brim::formula
