// The gradient of conv2d + bias + relu + max_pool2d in one launch (see fused_conv.h), for
// convolutions of few channels. Two kinds of blocks:
// - dw and db: a block has one output channel, one input channel and a part of the images. Its
//   threads go through the windows: only a window's maximum has a gradient, a quarter of the
//   convolution's outputs, and what it read lies in shared memory. A thread's sums over the taps
//   stay in registers and are added up in a fixed order at the end.
// - dx: a block has some rows of an image and some channels. It lays the maxima' gradients out as
//   the convolution's gradient, in shared memory; its threads share pixels and output channels.
// Where images are cut into parts, a second kernel adds the parts (parts.cuh). How work is cut
// depends on sizes alone, so results repeat themselves.
//
// The floor on an H200 is that of the launch (about 2 us) at batch 4, where the two layers of the
// tutorial's network take 0.4 M and 0.2 M multiply-adds for dw, and 1.9 M for dx. At batch 128, 11,
// 8 and 60 million: under 1 us and 2 us at 60 TFLOP/s, some 4 times that with a load from shared
// memory for each.
#include <algorithm>
#include <limits>
#include <optional>

#include "backend/cuda/conv/conv_pool_image_grad.cuh"
#include "backend/cuda/device/thread_group.cuh"
#include "backend/cuda/reduce/parts.cuh"
#include "backend/cuda/runtime/launch_error.h"
#include "backend/kernel.h"

namespace brim::cuda {
namespace {

using backend::ConvPool;
using backend::kNoIndex;

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
      const int index = in.indices.at(n + image, o, py, px);
      const float g = in.dy.at(n + image, o, py, px);
      if (index == kNoIndex || g == 0) continue;
      const int wy = kKernel > 0 ? index / 2 : index / s.window.w;
      const int wx = kKernel > 0 ? index % 2 : index - wy * s.window.w;
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

/// Where the sums of dw and db go.
struct StoreWeights {
  float* dw;
  float* db;  // may be null
  int64_t dw_count;

  __device__ void operator()(int64_t i, float sum) const {
    if (i < dw_count)
      dw[i] = sum;
    else if (db)
      db[i - dw_count] = sum;
  }
};

/// The first `image_blocks` blocks make dx, the others dw and db.
template <int kKernel>
__global__ void __launch_bounds__(kMaxThreads)
    conv_pool_grad_kernel(Incoming in, WeightJob weights, ImageJob image, int image_blocks) {
  begin_kernel();
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
                        (kTapsAtOnce<kKernel> + 1) * (kMaxThreads / 32));
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
    add_parts(context, static_cast<const float*>(weights.sums), weights.parts,
              weights.dw_count + s.groups * s.outputs,
              StoreWeights{weights.dw, weights.db, weights.dw_count});
}

void conv_relu_pool_grad(const Context& context, const Tensor& x, const Tensor& weight,
                         const Tensor& dy, const Tensor& indices, Tensor& dx, Tensor& dw,
                         Tensor& db, const ConvPool& g) {
  const Incoming in{ImageView<const float>(dy), ImageView<const uint8_t>(indices),
                    ConvPoolSizes(g)};
  if (dw.numel() == 0) return;
  const int fast = in.s.fast_kernel();
  (fast == 5 ? &run<5> : fast == 3 ? &run<3> : &run<0>)(context, x, weight, in, dx, dw, db);
}

const bool registered = backend::register_kernel("conv2d_relu_pool_grad", DeviceKind::cuda,
                                                 DType::f32, &conv_relu_pool_grad);

}  // namespace
}  // namespace brim::cuda
