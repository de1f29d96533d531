// Layers in 8-bit integers over nhwc images: u8 times i8, whose sums are i32 and exact, so that
// they are the same on every CPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rt/attributes.h"
#include "rt/isa.h"
#include "rt/kernels/convolution.h"
#include "rt/threads.h"

namespace brim::rt {

/// One convolution of one group; operands as Int8ConvolutionAttributes has them.
struct Int8Convolution {
  ConvolutionAttributes a;
  int64_t n, h, w, c, oh, ow, o;
  const uint8_t *x, *weights;
  const float *scale, *shift;  ///< of outputs, in whole panels
  const float* residual;       ///< null: none
  float* y;                    ///< null: the result is wanted in u8 alone
  uint8_t* q;                  ///< null: in f32 alone
  int32_t zero_point;          ///< of x
  float inverse;               ///< of the result in u8
  int32_t next_zero_point;

  /// Rows and columns that windows cover.
  int64_t covered_h() const { return (oh - 1) * a.stride_h + (a.kernel_h - 1) * a.dilation_h + 1; }
  int64_t covered_w() const { return (ow - 1) * a.stride_w + (a.kernel_w - 1) * a.dilation_w + 1; }
  /// Bytes of x that a window has side by side, and how many times it has so many.
  int64_t segment() const { return a.dilation_w == 1 ? a.kernel_w * c : c; }
  int64_t segments() const { return a.dilation_w == 1 ? a.kernel_h : a.kernel_h * a.kernel_w; }
  /// Of four inputs each, in a segment.
  int64_t steps() const { return (segment() + 3) / 4; }
  int64_t panel_bytes() const { return int8_panel_bytes(segments() * steps()); }
  /// Whether windows cover x and nothing else.
  bool is_whole() const {
    return a.top == 0 && a.left == 0 && covered_h() == h && covered_w() == w;
  }
  /// Whether windows and whole steps stay within x, so that it is read as it lies.
  bool is_direct() const {
    return a.top == 0 && a.left == 0 && covered_h() <= h && covered_w() <= w && segment() % 4 == 0;
  }
  /// Whether a pixel of y reads the same pixel of x and no other.
  bool is_product() const {
    return a.kernel_h == 1 && a.kernel_w == 1 && a.stride_h == 1 && a.stride_w == 1 && a.top == 0 &&
           a.left == 0 && oh == h && ow == w;
  }
  /// Whether steps are whole groups of four inputs, wherever a window begins.
  bool has_whole_steps() const { return c % 4 == 0; }
  int64_t covered_bytes() const { return covered_h() * covered_w() * c; }
  /// Images that are padded at once.
  int64_t images_at_once() const {
    const int64_t bytes = int64_t{1} << (has_whole_steps() ? 19 : 17);
    const int64_t size = covered_bytes();
    return size * n <= bytes ? n : size >= bytes ? 1 : bytes / size;
  }
  /// Pixels of a product that are copied at once.
  int64_t pixels_at_once() const {
    constexpr int64_t kBytes = int64_t{1} << 16, kLeast = 48;
    const int64_t pixels = n * oh * ow, some = kBytes / c > kLeast ? kBytes / c : kLeast;
    return pixels < some ? pixels : some;
  }
  /// Bytes of images that are copied; kernels may want more memory for each.
  int64_t copied_bytes() const {
    return is_product() ? pixels_at_once() * c : images_at_once() * covered_bytes();
  }
  static constexpr size_t kSlack = 64;  ///< behind them, for the last step
  size_t scratch() const {
    return (has_whole_steps() ? 2 : 4) * static_cast<size_t>(copied_bytes()) + kSlack;
  }

  /// Whether Winograd's transform can compute it, for weights whose magnitudes are small enough.
  bool has_winograd() const {
    return a.kernel_h == 3 && a.kernel_w == 3 && a.stride_h == 1 && a.stride_w == 1 &&
           a.dilation_h == 1 && a.dilation_w == 1 && c > 0 && c % kPanel == 0 && o % kPanel == 0;
  }

  static int64_t int8_panel_bytes(int64_t all_steps) {
    return kPanel * (static_cast<int64_t>(sizeof(int32_t)) + 4 * all_steps);
  }
};

void convolve_int8(Isa isa, const Int8Convolution& conv, const Threads& threads, uint8_t* scratch);

/// By Winograd's transform where it has_winograd() and this is the faster way, with the same sums.
void convolve_int8_winograd(Isa isa, const Int8Convolution& conv, const Threads& threads,
                            uint8_t* scratch);
size_t int8_winograd_scratch(Isa isa, const Int8Convolution& conv, int threads);

/// round(x * inverse) + zero_point in 0..255, half to even; NaN as 0.
void quantize(Isa isa, int64_t count, const float* x, float inverse, int32_t zero_point, uint8_t* q,
              const Threads& threads);

/// Images of three planes to pixels of three bytes.
struct ColourImages {
  int64_t n, pixels;
  const float* x;
  uint8_t* q;
};
void quantize_colours(Isa isa, const ColourImages& images, float inverse, int32_t zero_point,
                      const Threads& threads);

}  // namespace brim::rt
