// The gradient of conv2d + bias + relu + max_pool2d in one launch (see fused_conv.h), for
// convolutions of few channels. Two kinds of blocks:
// - dw and db: a block has one output channel, one input channel and a part of the images. Its
//   threads go through the windows: only a window's winner has a gradient, a quarter of the
//   convolution's outputs, and what it read lies in shared memory. A thread's sums over the taps
//   stay in registers and are added up in a fixed order at the end.
// - dx: a block has some rows of an image and some channels. It lays the winners' gradients out as
//   the convolution's gradient, in shared memory; its threads share pixels and output channels.
// Where images are cut into parts, a second kernel adds the parts, first to last. How work is cut
// depends on sizes alone, so results repeat themselves.
//
// The floor on an H200 is that of the launch (about 2 us) at batch 4, where the two layers of the
// tutorial's network take 0.4 M and 0.2 M multiply-adds for dw, and 1.9 M for dx. At batch 128, 11,
// 8 and 60 million: under 1 us and 2 us at 60 TFLOP/s, some 4 times that with a load from shared
// memory for each.
#include <algorithm>
#include <limits>
#include <optional>

#include "backend/cuda/conv_pool.cuh"
#include "backend/cuda/launch_error.h"
#include "backend/cuda/team.cuh"
#include "backend/kernel.h"

namespace brim::cuda {
namespace {

using backend::ConvPool;
using backend::kNoPlace;

constexpr int kMostThreads = 512;

/// What both kinds of blocks read.
struct Incoming {
  ImageView<const float> dy;
  ImageView<const uint8_t> places;
  ConvPoolSizes s;
};

// --- dw and db

struct WeightJob {
  ImageView<const float> x;
  float* dw;
  float* db;    // may be null
  float* sums;  // (parts, dw and db) where there are several parts
  TileRows rows;
  int chunks;        // of the taps
  int parts, part;   // parts of the images; images in each
  int images;        // of these in shared memory at a time
  int64_t dw_count;  // elements of dw
  Divisor windows, windows_of_row;

