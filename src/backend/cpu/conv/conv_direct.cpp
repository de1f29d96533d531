// Register tiles of direct convolution (see conv_direct.h). Forward: a few output channels times a
// few vectors of positions; gradient of the weight: a few output channels times a few taps.
#include "backend/cpu/conv/conv_direct.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/conv/conv_direct.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/conv/conv_layout.h"
#include "backend/cpu/runtime/parallel.h"
#include "backend/cpu/runtime/scratch.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using backend::ConvGeometry;

#if HWY_TARGET <= HWY_AVX3
constexpr int kMaxBlock = 8;  // output channels of a tile
constexpr int positions_of(int block) { return block >= 7 ? 3 : block >= 5 ? 4 : 6; }
constexpr int taps_of(int block) { return block >= 7 ? 3 : block >= 6 ? 4 : block >= 5 ? 5 : 6; }
#else
constexpr int kMaxBlock = 6;
constexpr int positions_of(int block) { return block >= 5 ? 2 : block >= 4 ? 3 : 4; }
constexpr int taps_of(int block) { return block >= 5 ? 2 : block >= 4 ? 3 : 4; }
#endif

constexpr int64_t kCacheBytes = 64 << 10;  // a little more than L1: slack counts, and L2 is near

/// Output channels split into equal blocks of at most kMaxBlock.
struct Blocks {
  int64_t count, size;
  explicit Blocks(int64_t channels)
      : count(ceil_div(channels, kMaxBlock)), size(ceil_div(channels, count)) {
    count = ceil_div(channels, size);
  }
};

/// Calls f.template operator()<B>() with B = block, 1 <= block <= kMaxBlock.
template <class F>
HWY_INLINE void with_block(int64_t block, const F& f) {
  switch (block) {
    case 1:
      return f.template run<1>();
    case 2:
      return f.template run<2>();
    case 3:
      return f.template run<3>();
    case 4:
      return f.template run<4>();
    case 5:
      return f.template run<5>();
    case 6:
      return f.template run<6>();
#if HWY_TARGET <= HWY_AVX3
    case 7:
      return f.template run<7>();
    default:
      return f.template run<8>();
#else
    default:
      return;
#endif
  }
}

/// `B` output channels of one image: wide rows into `out` (rows `ld` apart).
template <class T>
struct ForwardTile {
  const T* image;    // laid out
  const T* weights;  // (taps, B)
  const T* bias;     // B numbers or null
  const int64_t* taps;
  int64_t tap_count, positions;
  T* out;
  int64_t ld;

  template <int B>
  void run() const {
    constexpr int V = positions_of(B);
    const hn::ScalableTag<T> d;
    using Vec = hn::Vec<decltype(d)>;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    for (int64_t p = 0; p < positions; p += V * lanes) {
      Vec acc[B][V];
      for (int b = 0; b < B; ++b)
        for (int v = 0; v < V; ++v) acc[b][v] = bias ? hn::Set(d, bias[b]) : hn::Zero(d);
      const T* HWY_RESTRICT at = image + p;
      const T* HWY_RESTRICT w = weights;
      for (int64_t t = 0; t < tap_count; ++t, w += B) {
        const T* x = at + taps[t];
        Vec in[V];
        for (int v = 0; v < V; ++v) in[v] = hn::LoadU(d, x + v * lanes);
        for (int b = 0; b < B; ++b) {
          const Vec wb = hn::Set(d, w[b]);
          for (int v = 0; v < V; ++v) acc[b][v] = hn::MulAdd(wb, in[v], acc[b][v]);
        }
      }
      for (int b = 0; b < B; ++b)
        for (int v = 0; v < V; ++v) hn::StoreU(acc[b][v], d, out + b * ld + p + v * lanes);
    }
  }
};

/// Adds the gradient of the weights of `B` output channels, summed over `images` images.
template <class T>
struct WeightTile {
  const T* image;  // laid out, `image_step` apart
  const T* dy;     // wide, zeros where unused, rows `ld` apart, images `dy_step` apart
  int64_t images, image_step, dy_step, ld;
  const int64_t* taps;
  int64_t tap_count, positions;
  T* dw;  // (B, tap_count)

