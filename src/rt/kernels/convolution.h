// Convolutions over nhwc images whose weights were laid out beforehand.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rt/attributes.h"
#include "rt/isa.h"
#include "rt/kernels/windows.h"
#include "rt/threads.h"

namespace brim::rt {

inline constexpr int64_t kPanel = 16;  ///< outputs of a panel of weights
constexpr int64_t panels_of(int64_t outputs) { return (outputs + kPanel - 1) / kPanel; }

/// One convolution; sizes, weights and bias as ConvolutionAttributes has them.
struct Convolution {
  ConvolutionAttributes a;
  int64_t n, h, w, c, oh, ow, o;
  const float *x, *weights, *bias, *residual;
  float* y;
  // Of depthwise ones: y in u8 instead, by these.
  uint8_t* q = nullptr;
  float inverse = 1;
  int32_t next_zero_point = 0;

  int64_t pixels() const { return n * oh * ow; }
  /// Of a group.
  int64_t inputs() const { return c / a.groups; }
  int64_t outputs() const { return o / a.groups; }
  int64_t depth() const { return a.kernel_h * a.kernel_w * inputs(); }
  /// Columns whose windows lie in the image from left to right.
  InnerOutputs inner_columns() const { return {w, ow, a.kernel_w, a.stride_w, a.left}; }
  /// Whether a pixel of y reads the same pixel of x and no other.
  bool is_product() const {
    return a.kernel_h == 1 && a.kernel_w == 1 && a.stride_h == 1 && a.stride_w == 1 && a.top == 0 &&
           a.left == 0 && oh == h && ow == w;
  }
  int64_t work() const { return pixels() * o * depth(); }
};

/// How a convolution is cut: threads take rows of outputs; or blocks of pixels with all panels, or,
/// where there are too few of them, panels with all blocks. Counted in numbers.
struct ConvolutionPlan {
  bool by_rows, by_panels;
  int64_t block, grain, gather_grain;
  int64_t sums;     ///< of a block, for each thread
  int64_t scratch;  ///< all

  ConvolutionPlan(const Convolution& k, int threads) {
    constexpr int64_t kBlock = 54;               // pixels
    constexpr int64_t kMaxPanels = 8;            // that one product has
    constexpr int64_t kWork = int64_t{1} << 18;  // multiply-adds that are worth a thread
    const int64_t pixels = k.pixels() > 0 ? k.pixels() : 1, panels = panels_of(k.outputs());
    const int64_t blocks = (pixels + kBlock - 1) / kBlock;
    constexpr int64_t kRows = 6;  // blocks of nearly the same size, whole tiles
    block = ((pixels + blocks - 1) / blocks + kRows - 1) / kRows * kRows;
    if (block > pixels) block = pixels;
    sums = block * kMaxPanels * kPanel;
    const auto grain_of = [](int64_t work) { return work > 0 ? (kWork + work - 1) / work : kWork; };
    by_rows = reads_rows(k);
    if (by_rows) {
      by_panels = false;
      grain = grain_of(k.ow * k.depth() * k.o);
      gather_grain = sums = scratch = 0;
      return;
    }
    by_panels = threads > 1 && blocks < 2 * threads && panels > 1;
    const int64_t gathered = k.is_product() ? 0 : k.depth();
    gather_grain = grain_of(8 * k.depth());
    if (by_panels) {
      grain = grain_of(pixels * k.depth() * kPanel);
      scratch = threads * sums + pixels * gathered;
    } else {
      grain = grain_of(block * k.depth() * k.o);
      scratch = threads * (sums + block * gathered);
    }
  }

  /// Whether tiles of neighbouring outputs are nearly full.
  static bool reads_rows(const Convolution& k) {
    if (k.a.groups != 1 || k.a.dilation_w != 1 || k.is_product()) return false;
    constexpr int64_t kTile = 6;
    const InnerOutputs inner = k.inner_columns();
    const int64_t columns = inner.end - inner.begin, tiles = (columns + kTile - 1) / kTile;
    constexpr int64_t kMinRows = 4;  // rows of a tile that others take no longer than
    const int64_t single = k.ow - columns, cost = k.oh < kTile ? kMinRows : 1;
    return columns > 0 && 4 * (std::max(columns, kMinRows * tiles) + cost * single) <= 5 * k.ow + 8;
  }
};

/// Bytes of scratch memory that a convolution takes on so many threads.
size_t convolution_scratch(const Convolution& conv, int threads);
void convolve(Isa isa, const Convolution& conv, const Threads& threads, float* scratch);

/// Blocks of tiles of 4 x 4 outputs, and where what is between the steps of a block lies.
struct WinogradPlan {
  int64_t tiles, block, blocks;
  int64_t v_step, m_step;  ///< from point to point
  int64_t scratch;         ///< numbers, for each thread

  WinogradPlan(const Convolution& k, int threads) {
    constexpr int64_t kPoints = 36, kBlock = 36, kWidest = 4 * kPanel;
    constexpr int64_t kPad = 16;  // points would share the cache's sets otherwise
    tiles = k.n * ((k.oh + 3) / 4) * ((k.ow + 3) / 4);
    blocks = (tiles + kBlock - 1) / kBlock;
    if (blocks < threads) blocks = tiles < threads ? tiles : threads;
    block = blocks > 0 ? (tiles + blocks - 1) / blocks : 1;
    blocks = (tiles + block - 1) / block;
    v_step = block * k.c + kPad;
    m_step = block * kWidest + kPad;
    scratch = kPoints * (v_step + m_step);
  }
};

/// For c and o in multiples of kPanel.
size_t winograd_scratch(const Convolution& conv, int threads);
void convolve_winograd(Isa isa, const Convolution& conv, const Threads& threads, float* scratch);

void convolve_depthwise(Isa isa, const Convolution& conv, const Threads& threads);

}  // namespace brim::rt