  int blocks(const ConvPoolSizes& s) const {
    return s.groups * s.outputs * s.channels * chunks * parts;
  }
};

/// Taps that a thread sums at once.
template <int kKernel>
constexpr int kTapsAtOnce = kKernel > 0 ? kKernel* kKernel : 8;

template <int kKernel>
__device__ void add_weights(const Incoming& in, const WeightJob& job, int block) {
  constexpr int kTaps = kTapsAtOnce<kKernel>;
  const ConvPoolSizes& s = in.s;
  const int part = block % job.parts;
  block /= job.parts;
  const int chunk = block % job.chunks;
  block /= job.chunks;
  const int c = block % s.channels, o = block / s.channels, group = o / s.outputs;
  const int first_tap = chunk * kTaps, taps = std::min(kTaps, s.taps() - first_tap);
  const int plane = (s.h + 2 * s.padding.h) * job.rows.pitch;
  float* const tile = shared_memory<float>();

  int offset[kTaps];
#pragma unroll
  for (int t = 0; t < kTaps; ++t) {
    const int tap = first_tap + std::min(t, taps - 1);
    offset[t] = kKernel > 0
                    ? t / std::max(kKernel, 1) * job.rows.pitch + t % std::max(kKernel, 1)
                    : tap / s.kw * s.dilation.h * job.rows.pitch + tap % s.kw * s.dilation.w;
  }
  float sum[kTaps + 1] = {};  // the last: of the gradients themselves
  const int end = std::min(s.n, (part + 1) * job.part);
  const int threads = static_cast<int>(blockDim.x);
  for (int n = part * job.part; n < end; n += job.images) {
    const int images = std::min(job.images, end - n);
    for (int i = 0; i < images; ++i)
      load_rows(job.x, s, job.rows, n + i, group * s.channels + c, 1, -s.padding.h,
                s.h + 2 * s.padding.h, tile + i * plane);
    wait_for_copies();
    __syncthreads();
    const int windows = images * s.ph * s.pw;
    for (int i = static_cast<int>(threadIdx.x); i < windows; i += threads) {
      const int image = static_cast<int>(job.windows.quotient(static_cast<uint32_t>(i)));
      const int window = i - image * s.ph * s.pw;
      const int py = static_cast<int>(job.windows_of_row.quotient(static_cast<uint32_t>(window)));
      const int px = window - py * s.pw;
      const int place = in.places.at(n + image, o, py, px);
      const float g = in.dy.at(n + image, o, py, px);
      if (place == kNoPlace || g == 0) continue;
      const int wy = kKernel > 0 ? place / 2 : place / s.window.w;
      const int wx = kKernel > 0 ? place % 2 : place - wy * s.window.w;
      const int oy = py * s.step.h - s.margin.h + wy * s.spread.h;
      const int ox = px * s.step.w - s.margin.w + wx * s.spread.w;
      const float* const seen =
          tile + image * plane + oy * s.stride.h * job.rows.pitch + ox * s.stride.w;
#pragma unroll
      for (int t = 0; t < kTaps; ++t) sum[t] += g * seen[offset[t]];
      sum[kTaps] += g;
    }
    __syncthreads();
  }

  // Lanes, then warps. The tile's memory is free.
  const int warps = threads / kWarpThreads, warp = static_cast<int>(threadIdx.x) / kWarpThreads;
#pragma unroll
  for (int t = 0; t <= kTaps; ++t) {
    sum[t] = combine_lanes(sum[t], kWarpThreads, [](float a, float b) { return a + b; });
    if (threadIdx.x % kWarpThreads == 0) tile[t * warps + warp] = sum[t];
  }
  __syncthreads();
  for (int t = static_cast<int>(threadIdx.x); t <= kTaps; t += threads) {
    float total = tile[t * warps];
    for (int i = 1; i < warps; ++i) total += tile[t * warps + i];
    const int64_t at = (static_cast<int64_t>(o) * s.channels + c) * s.taps() + first_tap + t;
    float* const sums = job.sums + part * (job.dw_count + s.groups * s.outputs);
    if (t < taps) (job.parts > 1 ? sums : job.dw)[at] = total;
    if (t == kTaps && c == 0 && chunk == 0 && job.db)
      (job.parts > 1 ? sums + job.dw_count : job.db)[o] = total;
  }
}

/// Adds the parts of dw and db.
__global__ void add_weight_parts(WeightJob job, int outputs) {
  const int64_t count = job.dw_count + outputs;
  for (int64_t i = first_index(); i < (job.db ? count : job.dw_count); i += grid_size()) {
    float total = job.sums[i];
    for (int part = 1; part < job.parts; ++part) total += job.sums[part * count + i];
    (i < job.dw_count ? job.dw[i] : job.db[i - job.dw_count]) = total;
  }
}

// --- dx

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
      if (in.places.at(n, o, y / s.step.h, x / s.step.w) == wy * s.window.w + wx)
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
    // Each window has places of its own: zeros everywhere, then one number for each window.
    for (int i = t; i < count; i += threads) tile[i] = 0;
    __syncthreads();
    const int py0 = std::max(0, top / 2);
    const int rows = std::max(0, std::min(s.ph, (top + job.tile_rows + 1) / 2) - py0);
    for (int i = t; i < outputs * rows * s.pw; i += threads) {
      const int own = i / (rows * s.pw), window = i % (rows * s.pw);
      const int py = py0 + window / s.pw, px = window % s.pw;
      const int place = in.places.at(n, o + own, py, px);
      const float g = in.dy.at(n, o + own, py, px);
      const int y = 2 * py + place / 2 - top, x = 2 * px + place % 2 - left;
      if (place != kNoPlace && y >= 0 && y < job.tile_rows && x >= 0 && x < job.pitch)
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
    float* const room = tile;
    if (works && split > 0)
      for (int k = 0; k < 2; ++k) room[((split - 1) * 2 + k) * items + item] = sum[k];
    __syncthreads();
    if (split == 0)
      for (int i = 0; i + 1 < job.splits; ++i)
        for (int k = 0; k < 2; ++k) sum[k] += room[(i * 2 + k) * items + item];
  }
  if (split != 0 || y0 + y >= s.h) return;
  for (int k = 0; k < 2; ++k)
    if (2 * pair + k < channels)
      job.dx.at(n, group * s.channels + c0 + 2 * pair + k, y0 + y, x) = sum[k];
}

/// The first `image_blocks` blocks make dx, the others dw and db.
template <int kKernel>
__global__ void __launch_bounds__(kMostThreads)
    conv_pool_grad_kernel(Incoming in, WeightJob weights, ImageJob image, int image_blocks) {
  const int block = static_cast<int>(blockIdx.x);
  if (block < image_blocks)
    image_gradient<kKernel>(in, image, block);
  else
    add_weights<kKernel>(in, weights, block - image_blocks);
}

/// Cuts the work on dw: parts of about a thousand windows, which a block goes through quickly.
void share(const ConvPoolSizes& s, int taps_at_once, WeightJob& job) {
  job.chunks = static_cast<int>(ceil_div(s.taps(), taps_at_once));
  job.windows = Divisor(static_cast<uint32_t>(std::max(1, s.windows())));
  job.windows_of_row = Divisor(static_cast<uint32_t>(std::max(1, s.pw)));
  job.dw_count = int64_t{s.groups} * s.outputs * s.channels * s.taps();
  const int64_t wanted = ceil_div(int64_t{s.n} * s.windows(), 1024);
  job.part = static_cast<int>(ceil_div(s.n, std::clamp<int64_t>(wanted, 1, std::max(s.n, 1))));
  job.part = std::max(job.part, 1);
  job.parts = static_cast<int>(std::max<int64_t>(1, ceil_div(s.n, job.part)));
  const int64_t plane = 4 * int64_t{s.h + 2 * s.padding.h} * job.rows.pitch;
  job.images = static_cast<int>(std::min<int64_t>(kConvPoolShared / plane, job.part));
}

/// Cuts the work on dx until there are blocks enough and a block's pixels have a thread each.
void share(const ConvPoolSizes& s, ImageJob& job) {
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
  const auto fits = [&] { return job.items() <= kMostThreads && job.outputs > 0; };
  while (job.band > 1 && (job.blocks(s) < kEnough || !fits()))
    set(static_cast<int>(ceil_div(job.band, 2)), job.channels);
  while (job.channels > 2 && !fits()) set(1, static_cast<int>(ceil_div(job.channels, 2)));
  if (!fits())
    cannot_launch("conv2d_relu_pool_grad", "a row of the input does not fit shared memory");
}

template <int kKernel>
void run(const Context& context, const Tensor& x, const Tensor& weight, const Incoming& in,
         Tensor& dx, Tensor& dw, Tensor& db) {
  const ConvPoolSizes& s = in.s;
  WeightJob weights{.x = ImageView<const float>(x),
                    .dw = static_cast<float*>(dw.raw()),
                    .db = db.defined() ? static_cast<float*>(db.raw()) : nullptr,
                    .rows = TileRows(s, x)};
  share(s, kTapsAtOnce<kKernel>, weights);
  if (s.n > 0 && weights.images == 0)
    cannot_launch("conv2d_relu_pool_grad", "a plane of the input does not fit shared memory");
  ImageJob image{.weight = static_cast<const float*>(weight.raw()),
                 .dx = ImageView<float>(dx.defined() ? dx : x)};
  int64_t threads = std::clamp<int64_t>(round_up(int64_t{weights.part} * s.windows(), 32), 32, 256);
  int64_t shared =
      std::max<int64_t>(int64_t{weights.images} * (s.h + 2 * s.padding.h) * weights.rows.pitch,
                        (kTapsAtOnce<kKernel> + 1) * (kMostThreads / 32));
  int image_blocks = 0;
  if (dx.defined() && dx.numel() > 0) {
    share(s, image);
    image_blocks = image.blocks(s);
    threads = std::max(threads, round_up(int64_t{image.items()} * image.splits, 32));
    shared = std::max(shared, image.shared_floats(s));
  }
  std::optional<Workspace> sums;
  if (weights.parts > 1) {
    const int64_t count = weights.dw_count + s.groups * s.outputs;
    sums.emplace(static_cast<size_t>(weights.parts * count) * sizeof(float), context.stream,
                 context.scratch);
    weights.sums = sums->as<float>();
  }
  const Grid grid{dim3(static_cast<unsigned>(image_blocks + weights.blocks(s))),
                  dim3(static_cast<unsigned>(threads)), static_cast<size_t>(shared) * 4};
  launch_blocks(context, &conv_pool_grad_kernel<kKernel>, grid, in, weights, image, image_blocks);
  if (weights.parts > 1)
    launch(context, &add_weight_parts, grid_for(weights.dw_count), weights, s.groups * s.outputs);
}

void conv_relu_pool_grad(const Context& context, const Tensor& x, const Tensor& weight,
                         const Tensor& dy, const Tensor& places, Tensor& dx, Tensor& dw, Tensor& db,
                         const ConvPool& g) {
  const Incoming in{ImageView<const float>(dy), ImageView<const uint8_t>(places), ConvPoolSizes(g)};
  if (dw.numel() == 0) return;
  const int fast = in.s.fast_kernel();
  (fast == 5 ? &run<5> : fast == 3 ? &run<3> : &run<0>)(context, x, weight, in, dx, dw, db);
}

const bool registered = backend::register_kernel("conv2d_relu_pool_grad", DeviceKind::cuda,
                                                 DType::f32, &conv_relu_pool_grad);

}  // namespace
}  // namespace brim::cuda
