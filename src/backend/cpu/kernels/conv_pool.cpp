// conv2d + bias + relu + max_pool2d in one kernel (see fused_conv.h). Two ways, by the shape:
// - by positions (few output channels): vectors hold neighbouring windows, one vector for each
//   place in the window, so pooling is a plain maximum of vectors. The input is laid out in the
//   phases of the pool's stride; then each row of windows continues the one before, and narrow
//   planes fill their vectors too.
// - by channels (many): vectors hold output channels, the input is broadcast. Any pool geometry:
//   a band of the convolution's rows goes through the cache into the pool.
#include "backend/fused/fused_conv.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/conv_pool.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <limits>

#include "backend/cpu/conv/conv_pool_copy-inl.h"
#include "backend/cpu/conv/conv_pool_tiles-inl.h"
#include "backend/cpu/conv/image_layout.h"
#include "backend/cpu/runtime/parallel.h"
#include "backend/cpu/runtime/scratch.h"
#include "backend/has_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

using backend::ConvGeometry;
using backend::ConvPool;
using backend::PoolGeometry;

/// Windows that neither overlap nor leave the convolution's output.
bool is_plain(const PoolGeometry& p) {
  return p.padding == Pair(0) && (p.dilation == Pair(1) || p.kernel == Pair(1)) &&
         p.kernel.h <= p.stride.h && p.kernel.w <= p.stride.w &&
         (p.oh - 1) * p.stride.h + p.kernel.h <= p.h && (p.ow - 1) * p.stride.w + p.kernel.w <= p.w;
}

/// The input as windows of the pool read it: a step from window to window is a step of 1.
PhasedPlanes windowed_planes(const ConvPool& g) {
  const ConvGeometry& c = g.conv;
  const PoolGeometry& p = g.pool;
  const auto used = [](int64_t out, int64_t kernel, int64_t stride, int64_t conv_stride,
                       int64_t conv_kernel, int64_t dilation) {
    return ((out - 1) * stride + kernel - 1) * conv_stride + (conv_kernel - 1) * dilation + 1;
  };
  return {c.c_per_group(),
          c.h,
          c.w,
          {used(p.oh, p.kernel.h, p.stride.h, c.stride.h, c.kh, c.dilation.h),
           used(p.ow, p.kernel.w, p.stride.w, c.stride.w, c.kw, c.dilation.w)},
          c.padding,
          {p.stride.h * c.stride.h, p.stride.w * c.stride.w}};
}

/// The way with fewer vector multiplications.
bool by_positions_is_cheaper(const ConvPool& g) {
  if (!is_plain(g.pool)) return false;
  const int64_t out = g.conv.o_per_group(),
                windows = (g.pool.oh - 1) * windowed_planes(g).wide + g.pool.ow;
  const int64_t by_positions =
      ceil_div(windows, kLanes) * out * ceil_div(g.pool.kernel.h * g.pool.kernel.w, 4) * 4;
  return by_positions < g.conv.oh * g.conv.ow * ceil_div(out, kLanes);
}

/// Multiply-adds that are worth another thread.
constexpr int64_t kGrainWork = int64_t{1} << 17;

int64_t grain_of(int64_t units, const ConvGeometry& g) {
  const int64_t unit_work = g.work() / std::max<int64_t>(units, 1);
  return std::max<int64_t>(1, kGrainWork / std::max<int64_t>(unit_work, 1));
}

float bias_at(const Tensor& bias, int64_t o) {
  return bias.defined() ? static_cast<const float*>(bias.raw())[o * bias.strides()[0]] : 0.0f;
}