  template <int B>
  void run() const {
    constexpr int S = taps_of(B);
    const hn::ScalableTag<T> d;
    using Vec = hn::Vec<decltype(d)>;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    for (int64_t t = 0; t < tap_count; t += S) {
      Vec acc[B][S];
      for (int b = 0; b < B; ++b)
        for (int s = 0; s < S; ++s) acc[b][s] = hn::Zero(d);
      int64_t offset[S];  // the last tap is repeated where the tile is not full
      for (int s = 0; s < S; ++s) offset[s] = taps[std::min(t + s, tap_count - 1)];
      for (int64_t i = 0; i < images; ++i) {
        const T* HWY_RESTRICT x = image + i * image_step;
        const T* HWY_RESTRICT g = dy + i * dy_step;
        for (int64_t p = 0; p < positions; p += lanes) {
          Vec grad[B];
          for (int b = 0; b < B; ++b) grad[b] = hn::LoadU(d, g + b * ld + p);
          for (int s = 0; s < S; ++s) {
            const Vec in = hn::LoadU(d, x + offset[s] + p);
            for (int b = 0; b < B; ++b) acc[b][s] = hn::MulAdd(in, grad[b], acc[b][s]);
          }
        }
      }
      for (int s = 0; s < S && t + s < tap_count; ++s)
        for (int b = 0; b < B; ++b)
          dw[b * tap_count + t + s] += hn::GetLane(hn::SumOfLanes(d, acc[b][s]));
    }
  }
};

/// Elements that a tile may read or write beyond the last position.
template <class T>
int64_t slack() {
  return 8 * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
}

/// y (n, groups * out, oh, ow) = correlation of images (n, groups * channels, h, w), laid out as
/// `layout`, with `packed` weights (groups, blocks, taps, block).
template <class T>
void correlate(const Context& context, const WideLayout& layout, int64_t n, int64_t groups,
               int64_t out, const T* images, const T* packed, const ConvEpilogue<T>& epilogue,
               T* y) {
  const Blocks blocks(out);
  const Workspace offsets = context.workspace(static_cast<size_t>(layout.taps()) * sizeof(int64_t));
  int64_t* const taps = offsets.as<int64_t>();
  layout.tap_offsets(taps);
  const int64_t tap_count = layout.taps(), wide = layout.wide(), area = layout.oh * layout.ow;
  const int64_t ld = layout.positions() + slack<T>(),
                source = layout.channels * layout.h * layout.w;
  const int64_t units = n * groups * blocks.count;
  const int64_t unit_work = blocks.size * tap_count * layout.positions();
  const int64_t grain = std::max<int64_t>(1, (int64_t{1} << 20) / std::max<int64_t>(unit_work, 1));
  const int64_t image_size = layout.size(slack<T>());
  const PartScratch scratch(context, units, grain,
                            static_cast<size_t>(image_size + ld * blocks.size) * sizeof(T));
  parallel_for(units, grain, [&](int64_t begin, int64_t end) {
    const PartScratch::Slot slot(scratch);
    T* image = slot.as<T>();
    T* rows = image + image_size;
    int64_t loaded = -1;
    for (int64_t u = begin; u < end; ++u) {
      const int64_t block = u % blocks.count, plane = u / blocks.count;  // plane: (image, group)
      const int64_t group = plane % groups;
      if (plane != loaded) layout.lay_out(images + plane * source, image, slack<T>());
      loaded = plane;
      const int64_t first = block * blocks.size, count = std::min(blocks.size, out - first);
      const int64_t channel = group * out + first;
      with_block(count, ForwardTile<T>{image, packed + channel * tap_count,
                                       epilogue.bias ? epilogue.bias + channel : nullptr, taps,
                                       tap_count, layout.positions(), rows, ld});
      T* to = y + (plane * out + first) * area;
      for (int64_t b = 0; b < count; ++b)
        for (int64_t r = 0; r < layout.oh; ++r, to += layout.ow)
          copy_row(rows + b * ld + r * wide, to, layout.ow);
      epilogue.finish(to - count * area, count * area);
    }
  });
}

