#include "backend/cpu/conv/conv_nhwc.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/conv/conv_nhwc.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstring>

#include "backend/cpu/conv/conv_tile-inl.h"
#include "backend/cpu/elementwise/transpose.h"
#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/runtime/parallel.h"
#include "backend/cpu/runtime/scratch.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

using backend::ConvGeometry;

constexpr int64_t kRows = 48;    // pixels gathered together, forward and to x
constexpr int64_t kDepth = 256;  // the same for the weight's gradient, which sums over them
constexpr int64_t kGrainWork = int64_t{1} << 18;

int64_t grain_of(int64_t work) {
  return std::max<int64_t>(1, kGrainWork / std::max<int64_t>(1, work));
}
size_t floats(int64_t count) { return static_cast<size_t>(count) * sizeof(float); }
int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// What the pixels of a grid (n, rows, columns) read of an image (h, w, channels): taps (th, tw),
/// the first of pixel (y, x) at (y * step + offset).
struct Gather {
  int64_t n, rows, columns;
  int64_t h, w, channels;
  int64_t th, tw;
  Pair step, offset, dilation;

  int64_t pixels() const { return n * rows * columns; }
  int64_t depth() const { return th * tw * channels; }
  bool plain() const {
    return th == 1 && tw == 1 && step == Pair(1) && offset == Pair(0) && rows == h && columns == w;
  }
  // A segment is contiguous in the image: a row of taps, or one tap where they are dilated.
  bool by_rows() const { return dilation.w == 1; }
  int64_t segments() const { return by_rows() ? th : th * tw; }
  int64_t segment() const { return by_rows() ? tw * channels : channels; }

  /// Segment s of each pixel in [begin, end), rows `ld` apart.
  void copy(const float* x, int64_t begin, int64_t end, int64_t s, float* to, int64_t ld) const {
    const int64_t count = segment();
    const int64_t ty = by_rows() ? s : s / tw, tx = by_rows() ? 0 : s % tw;
    int64_t column = begin % columns, row = begin / columns % rows,
            image = begin / (columns * rows);
    for (int64_t p = begin; p < end; ++p, to += ld) {
      const int64_t y = row * step.h + offset.h + ty * dilation.h;
      const int64_t at = (column * step.w + offset.w + tx * dilation.w) * channels;
      if (y < 0 || y >= h) {
        std::fill_n(to, count, 0.0F);
      } else {
        const int64_t low = std::clamp<int64_t>(-at, 0, count);
        const int64_t high = std::clamp<int64_t>(w * channels - at, low, count);
        std::fill_n(to, low, 0.0F);
        copy_values(x + (image * h + y) * w * channels + at + low, high - low, to + low);
        std::fill_n(to + high, count - high, 0.0F);
      }
      if (++column == columns) {
        column = 0;
        if (++row == rows) {
          row = 0;
          ++image;
        }
      }
    }
  }

  static void copy_values(const float* from, int64_t count, float* to) {
    const TagF d;
    int64_t i = 0;
    for (; i + lanes_f32() <= count; i += lanes_f32())
      hn::StoreU(hn::LoadU(d, from + i), d, to + i);
    for (; i < count; ++i) to[i] = from[i];
  }
};

/// Row-major weights as a pass reads them: element (i, o) of tap (ky, kx) at i * in + o * out +
/// tap. The gather's tap (ty, tx) is the kernel's first + (ty, tx) * step.
struct Taps {
  const float* data;
  int64_t in, out, kw;
  Pair first, step;

  int64_t tap(int64_t ty, int64_t tx) const {
    return (first.h + ty * step.h) * kw + first.w + tx * step.w;
  }
};

/// Weights [tap][input channel] of the outputs [at, at + width), as rows of `width`.
void pack(const Gather& g, const Taps& w, int64_t at, int64_t width, float* to) {
  const TagF d;
  const hn::RebindToSigned<TagF> di;
  const auto index = hn::Mul(hn::Iota(di, 0), hn::Set(di, static_cast<int32_t>(w.out)));
  for (int64_t ty = 0; ty < g.th; ++ty)
    for (int64_t tx = 0; tx < g.tw; ++tx)
      for (int64_t i = 0; i < g.channels; ++i)
        for (int64_t o = 0; o < width; o += lanes_f32(), to += lanes_f32()) {
          const float* from = w.data + i * w.in + (at + o) * w.out + w.tap(ty, tx);
          hn::StoreU(hn::GatherIndex(d, from, index), d, to);
        }
}