void by_positions(const Context& context, const Tensor& x, const Tensor& weight, const Tensor& bias,
                  Tensor& y, Tensor& indices, const ConvPool& g) {
  const ConvGeometry& c = g.conv;
  const PoolGeometry& p = g.pool;
  const PhasedPlanes planes = windowed_planes(g);
  const int64_t out = c.o_per_group(), taps = planes.channels * c.kh * c.kw;
  const int64_t block_count = ceil_div(out, kPositionChannels);
  const int64_t block = ceil_div(out, block_count), blocks = ceil_div(out, block);
  const int64_t quads = ceil_div(p.kernel.h * p.kernel.w, 4);

  // Weights as (output channels' block, tap, channel of the block); four offsets for each tap.
  const Workspace memory = context.workspace(room_for<float>(c.o * taps) + room_for<float>(c.o) +
                                             room_for<int64_t>(quads * taps * 4));
  float* packed = memory.as<float>();
  float* biases = behind<float>(packed, c.o * taps);
  int64_t* offsets = behind<int64_t>(biases, c.o);
  const float* weights = static_cast<const float*>(weight.raw());
  for (int64_t o = 0; o < c.o; ++o) {
    const int64_t within = o % out, first = o - within + within / block * block;
    const int64_t count = std::min(block, out - (first - (o - within)));
    for (int64_t t = 0; t < taps; ++t)
      packed[first * taps + t * count + (o - first)] = weights[o * taps + t];
    biases[o] = bias_at(bias, o);
  }
  for (int64_t i = 0; i < quads * 4; ++i) {
    const int64_t place = std::min(i, p.kernel.h * p.kernel.w - 1);  // the last one is repeated
    const int64_t wy = place / p.kernel.w * c.stride.h, wx = place % p.kernel.w * c.stride.w;
    int64_t* at = offsets + i / 4 * taps * 4 + i % 4;
    for (int64_t channel = 0; channel < planes.channels; ++channel)
      for (int64_t ky = 0; ky < c.kh; ++ky)
        for (int64_t kx = 0; kx < c.kw; ++kx, at += 4)
          *at = planes.offset(channel, wy + ky * c.dilation.h, wx + kx * c.dilation.w);
  }

  const int64_t windows = (p.oh - 1) * planes.wide + p.ow;  // up to the last useful one
  const int64_t ld = ceil_div(windows, kLanes) * kLanes;
  const int64_t image_size = planes.size() + ld + kLanes, rows_size = block * ld + 16;
  const int64_t units = c.n * c.groups * blocks, grain = grain_of(units, c);
  const PartScratch scratch(
      context, units, grain,
      room_for<float>(image_size) + room_for<float>(rows_size) + room_for<uint8_t>(rows_size));
  parallel_for(units, grain, [&](int64_t begin, int64_t end) {
    const PartScratch::Slot slot(scratch);
    float* image = slot.as<float>();
    float* rows = behind<float>(image, image_size);
    uint8_t* marks = behind<uint8_t>(rows, rows_size);
    std::fill_n(image, image_size, 0.0f);  // what images leave free stays zero
    int64_t loaded = -1;
    for (int64_t u = begin; u < end; ++u) {
      const int64_t plane = u / blocks, n = plane / c.groups, group = plane % c.groups;
      if (plane != loaded)
        planes.lay_out(image_of<const float>(x, n, group * planes.channels), image, split_pairs);
      loaded = plane;
      const int64_t first = u % blocks * block, count = std::min(block, out - first);
      const int64_t o = group * out + first;
      const bool another = x.is_contiguous() && u % blocks == 0 && u + blocks < end;
      const int64_t image_bytes = planes.channels * c.h * c.w * static_cast<int64_t>(sizeof(float));
      const Ahead ahead{static_cast<const char*>(x.raw()) + (plane + 1) * image_bytes,
                        another ? image_bytes : 0};
      with_constant<kPositionChannels>(
          count, PositionTile{image, packed + o * taps, biases + o, offsets, taps, quads,
                              p.kernel.h * p.kernel.w, windows, ld, g.relu, rows, marks, ahead});
      const WidePlanes<float> values{rows, ld, planes.wide, count, p.oh, p.ow};
      const WidePlanes<uint8_t> numbers{marks, ld, planes.wide, count, p.oh, p.ow};
      const Image<float> to = image_of<float>(y, n, o);
      const Image<uint8_t> to_marks = image_of<uint8_t>(indices, n, o);
      y.is_contiguous() ? values.pack(to.at) : values.scatter(to);
      indices.is_contiguous() ? numbers.pack(to_marks.at) : numbers.scatter(to_marks);
    }
  });
}