/// Weights in the order in which tiles read them. Weight (out channel, channel, k) of a group is at
/// from[out * out_step + channel * channel_step + k], or, `flipped`, with its k in reverse.
template <class T>
void pack_weights(int64_t groups, int64_t out, int64_t channels, int64_t area, const T* from,
                  int64_t out_step, int64_t channel_step, bool flipped, T* packed) {
  const Blocks blocks(out);
  const int64_t step = flipped ? -1 : 1;
  for (int64_t group = 0; group < groups; ++group, from += out * channels * area)
    for (int64_t first = 0; first < out; first += blocks.size) {
      const int64_t count = std::min(blocks.size, out - first);
      for (int64_t c = 0; c < channels; ++c) {
        const T* w = from + first * out_step + c * channel_step + (flipped ? area - 1 : 0);
        for (int64_t k = 0; k < area; ++k, w += step)
          for (int64_t b = 0; b < count; ++b) *packed++ = w[b * out_step];
      }
    }
}

template <class T>
void forward(const Context& context, const T* x, const T* weight, const ConvEpilogue<T>& epilogue,
             T* y, const ConvGeometry& g) {
  const WideLayout layout = layout_of_x(g);
  const int64_t out = g.o_per_group(), taps = layout.taps();
  const Workspace packed = context.workspace(static_cast<size_t>(g.o * taps) * sizeof(T));
  pack_weights(g.groups, out, g.c_per_group(), g.kh * g.kw, weight, taps, g.kh * g.kw, false,
               packed.as<T>());
  correlate(context, layout, g.n, g.groups, out, x, packed.as<T>(), epilogue, y);
}

template <class T>
void grad_x(const Context& context, const T* dy, const T* weight, T* dx, const ConvGeometry& g) {
  const WideLayout layout = layout_of_dy(g);
  const int64_t c = g.c_per_group(), o = g.o_per_group(), area = g.kh * g.kw;
  const Workspace packed = context.workspace(static_cast<size_t>(g.o * c * area) * sizeof(T));
  // Output channel c, tap (o, ky, kx) is weight (o, c) flipped by 180 degrees.
  pack_weights(g.groups, c, o, area, weight, area, c * area, true, packed.as<T>());
  correlate<T>(context, layout, g.n, g.groups, c, dy, packed.as<T>(), {}, dx);
}

template <class T>
void grad_weight(const Context& context, const T* x, const T* dy, T* dw, const ConvGeometry& g) {
  const WideLayout layout = layout_of_x(g);
  const int64_t out = g.o_per_group(), tap_count = layout.taps(), wide = layout.wide();
  const Workspace offsets = context.workspace(static_cast<size_t>(layout.taps()) * sizeof(int64_t));
  int64_t* const taps = offsets.as<int64_t>();
  layout.tap_offsets(taps);
  const Blocks blocks(out);
  // Images are summed in batches of a fixed size, then the batches in order: the result is the same
  // for any number of threads.
  const int64_t batch = std::max<int64_t>(4, ceil_div(g.n, 16)), batches = ceil_div(g.n, batch);
  const int64_t weights = g.o * tap_count;
  const Workspace partial = context.workspace(static_cast<size_t>(batches * weights) * sizeof(T));
  const int64_t positions = layout.positions(), ld = positions + slack<T>();
  const int64_t image_size = layout.size(slack<T>()), dy_size = out * ld;
  const int64_t unit_work = batch * out * tap_count * positions;
  const int64_t grain = std::max<int64_t>(1, (int64_t{1} << 20) / std::max<int64_t>(unit_work, 1));
  const PartScratch scratch(context, batches * g.groups, grain,
                            static_cast<size_t>(batch * (image_size + dy_size)) * sizeof(T));
  parallel_for(batches * g.groups, grain, [&](int64_t begin, int64_t end) {
    const PartScratch::Slot slot(scratch);
    T* images = slot.as<T>();
    T* grads = images + batch * image_size;
    std::fill_n(grads, batch * dy_size, T(0));  // what rows leave free stays zero
    for (int64_t u = begin; u < end; ++u) {
      const int64_t group = u % g.groups, first = u / g.groups * batch;
      const int64_t count = std::min(batch, g.n - first);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t plane = (first + i) * g.groups + group;
        layout.lay_out(x + plane * layout.channels * g.h * g.w, images + i * image_size,
                       slack<T>());
        const T* from = dy + plane * out * g.oh * g.ow;
        for (int64_t o = 0; o < out; ++o)
          for (int64_t r = 0; r < g.oh; ++r, from += g.ow)
            copy_row(from, grads + i * dy_size + o * ld + r * wide, g.ow);
      }
      T* to = partial.as<T>() + first / batch * weights + group * out * tap_count;
      std::fill_n(to, out * tap_count, T(0));
      // As many images at a time as the L1 cache holds: each tile of taps reads them again.
      for (int64_t o = 0; o < out; o += blocks.size) {
        const int64_t block = std::min(blocks.size, out - o);
        const int64_t bytes = (image_size + block * ld) * static_cast<int64_t>(sizeof(T));
        const int64_t step = std::clamp<int64_t>(kCacheBytes / bytes, 1, count);
        for (int64_t i = 0; i < count; i += step)
          with_block(block, WeightTile<T>{images + i * image_size, grads + i * dy_size + o * ld,
                                          std::min(step, count - i), image_size, dy_size, ld, taps,
                                          tap_count, positions, to + o * tap_count});
      }
    }
  });
  std::fill_n(dw, weights, T(0));
  for (int64_t b = 0; b < batches; ++b) {
    const T* from = partial.as<T>() + b * weights;
    for (int64_t i = 0; i < weights; ++i) dw[i] += from[i];
  }
}