/// Where results go: pixel (image, y, x) of the grid is at (y, x) * step + first of (h, w).
struct Target {
  int64_t h, w, channels;
  Pair first, step;
  bool dense;  // the grid's pixels follow each other

  float* row(float* y, const Gather& g, int64_t pixel) const {
    const int64_t x = pixel % g.columns, yy = pixel / g.columns % g.rows;
    const int64_t image = pixel / (g.columns * g.rows);
    return y + ((image * h + yy * step.h + first.h) * w + x * step.w + first.w) * channels;
  }
};

/// y = (pixels gathered from x) times weights, with what is done to such sums.
void multiply(const Context& context, const Gather& g, const Taps& taps, const Target& target,
              const float* x, const ConvEpilogue<float>& epilogue, float* y) {
  const int64_t out = target.channels, depth = g.depth();
  const int64_t panels = ceil_div(out, panel_width()), panel = depth * panel_width();
  const auto width_of = [&](int64_t q) { return std::min(panel_width(), out - q * panel_width()); };
  const Workspace packed = context.workspace(floats(panels * panel));
  float* w = packed.as<float>();
  parallel_for(panels, grain_of(8 * panel), [&](int64_t begin, int64_t end) {
    for (int64_t q = begin; q < end; ++q)
      pack(g, taps, q * panel_width(), width_of(q), w + q * panel);
  });
  const int64_t blocks = ceil_div(g.pixels(), kRows), grain = grain_of(kRows * depth * out);
  const int64_t gathered = g.plain() ? 0 : kRows * depth;
  const PartScratch scratch(context, blocks, grain, floats(gathered + kRows * out));
  parallel_for(blocks, grain, [&](int64_t begin, int64_t end) {
    const PartScratch::Slot slot(scratch);
    float *segments = slot.as<float>(), *results = segments + gathered;
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b * kRows, last = std::min(g.pixels(), first + kRows);
      const float* rows = g.plain() ? x + first * depth : segments;
      if (!g.plain())
        for (int64_t s = 0; s < g.segments(); ++s)
          g.copy(x, first, last, s, segments + s * g.segment(), depth);
      float* to = target.dense ? y + first * out : results;
      for (int64_t q = 0; q < panels; ++q)
        conv_panel(last - first, depth, {rows, depth, 1}, w + q * panel, width_of(q), width_of(q),
                   false, to + q * panel_width(), out);
      if (epilogue.bias)
        for (int64_t p = 0; p < last - first; ++p)
          for (int64_t o = 0; o < out; ++o) to[p * out + o] += epilogue.bias[o];
      epilogue.finish(to, (last - first) * out);
      if (!target.dense)
        for (int64_t p = first; p < last; ++p)
          Gather::copy_values(results + (p - first) * out, out, target.row(y, g, p));
    }
  });
}

Gather gather_x(const ConvGeometry& g) {
  return {.n = g.n,
          .rows = g.oh,
          .columns = g.ow,
          .h = g.h,
          .w = g.w,
          .channels = g.c,
          .th = g.kh,
          .tw = g.kw,
          .step = g.stride,
          .offset = Pair(-g.padding.h, -g.padding.w),
          .dilation = g.dilation};
}

void forward(const Context& context, const ConvGeometry& g, const float* x, const float* weight,
             const ConvEpilogue<float>& epilogue, float* y) {
  const int64_t taps = g.kh * g.kw;
  multiply(context, gather_x(g),
           {.data = weight, .in = taps, .out = g.c * taps, .kw = g.kw, .first = 0, .step = 1},
           {.h = g.oh, .w = g.ow, .channels = g.o, .first = 0, .step = 1, .dense = true}, x,
           epilogue, y);
}

