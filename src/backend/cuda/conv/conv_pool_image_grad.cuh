// dx of the fused convolution + bias + relu + max pooling: a block lays the maxima' gradients out
// as the convolution's gradient, in shared memory; its threads share pixels and output channels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cuda/conv/conv_pool.cuh"
#include "backend/cuda/runtime/launch_error.h"

namespace brim::cuda {

constexpr int kMaxThreads = 512;

/// What both kinds of blocks read.
struct Incoming {
  ImageView<const float> dy;
  ImageView<const uint8_t> indices;
  ConvPoolSizes s;
};

struct ImageJob {
  const float* weight;
  ImageView<float> dx;
  int band, bands;                  // rows of a block, blocks of a plane
  int channels, channel_blocks;     // of a block; blocks of a group
  int outputs;                      // in shared memory at a time
  int splits;                       // threads that share a pixel's sum
  int tile_rows, pitch, positions;  // of the laid out gradient; rows * pitch
  Divisor columns;

  __host__ __device__ int items() const {
    return band * static_cast<int>(columns.divisor) * ((channels + 1) / 2);
  }
  __host__ __device__ int weights_of_output(const ConvPoolSizes& s) const {
    return s.taps() * ((channels + 1) / 2) * 2;
  }
  int64_t shared_floats(const ConvPoolSizes& s) const {
    return std::max<int64_t>(outputs * (int64_t{positions} + weights_of_output(s)),
                             int64_t{2} * (splits - 1) * items());
  }
  int blocks(const ConvPoolSizes& s) const { return s.n * s.groups * channel_blocks * bands; }
};

/// The gradient of the convolution's output (n, o, oy, ox): what the windows that it has won bring.
__device__ inline float gradient_at(const Incoming& in, int n, int o, int oy, int ox) {
  const ConvPoolSizes& s = in.s;
  float sum = 0;
  for (int wy = 0; wy < s.window.h; ++wy) {
    const int y = oy + s.margin.h - wy * s.spread.h;
    if (y < 0 || y % s.step.h != 0 || y / s.step.h >= s.ph) continue;
    for (int wx = 0; wx < s.window.w; ++wx) {
      const int x = ox + s.margin.w - wx * s.spread.w;
      if (x < 0 || x % s.step.w != 0 || x / s.step.w >= s.pw) continue;
      if (in.indices.at(n, o, y / s.step.h, x / s.step.w) == wy * s.window.w + wx)
        sum += in.dy.at(n, o, y / s.step.h, x / s.step.w);
    }
  }
  return sum;
}

/// Lays out the gradients of `outputs` channels from o on: position (r, column) is what the pixel
/// at (y0 + r, column) reads through the kernel's last tap. All threads of the block take part.
template <int kKernel>
__device__ void lay_out(const Incoming& in, const ImageJob& job, int n, int o, int outputs, int y0,
                        float* tile) {
  const ConvPoolSizes& s = in.s;
  const int threads = static_cast<int>(blockDim.x), t = static_cast<int>(threadIdx.x);
  const int top = y0 + s.padding.h - (s.kh - 1) * s.dilation.h;
  const int left = s.padding.w - (s.kw - 1) * s.dilation.w;
  const int count = outputs * job.positions;
  if constexpr (kKernel > 0) {
    // Each window has indices of its own: zeros everywhere, then one number for each window.
    for (int i = t; i < count; i += threads) tile[i] = 0;
    __syncthreads();
    const int py0 = std::max(0, top / 2);
    const int rows = std::max(0, std::min(s.ph, (top + job.tile_rows + 1) / 2) - py0);
    for (int i = t; i < outputs * rows * s.pw; i += threads) {
      const int own = i / (rows * s.pw), window = i % (rows * s.pw);
      const int py = py0 + window / s.pw, px = window % s.pw;
      const int place = in.indices.at(n, o + own, py, px);
      const float g = in.dy.at(n, o + own, py, px);
      const int y = 2 * py + place / 2 - top, x = 2 * px + place % 2 - left;
      if (place != backend::kNoIndex && y >= 0 && y < job.tile_rows && x >= 0 && x < job.pitch)
        tile[own * job.positions + y * job.pitch + x] = g;
    }
  } else {
    for (int i = t; i < count; i += threads) {
      const int own = i / job.positions, position = i % job.positions;
      const int y = top + position / job.pitch, x = left + position % job.pitch;
      const bool inside = y >= 0 && x >= 0 && y % s.stride.h == 0 && x % s.stride.w == 0 &&
                          y / s.stride.h < s.oh && x / s.stride.w < s.ow;
      tile[i] = inside ? gradient_at(in, n, o + own, y / s.stride.h, x / s.stride.w) : 0.0f;
    }
  }
}

template <int kKernel>
__device__ void image_gradient(const Incoming& in, const ImageJob& job, int block) {
  const ConvPoolSizes& s = in.s;
  const int band = block % job.bands;
  block /= job.bands;
  const int c0 = block % job.channel_blocks * job.channels;  // in the group
  block /= job.channel_blocks;
  const int group = block % s.groups, n = block / s.groups;
  const int channels = std::min(job.channels, s.channels - c0), pairs = (job.channels + 1) / 2;
  const int y0 = band * job.band, threads = static_cast<int>(blockDim.x);
  const int t = static_cast<int>(threadIdx.x), taps = s.taps();
  float* const tile = shared_memory<float>();                 // (output, row, pitch)
  float* const weights = tile + job.outputs * job.positions;  // (output, tap, channel)

  // Thread t: its split of the output channels, its two channels, its pixel.
  const int items = job.items(), split = t / items, item = t % items;
  const int pixels = job.band * s.w, pair = item / pixels, pixel = item % pixels;
  const int y = static_cast<int>(job.columns.quotient(static_cast<uint32_t>(pixel)));
  const int x = pixel - y * s.w;
  const bool works = split < job.splits;
  float sum[2] = {};
  for (int first = 0; first < s.outputs; first += job.outputs) {
    const int outputs = std::min(job.outputs, s.outputs - first);
    const int o = group * s.outputs + first;
    if (first > 0) __syncthreads();
    const int per_output = job.weights_of_output(s), count = outputs * channels * taps;
    for (int i = t; i < count; i += threads) {
      const int own = i / (channels * taps), rest = i % (channels * taps);
      const int c = rest / taps, tap = rest % taps;
      const int64_t at = (static_cast<int64_t>(o + own) * s.channels + c0 + c) * taps + tap;
      copy_async<4>(weights + own * per_output + tap * 2 * pairs + c, job.weight + at);
    }
    if (channels < 2 * pairs)
      for (int i = t; i < outputs * taps; i += threads)
        for (int c = channels; c < 2 * pairs; ++c)
          weights[i / taps * per_output + i % taps * 2 * pairs + c] = 0;
    lay_out<kKernel>(in, job, n, o, outputs, y0, tile);
    wait_for_copies();
    __syncthreads();
    if (!works) continue;
    for (int own = split; own < outputs; own += job.splits) {
      const float* const w = weights + own * per_output + 2 * pair;
      const float* const from = tile + own * job.positions + y * job.pitch + x;
      const int kh = kKernel > 0 ? kKernel : s.kh, kw = kKernel > 0 ? kKernel : s.kw;
      const int down = kKernel > 0 ? 1 : s.dilation.h, right = kKernel > 0 ? 1 : s.dilation.w;
#pragma unroll
      for (int ky = 0; ky < kh; ++ky)
#pragma unroll
        for (int kx = 0; kx < kw; ++kx) {
          const float g = from[(kh - 1 - ky) * down * job.pitch + (kw - 1 - kx) * right];
          if (g == 0) continue;
          sum[0] += g * w[(ky * kw + kx) * 2 * pairs];
          sum[1] += g * w[(ky * kw + kx) * 2 * pairs + 1];
        }
    }
  }
  if (job.splits > 1) {
    __syncthreads();
    float* const partial = tile;
    if (works && split > 0)
      for (int k = 0; k < 2; ++k) partial[((split - 1) * 2 + k) * items + item] = sum[k];
    __syncthreads();
    if (split == 0)
      for (int i = 0; i + 1 < job.splits; ++i)
        for (int k = 0; k < 2; ++k) sum[k] += partial[(i * 2 + k) * items + item];
  }
  if (split != 0 || y0 + y >= s.h) return;
  for (int k = 0; k < 2; ++k)
    if (2 * pair + k < channels)
      job.dx.at(n, group * s.channels + c0 + 2 * pair + k, y0 + y, x) = sum[k];
}

/// Cuts the work on dx until there are blocks enough and a block's pixels have a thread each.
inline void share(const ConvPoolSizes& s, ImageJob& job) {
  constexpr int kEnough = 132, kThreadsWanted = 256;
  const auto set = [&](int band, int channels) {
    job.band = band;
    job.bands = static_cast<int>(ceil_div(s.h, band));
    job.channels = channels;
    job.channel_blocks = static_cast<int>(ceil_div(s.channels, channels));
    job.tile_rows = band + (s.kh - 1) * s.dilation.h;
    job.positions = job.tile_rows * job.pitch;
    job.splits = std::clamp(kThreadsWanted / job.items(), 1, std::min(8, s.outputs));
    const int64_t of_output = 4 * (int64_t{job.positions} + job.weights_of_output(s));
    job.outputs = static_cast<int>(std::min<int64_t>(s.outputs, kConvPoolShared / of_output));
  };
  job.pitch = s.w + (s.kw - 1) * s.dilation.w;
  job.columns = Divisor(static_cast<uint32_t>(s.w));
  set(s.h, s.channels);
  const auto fits = [&] { return job.items() <= kMaxThreads && job.outputs > 0; };
  while (job.band > 1 && (job.blocks(s) < kEnough || !fits()))
    set(static_cast<int>(ceil_div(job.band, 2)), job.channels);
  while (job.channels > 2 && !fits()) set(1, static_cast<int>(ceil_div(job.channels, 2)));
  if (!fits())
    cannot_launch("conv2d_relu_pool_grad", "a row of the input does not fit shared memory");
}

}  // namespace brim::cuda
