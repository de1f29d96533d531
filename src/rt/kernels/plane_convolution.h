// Convolutions of images of few channels into few outputs: vectors hold neighbouring columns, where
// those of convolution.h would hold outputs and stay empty by half or more.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rt/attributes.h"
#include "rt/isa.h"
#include "rt/threads.h"

namespace brim::rt {

inline constexpr int64_t kMaxPlanes = 4;  ///< channels
inline constexpr int64_t kMaxPlaneWindow = 64;
/// Of a tile of sums.
inline constexpr int64_t kPlaneOutputs = 6;

/// With those that tiles have besides.
constexpr int64_t plane_outputs(int64_t outputs) {
  return (outputs + kPlaneOutputs - 1) / kPlaneOutputs * kPlaneOutputs;
}

struct PlaneConvolution {
  PlaneConvolutionAttributes a;
  int64_t n, c, h, w, oh, ow, o;      ///< oh and ow: of y
  int64_t image, plane, row, column;  ///< steps of x from one to the next
  const float *x, *weights, *bias;
  float* y;

  int64_t outputs() const { return plane_outputs(o); }
  int64_t taps() const { return c * a.kernel_h * a.kernel_w; }
  /// Rows of sums are computed two by two.
  int64_t bands() const { return a.is_pooled ? oh : (oh + 1) / 2; }
  int64_t columns() const { return a.is_pooled ? 2 * ow : ow; }
};

/// What a thread has of its own: an image with its padding, and two rows of sums of a tile. Counted
/// in numbers.
struct PlanePlan {
  int64_t rows, pitch;  ///< of a plane
  int64_t planes, scratch;

  explicit PlanePlan(const PlaneConvolution& k) {
    constexpr int64_t kColumns = 32, kMore = 16;  // of two vectors, whatever they hold; of windows
    rows = 2 * k.bands() + k.a.kernel_h - 1;
    pitch = (k.columns() + kColumns - 1) / kColumns * kColumns +
            (k.a.kernel_w + kMore - 2) / kMore * kMore;
    planes = k.c * rows * pitch;
    scratch = planes + kPlaneOutputs * 2 * pitch;
  }
};

/// Bytes of scratch memory on so many threads.
size_t plane_convolution_scratch(const PlaneConvolution& conv, int threads);
void convolve_planes(Isa isa, const PlaneConvolution& conv, const Threads& threads, float* scratch);

}  // namespace brim::rt