/// Where windows of the by-channels way find their numbers: `rows` holds (rows of the convolution
/// from `first` on, columns, channels).
struct Band {
  const float* rows;
  int64_t first, channels;
};

/// One window: vectors of `count` channels into `y` and `marks` (in the window, kNoIndex: none).
void pool_window(const Band& band, const ConvPool& g, int64_t py, int64_t px, float* y,
                 uint8_t* marks) {
  const PoolGeometry& p = g.pool;
  const F32 d;
  const int64_t y0 = py * p.stride.h - p.padding.h, x0 = px * p.stride.w - p.padding.w;
  for (int64_t at = 0; at < band.channels; at += kLanes) {
    RunningMax best;
    for (int64_t ky = 0; ky < p.kernel.h; ++ky) {
      const int64_t iy = y0 + ky * p.dilation.h;
      if (iy < 0 || iy >= p.h) continue;
      for (int64_t kx = 0; kx < p.kernel.w; ++kx) {
        const int64_t ix = x0 + kx * p.dilation.w;
        if (ix < 0 || ix >= p.w) continue;
        best.consider(hn::LoadU(d, band.rows + ((iy - band.first) * p.w + ix) * band.channels + at),
                      ky * p.kernel.w + kx);
      }
    }
    best.store(g.relu, y + at, marks + at);
  }
}

