// conv2d + bias + relu + max_pool2d in one kernel (see fused_conv.h), for convolutions of few
// channels. A block has a band of an image's windows and some output channels; the input they read
// and their weights lie in its shared memory, and a thread makes one window at a time: what is
// pooled away never leaves its registers.
//
// The floor on an H200 (a node of a graph about 2 us, 4.8 TB/s, 60 TFLOP/s in f32), for the two
// layers of the tutorial's network:
//   batch 4:    49 KB in, 30 KB out, 2.8 and 1.9 MFLOP: under 0.1 us of work; so many small blocks
//               (threads wait for one load of the tile, then for some 400 multiply-adds), not one
//               per image
//   batch 128:  1.6 MB in, 1 MB out, 90 and 61 MFLOP: 1.5 and 1 us of arithmetic; a window in a
//               thread makes 100 multiply-adds of 18 + 7 loads from shared memory
#include <algorithm>
#include <limits>

#include "backend/cuda/conv/conv_pool.cuh"
#include "backend/cuda/elementwise/elementwise.cuh"
#include "backend/cuda/runtime/launch_error.h"
#include "backend/has_kernel.h"
#include "backend/kernel.h"

namespace brim::cuda {
namespace {

using backend::ConvGeometry;
using backend::ConvPool;
using backend::kNoIndex;

struct Forward {
  ImageView<const float> x;
  const float* weight;
  const float* bias;  // may be null
  int64_t bias_stride;
  ImageView<float> y;
  ImageView<uint8_t> indices;
  ConvPoolSizes s;
  TileRows rows;
  int block_outputs, blocks_of_outputs;
  int band, bands;  // rows of windows in a block, blocks of a plane
  int tile_rows;    // at most
  int taps_pitch;
  Divisor windows_of_row;

  int64_t shared_floats() const {
    return round_up(static_cast<int64_t>(block_outputs) * s.channels * taps_pitch, 4) +
           round_up(block_outputs, 4) + static_cast<int64_t>(s.channels) * tile_rows * rows.pitch;
  }
  int64_t blocks() const { return int64_t{s.n} * s.groups * blocks_of_outputs * bands; }
};

/// The largest element of a window, as max_pool2d and relu leave it: the first of equal ones, a NaN
/// before all others.
struct WindowMax {
  float best = -std::numeric_limits<float>::infinity();
  int place = kNoIndex;