/// One axis of the pixels of x that lie at `phase` modulo the stride: the taps that reach them.
struct Phase {
  int64_t count, taps, first, offset;
  Phase(int64_t phase, int64_t size, int64_t kernel, int64_t stride, int64_t padding,
        int64_t dilation)
      : count(ceil_div(size - phase, stride)) {
    const int64_t start = (phase + padding) % stride;
    taps = start < kernel ? ceil_div(kernel - start, stride) : 0;
    first = start + stride * (taps - 1);  // the gather goes from low to high pixels of dy
    offset = stride == 1 ? padding - (kernel - 1) * dilation
                         : (phase + padding - start) / stride - (taps - 1);
  }
};

void grad_x(const Context& context, const ConvGeometry& g, const float* dy, const float* weight,
            float* dx) {
  const int64_t taps = g.kh * g.kw;
  for (int64_t py = 0; py < std::min<int64_t>(g.stride.h, g.h); ++py)
    for (int64_t px = 0; px < std::min<int64_t>(g.stride.w, g.w); ++px) {
      const Phase v(py, g.h, g.kh, g.stride.h, g.padding.h, g.dilation.h);
      const Phase h(px, g.w, g.kw, g.stride.w, g.padding.w, g.dilation.w);
      const bool none = v.taps == 0 || h.taps == 0;  // the product over no taps: zeros
      multiply(context,
               {.n = g.n,
                .rows = v.count,
                .columns = h.count,
                .h = g.oh,
                .w = g.ow,
                .channels = g.o,
                .th = none ? 0 : v.taps,
                .tw = none ? 0 : h.taps,
                .step = 1,
                .offset = Pair(v.offset, h.offset),
                .dilation = g.dilation},
               {.data = weight,
                .in = g.c * taps,
                .out = taps,
                .kw = g.kw,
                .first = Pair(v.first, h.first),
                .step = Pair(-g.stride.h, -g.stride.w)},
               {.h = g.h,
                .w = g.w,
                .channels = g.c,
                .first = Pair(py, px),
                .step = g.stride,
                .dense = g.stride == Pair(1)},
               dy, {}, dx);
    }
}

/// Sums for the values (tap, channel) of a pixel's row, at sums[value * g.o + output], to row-major
/// dw.
void unpack(const ConvGeometry& g, const float* sums, float* dw) {
  const TagF d;
  const hn::RebindToSigned<TagF> di;
  const int64_t taps = g.kh * g.kw;
  const auto index = hn::Mul(hn::Iota(di, 0), hn::Set(di, static_cast<int32_t>(g.c * taps)));
  for (int64_t value = 0; value < taps * g.c; ++value, sums += g.o) {
    float* to = dw + value % g.c * taps + value / g.c;
    for (int64_t o = 0; o < g.o; o += lanes_f32())
      hn::ScatterIndex(hn::LoadU(d, sums + o), d, to + o * g.c * taps, index);
  }
}

/// dw = dy^T times the gathered rows of some pixels after the other.
void grad_weight_by_product(const Context& context, const ConvGeometry& g, const float* x,
                            const float* dy, float* dw) {
  constexpr int64_t kMaxGathered = int64_t{4} << 20;  // values, unless kMinPixels have more
  constexpr int64_t kMinPixels = 64;
  const Gather gather = gather_x(g);
  const int64_t values = gather.depth(), pixels = gather.pixels(), taps = g.kh * g.kw;
  const int64_t block =
      gather.plain() ? pixels : std::min(pixels, std::max(kMaxGathered / values, kMinPixels));
  const Workspace gathered = context.workspace(gather.plain() ? 0 : floats(block * values));
  const Workspace by_taps = context.workspace(taps > 1 ? floats(g.o * values) : 0);
  float* const sums = taps > 1 ? by_taps.as<float>() : dw;  // (output, tap, channel)
  for (int64_t first = 0; first < pixels; first += block) {
    const int64_t count = std::min(block, pixels - first);
    const float* rows = x + first * values;
    if (!gather.plain()) {
      float* const to = gathered.as<float>();
      parallel_for(count, grain_of(values), [&](int64_t begin, int64_t end) {
        for (int64_t s = 0; s < gather.segments(); ++s)
          gather.copy(x, first + begin, first + end, s, to + begin * values + s * gather.segment(),
                      values);
      });
      rows = to;
    }
    gemm(g.o, values, count, Matrix<float>{dy + first * g.o, 1, g.o},
         Matrix<float>{rows, values, 1}, first > 0, sums, values);
  }
  if (taps > 1) transpose(sums, g.o, taps, g.c, dw);
}