void by_channels(const Context& context, const Tensor& x, const Tensor& weight, const Tensor& bias,
                 Tensor& y, Tensor& indices, const ConvPool& g) {
  const ConvGeometry& c = g.conv;
  const PoolGeometry& p = g.pool;
  const int64_t out = c.o_per_group(), channels = c.c_per_group();
  const int64_t taps = channels * c.kh * c.kw;
  const int64_t vectors = ceil_div(out, kLanes), per_tile = vectors % 2 == 0 ? 2 : 1;
  const int64_t block = per_tile * kLanes, blocks = vectors / per_tile;

  // The input is read in place where it lies as the tiles want it.
  const Image<const float> sample = image_of<const float>(x, 0, 0);
  const bool in_place = c.stride == Pair(1) && c.padding == Pair(0) && sample.column == 1;
  const PhasedPlanes planes(channels, c.h, c.w,
                            {(c.oh - 1) * c.stride.h + (c.kh - 1) * c.dilation.h + 1,
                             (c.ow - 1) * c.stride.w + (c.kw - 1) * c.dilation.w + 1},
                            c.padding, c.stride);

  const Workspace memory = context.workspace(
      room_for<float>(c.groups * blocks * (taps + 1) * block) + room_for<int64_t>(taps));
  float* packed = memory.as<float>();  // (group, block, bias and taps, channel of the block)
  int64_t* offsets = behind<int64_t>(packed, c.groups * blocks * (taps + 1) * block);
  const float* weights = static_cast<const float*>(weight.raw());
  for (int64_t u = 0; u < c.groups * blocks; ++u) {
    float* to = packed + u * (taps + 1) * block;
    const int64_t first = u % blocks * block, count = std::min(block, out - first);
    const int64_t o = u / blocks * out + first;
    if (count < block) std::fill_n(to, (taps + 1) * block, 0.0f);
    for (int64_t i = 0; i < count; ++i) to[i] = bias_at(bias, o + i);
    transpose(weights + o * taps, taps, count, taps, to + block, block);
  }
  for (int64_t channel = 0, t = 0; channel < channels; ++channel)
    for (int64_t ky = 0; ky < c.kh; ++ky)
      for (int64_t kx = 0; kx < c.kw; ++kx, ++t) {
        const int64_t dy = ky * c.dilation.h, dx = kx * c.dilation.w;
        offsets[t] = in_place ? channel * sample.channel + dy * sample.row + dx
                              : planes.offset(channel, dy, dx);
      }

  // Bands of pool rows whose rows of the convolution stay in the L1 cache.
  const int64_t row_bytes = c.ow * block * static_cast<int64_t>(sizeof(float));
  const int64_t reach = (p.kernel.h - 1) * p.dilation.h + 1;
  const int64_t band = std::clamp<int64_t>((32 << 10) / (row_bytes * p.stride.h), 1, p.oh);
  const int64_t bands = ceil_div(p.oh, band);
  const int64_t conv_rows = std::min(c.oh, (band - 1) * p.stride.h + reach);
  const int64_t image_size = in_place ? 0 : planes.size();
  const int64_t units = c.n * c.groups * blocks * bands, grain = grain_of(units, c);
  const PartScratch scratch(
      context, units, grain,
      room_for<float>(image_size) + room_for<float>(conv_rows * c.ow * block) +
          room_for<float>(band * p.ow * block) + room_for<uint8_t>(band * p.ow * block));
  parallel_for(units, grain, [&](int64_t begin, int64_t end) {
    const PartScratch::Slot slot(scratch);
    float* image = slot.as<float>();
    float* rows = behind<float>(image, image_size);
    float* pooled = behind<float>(rows, conv_rows * c.ow * block);
    uint8_t* marks = behind<uint8_t>(pooled, band * p.ow * block);
    std::fill_n(image, image_size, 0.0f);
    int64_t loaded = -1;
    for (int64_t u = begin; u < end; ++u) {
      const int64_t plane = u / (blocks * bands), n = plane / c.groups, group = plane % c.groups;
      const Image<const float> from = image_of<const float>(x, n, group * channels);
      if (plane != loaded && !in_place) planes.lay_out(from, image, split_pairs);
      loaded = plane;
      const int64_t py0 = u % bands * band, py1 = std::min(p.oh, py0 + band);
      const int64_t first = std::max<int64_t>(0, py0 * p.stride.h - p.padding.h);
      const int64_t last = std::min(c.oh, (py1 - 1) * p.stride.h - p.padding.h + reach);
      const int64_t in_group = u / bands % blocks;
      const ChannelTiles tiles{in_place ? from.at : image,
                               in_place ? sample.row : planes.wide,
                               c.ow,
                               packed + (group * blocks + in_group) * (taps + 1) * block,
                               offsets,
                               taps,
                               rows};
      tiles.rows(per_tile, first, last);
      for (int64_t py = py0; py < py1; ++py)
        for (int64_t px = 0; px < p.ow; ++px) {
          const int64_t at = ((py - py0) * p.ow + px) * block;
          pool_window(Band{rows, first, block}, g, py, px, pooled + at, marks + at);
        }
      const int64_t o = group * out + in_group * block;
      const int64_t count = std::min(block, out - in_group * block);
      write_channels(pooled, block, count, py1 - py0, p.ow, image_of<float>(y, n, o), py0);
      write_channels(marks, block, count, py1 - py0, p.ow, image_of<uint8_t>(indices, n, o), py0);
    }
  });
}

void conv_relu_pool(const Context& context, const Tensor& x, const Tensor& weight,
                    const Tensor& bias, Tensor& y, Tensor& indices, const ConvPool& g) {
  if (y.numel() == 0) return;
  if (by_positions_is_cheaper(g))
    by_positions(context, x, weight, bias, y, indices, g);
  else
    by_channels(context, x, weight, bias, y, indices, g);
}

void register_conv_pool() {
  constexpr DeviceKind cpu = DeviceKind::cpu;
  backend::register_kernel("conv2d_relu_pool", cpu, DType::f32, &conv_relu_pool);
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::cpu {
HWY_EXPORT(register_conv_pool);
// Few channels leave vectors empty; beyond half a million weights oneDNN and Winograd were faster.
static const bool registered =
    (HWY_DYNAMIC_DISPATCH(register_conv_pool)(), true) &&
    backend::register_limit<backend::ConvPool>(
        "conv2d_relu_pool", DeviceKind::cpu, [](const backend::ConvPool& g) {
          return g.conv.weight_shape().numel() <= int64_t{1} << 19;
        });
}  // namespace brim::cpu
#endif