// HWY_EXPORT takes plain functions.
#define BRIM_CONV_DIRECT(T, suffix)                                                               \
  void forward_##suffix(const Context& c, const T* x, const T* w, const ConvEpilogue<T>& e, T* y, \
                        const ConvGeometry& g) {                                                  \
    forward<T>(c, x, w, e, y, g);                                                                 \
  }                                                                                               \
  void grad_x_##suffix(const Context& c, const T* dy, const T* w, T* dx, const ConvGeometry& g) { \
    grad_x<T>(c, dy, w, dx, g);                                                                   \
  }                                                                                               \
  void grad_weight_##suffix(const Context& c, const T* x, const T* dy, T* dw,                     \
                            const ConvGeometry& g) {                                              \
    grad_weight<T>(c, x, dy, dw, g);                                                              \
  }
BRIM_CONV_DIRECT(float, f32)
BRIM_CONV_DIRECT(double, f64)
#undef BRIM_CONV_DIRECT

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::cpu {

HWY_EXPORT(forward_f32);
HWY_EXPORT(forward_f64);
HWY_EXPORT(grad_x_f32);
HWY_EXPORT(grad_x_f64);
HWY_EXPORT(grad_weight_f32);
HWY_EXPORT(grad_weight_f64);

template <>
void conv_direct(const Context& c, const float* x, const float* w, const ConvEpilogue<float>& e,
                 float* y, const backend::ConvGeometry& g) {
  HWY_DYNAMIC_DISPATCH(forward_f32)(c, x, w, e, y, g);
}
template <>
void conv_direct(const Context& c, const double* x, const double* w, const ConvEpilogue<double>& e,
                 double* y, const backend::ConvGeometry& g) {
  HWY_DYNAMIC_DISPATCH(forward_f64)(c, x, w, e, y, g);
}
template <>
void conv_direct_grad_x(const Context& c, const float* dy, const float* w, float* dx,
                        const backend::ConvGeometry& g) {
  HWY_DYNAMIC_DISPATCH(grad_x_f32)(c, dy, w, dx, g);
}
template <>
void conv_direct_grad_x(const Context& c, const double* dy, const double* w, double* dx,
                        const backend::ConvGeometry& g) {
  HWY_DYNAMIC_DISPATCH(grad_x_f64)(c, dy, w, dx, g);
}
template <>
void conv_direct_grad_weight(const Context& c, const float* x, const float* dy, float* dw,
                             const backend::ConvGeometry& g) {
  HWY_DYNAMIC_DISPATCH(grad_weight_f32)(c, x, dy, dw, g);
}
template <>
void conv_direct_grad_weight(const Context& c, const double* x, const double* dy, double* dw,
                             const backend::ConvGeometry& g) {
  HWY_DYNAMIC_DISPATCH(grad_weight_f64)(c, x, dy, dw, g);
}

}  // namespace brim::cpu
#endif