/// Few weights, many pixels: parts of the pixels, their number fixed by the sizes, with sums of
/// their own.
void grad_weight_by_pixels(const Context& context, const ConvGeometry& g, const float* x,
                           const float* dy, float* dw) {
  const Gather gather = gather_x(g);
  const int64_t values = gather.depth(), size = values * g.o;
  const int64_t parts = std::clamp<int64_t>(gather.pixels() / kDepth, 1, 8);
  const Workspace workspace = context.workspace(floats(parts * size));
  float* all = workspace.as<float>();
  const PartScratch scratch(context, parts, 1, floats(values * kDepth));
  parallel_for(parts, 1, [&](int64_t part, int64_t last) {
    const PartScratch::Slot slot(scratch);
    float* rows = slot.as<float>();
    for (; part < last; ++part) {
      const int64_t begin = gather.pixels() * part / parts;
      const int64_t end = gather.pixels() * (part + 1) / parts;
      for (int64_t p = begin; p < end; p += kDepth) {
        const int64_t depth = std::min(kDepth, end - p);
        for (int64_t s = 0; s < gather.segments(); ++s)
          gather.copy(x, p, p + depth, s, rows + s * gather.segment(), values);
        for (int64_t at = 0; at < g.o; at += panel_width())
          conv_panel(values, depth, {rows, 1, values}, dy + p * g.o + at, g.o,
                     std::min(panel_width(), g.o - at), p > begin, all + part * size + at, g.o);
      }
    }
  });
  for (int64_t part = 1; part < parts; ++part)
    for (int64_t i = 0; i < size; ++i) all[i] += all[part * size + i];
  unpack(g, all, dw);
}

void grad_weight(const Context& context, const ConvGeometry& g, const float* x, const float* dy,
                 float* dw) {
  constexpr int64_t kFew = int64_t{1} << 15;
  g.kh* g.kw* g.c* g.o <= kFew ? grad_weight_by_pixels(context, g, x, dy, dw)
                               : grad_weight_by_product(context, g, x, dy, dw);
}

void run_nhwc(const Context& context, ConvPass pass, const ConvGeometry& g, const float* a,
              const float* b, const ConvEpilogue<float>& epilogue, float* out) {
  switch (pass) {
    case ConvPass::forward:
      return forward(context, g, a, b, epilogue, out);
    case ConvPass::grad_x:
      return grad_x(context, g, a, b, out);
    case ConvPass::grad_weight:
      return grad_weight(context, g, a, b, out);
  }
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::cpu {

HWY_EXPORT(run_nhwc);

bool conv_nhwc_supports(ConvPass pass, const backend::ConvGeometry& g) {
  constexpr int64_t kBlock = 16;  // channels
  const int64_t out = pass == ConvPass::grad_x ? g.c : g.o;
  const bool phases = g.stride == Pair(1) || g.dilation == Pair(1);
  return g.groups == 1 && out % kBlock == 0 && g.work() > 0 && (pass != ConvPass::grad_x || phases);
}

bool conv_nhwc_wins(ConvPass pass, const backend::ConvGeometry& g) {
  // Where there are many weights for the pixels, copies cost little beside the product.
  constexpr int64_t kWeightsOfAPixel = 256;
  const int64_t pixels = g.n * g.oh * g.ow, weights = g.o * g.c * g.kh * g.kw;
  return pass == ConvPass::grad_weight && conv_nhwc_supports(pass, g) &&
         kWeightsOfAPixel * pixels <= weights;
}

void conv_nhwc(const Context& context, ConvPass pass, const backend::ConvGeometry& g,
               const float* a, const float* b, const ConvEpilogue<float>& epilogue, float* out) {
  HWY_DYNAMIC_DISPATCH(run_nhwc)(context, pass, g, a, b, epilogue, out);
}

}  // namespace brim::cpu
#endif