  __device__ void consider(float v, int number) {
    if (place == kNoIndex || v > best || v != v) best = v, place = number;
  }
  __device__ void pass_relu() {
    if (place == kNoIndex) return;
    if (best <= 0) place = kNoIndex;
    if (best < 0) best = 0;  // NaN stays
  }
};

/// A 2 x 2 window of a convolution by a kKernel x kKernel kernel with steps of 1. `in` is aligned
/// to pairs, `weights` to fours.
template <int kKernel>
__device__ inline WindowMax window_of(const Forward& f, const float* in, const float* weights,
                                      float bias) {
  constexpr int kPatch = kKernel + 1, kTaps = kKernel * kKernel, kPitch = (kTaps + 3) / 4 * 4;
  static_assert(kPatch % 2 == 0);
  float sum[4] = {};
  const int plane = f.tile_rows * f.rows.pitch;
  for (int c = 0; c < f.s.channels; ++c, in += plane, weights += kPitch) {
    float patch[kPatch][kPatch];
#pragma unroll
    for (int y = 0; y < kPatch; ++y)
#pragma unroll
      for (int x = 0; x < kPatch; x += 2) {
        const auto two = *reinterpret_cast<const Pack<float, 2>*>(in + y * f.rows.pitch + x);
        patch[y][x] = two.at[0], patch[y][x + 1] = two.at[1];
      }
#pragma unroll
    for (int t = 0; t < kTaps; t += 4) {
      const auto w = *reinterpret_cast<const Pack<float, 4>*>(weights + t);
#pragma unroll
      for (int k = 0; k < 4 && t + k < kTaps; ++k) {
        const int y = (t + k) / kKernel, x = (t + k) % kKernel;
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[i] += w.at[k] * patch[y + i / 2][x + i % 2];
      }
    }
  }
  WindowMax window_max;
#pragma unroll
  for (int i = 0; i < 4; ++i) window_max.consider(sum[i] + bias, i);
  return window_max;
}

/// Any window. `in` is the tile, whose first row is row `y0` of the padded image.
__device__ inline WindowMax any_window(const Forward& f, const float* in, int y0, int py, int px,
                                       const float* weights, float bias) {
  const ConvPoolSizes& s = f.s;
  WindowMax window_max;
  for (int wy = 0; wy < s.window.h; ++wy) {
    const int oy = py * s.step.h - s.margin.h + wy * s.spread.h;
    if (oy < 0 || oy >= s.oh) continue;
    for (int wx = 0; wx < s.window.w; ++wx) {
      const int ox = px * s.step.w - s.margin.w + wx * s.spread.w;
      if (ox < 0 || ox >= s.ow) continue;
      float sum = 0;
      for (int c = 0; c < s.channels; ++c)
        for (int ky = 0; ky < s.kh; ++ky) {
          const int row = c * f.tile_rows + oy * s.stride.h + ky * s.dilation.h - y0;
          const float* from = in + row * f.rows.pitch + ox * s.stride.w;
          const float* w = weights + c * f.taps_pitch + ky * s.kw;
          for (int kx = 0; kx < s.kw; ++kx) sum += w[kx] * from[kx * s.dilation.w];
        }
      window_max.consider(sum + bias, wy * s.window.w + wx);
    }
  }
  return window_max;
}

/// kKernel: see ConvPoolSizes::fast_kernel.
template <int kKernel>
__global__ void __launch_bounds__(kThreads, 1) conv_pool_kernel(Forward f) {
  begin_kernel();
  const ConvPoolSizes& s = f.s;
  float* const weights = shared_memory<float>();  // (output, channel, taps_pitch)
  const int weight_floats = f.block_outputs * s.channels * f.taps_pitch;
  float* const biases = weights + weight_floats;  // in groups of four floats, as is taps_pitch
  float* const tile = biases + (f.block_outputs + 3) / 4 * 4;

  int rest = static_cast<int>(blockIdx.x);
  const int band = rest % f.bands;
  rest /= f.bands;
  const int first = rest % f.blocks_of_outputs * f.block_outputs;  // in the group
  rest /= f.blocks_of_outputs;
  const int group = rest % s.groups, n = rest / s.groups;
  const int outputs = std::min(f.block_outputs, s.outputs - first), o = group * s.outputs + first;
  const int py0 = band * f.band, rows = std::min(f.band, s.ph - py0);
  const int t = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);

  // The tile begins at the first row of the padded image that the band's windows see.
  const int top = std::max(0, py0 * s.step.h - s.margin.h), y0 = top * s.stride.h;
  load_rows(f.x, s, f.rows, n, group * s.channels, s.channels, y0 - s.padding.h, f.tile_rows, tile);
  const int taps = s.taps(), count = outputs * s.channels * taps;
  const float* const from = f.weight + static_cast<int64_t>(o) * s.channels * taps;
  for (int i = t; i < count; i += threads)
    copy_async<4>(weights + i / taps * f.taps_pitch + i % taps, from + i);
  for (int i = t; i < outputs; i += threads)
    biases[i] = f.bias ? f.bias[(o + i) * f.bias_stride] : 0.0f;
  wait_for_copies();
  __syncthreads();

  const int windows = rows * s.pw;
  for (int i = t; i < outputs * windows; i += threads) {
    const int own = i / windows, window = i % windows;
    const int y = static_cast<int>(f.windows_of_row.quotient(static_cast<uint32_t>(window)));
    const int px = window - y * s.pw, py = py0 + y;
    const float* const w = weights + own * s.channels * f.taps_pitch;
    WindowMax window_max;
    if constexpr (kKernel > 0)
      window_max = window_of<kKernel>(f, tile + (2 * y) * f.rows.pitch + 2 * px, w, biases[own]);
    else
      window_max = any_window(f, tile, y0, py, px, w, biases[own]);
    if (s.relu) window_max.pass_relu();
    f.y.at(n, o + own, py, px) = window_max.best;
    f.indices.at(n, o + own, py, px) = static_cast<uint8_t>(window_max.place);
  }
}

/// Rows of the input that `band` rows of windows see.
int tile_rows(const ConvPoolSizes& s, int band) {
  const int reach = (band - 1) * s.step.h + (s.window.h - 1) * s.spread.h + 1;
  return (std::min(reach, s.oh) - 1) * s.stride.h + (s.kh - 1) * s.dilation.h + 1;
}

/// Cuts images and channels until there are blocks enough for a large GPU, or little is left for
/// the threads of one; and what a block needs fits its shared memory.
void share(Forward& f) {
  constexpr int64_t kEnough = 264;
  const ConvPoolSizes& s = f.s;
  const auto set = [&](int outputs, int band) {
    f.block_outputs = outputs;
    f.blocks_of_outputs = static_cast<int>(ceil_div(s.outputs, outputs));
    f.band = band;
    f.bands = static_cast<int>(ceil_div(s.ph, band));
    f.tile_rows = tile_rows(s, band);
  };
  set(s.outputs, s.ph);
  while (f.block_outputs > 1 || f.band > 1) {
    const int64_t items = int64_t{f.block_outputs} * f.band * s.pw;
    const bool fits = f.shared_floats() * 4 <= kConvPoolShared;
    if (fits && (f.blocks() >= kEnough || items <= 96)) break;
    // Halving the outputs leaves the tile to be loaded twice, halving the band the weights.
    const int outputs = f.block_outputs, band = f.band;
    const int half_outputs = static_cast<int>(ceil_div(outputs, 2));
    const int half_band = static_cast<int>(ceil_div(band, 2));
    set(half_outputs, band);
    const int64_t by_outputs = f.shared_floats();
    set(outputs, half_band);
    const int64_t by_band = f.shared_floats();
    if (outputs > 1 && (band == 1 || by_outputs <= by_band)) set(half_outputs, band);
  }
}

void conv_relu_pool(const Context& context, const Tensor& x, const Tensor& weight,
                    const Tensor& bias, Tensor& y, Tensor& indices, const ConvPool& g) {
  if (y.numel() == 0) return;
  const ConvPoolSizes s(g);
  Forward f{.x = ImageView<const float>(x),
            .weight = static_cast<const float*>(weight.raw()),
            .bias = bias.defined() ? static_cast<const float*>(bias.raw()) : nullptr,
            .bias_stride = bias.defined() ? bias.strides()[0] : 0,
            .y = ImageView<float>(y),
            .indices = ImageView<uint8_t>(indices),
            .s = s,
            .rows = TileRows(s, x),
            .taps_pitch = static_cast<int>(round_up(s.taps(), 4)),
            .windows_of_row = Divisor(static_cast<uint32_t>(s.pw))};
  share(f);
  const int64_t shared = f.shared_floats() * 4;
  if (shared > kConvPoolShared || f.blocks() > std::numeric_limits<int32_t>::max())
    cannot_launch("conv2d_relu_pool", "a row of windows and its weights do not fit shared memory");
  const int64_t items = int64_t{f.block_outputs} * f.band * s.pw;
  const auto threads = static_cast<unsigned>(std::min<int64_t>(round_up(items, 32), kThreads));
  const Grid grid{dim3(static_cast<unsigned>(f.blocks())), dim3(threads),
                  static_cast<size_t>(shared)};
  const int fast = s.fast_kernel();
  launch_blocks(context,
                fast == 5   ? &conv_pool_kernel<5>
                : fast == 3 ? &conv_pool_kernel<3>
                            : &conv_pool_kernel<0>,
                grid, f);
}

/// Image and weights are kept in the 48 KiB of shared memory that every GPU has: what one row of
/// windows sees, with the weights of one output channel; and a plane of the input. Beyond 16384
/// weights, an estimate, products on whole tiles are faster.
bool is_small(const ConvPool& g) {
  const ConvGeometry& c = g.conv;
  const int64_t rows =
      (g.pool.kernel.h - 1) * g.pool.dilation.h * c.stride.h + (c.kh - 1) * c.dilation.h + 1;
  const int64_t columns = c.w + 2 * c.padding.w + 1;
  constexpr int64_t kFloats = 12 << 10, kMaxColumns = 256, kMaxWeights = 1 << 14;
  return c.weight_shape().numel() <= kMaxWeights &&
         c.c * (rows * columns + c.kh * c.kw + 3) + 8 <= kFloats &&
         (c.h + 2 * c.padding.h) * columns <= kFloats && columns <= kMaxColumns;
}

const bool registered =
    backend::register_kernel("conv2d_relu_pool", DeviceKind::cuda, DType::f32, &conv_relu_pool) &&
    backend::register_limit<ConvPool>("conv2d_relu_pool", DeviceKind::cuda, &is_small);

}  // namespace
}  // namespace brim::cuda
