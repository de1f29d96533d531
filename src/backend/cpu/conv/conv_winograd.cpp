// A pass is: transform tiles and weights, multiply them point by point (36 matrix products),
// transform back. Where there are more tiles than channels, each thread takes blocks of tiles
// through all three steps, so that what is between them stays in its cache (by_tiles). Otherwise
// the weights are the larger side: tiles are transformed first, then each thread takes panels of
// channels (by_panels).
#include "backend/cpu/conv/conv_winograd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/conv/conv_winograd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/conv/conv_winograd-inl.h"
#include "backend/cpu/conv/winograd_tiles.h"
#include "backend/cpu/runtime/parallel.h"
#include "backend/cpu/runtime/scratch.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

using backend::ConvGeometry;

constexpr int64_t kBlock = 32;  // tiles that go through the steps together
constexpr int64_t kGroup = 64;  // output channels at most that pass a block of tiles together
constexpr int64_t kPad = 16;    // between points: they would share the cache's sets otherwise
constexpr int64_t kGrainWork = int64_t{1} << 18;  // multiply-adds below which a part is not split

/// Convolution of x (n, h, w, in) to y (n, oh, ow, out), as the tiles see it.
struct Problem : WinogradTiles {
  int64_t in, out;

  Problem(const ConvGeometry& g, bool to_x)
      : WinogradTiles{.n = g.n,
                      .h = to_x ? g.oh : g.h,
                      .w = to_x ? g.ow : g.w,
                      .oh = to_x ? g.h : g.oh,
                      .ow = to_x ? g.w : g.ow,
                      .top = to_x ? 2 - g.padding.h : g.padding.h,
                      .left = to_x ? 2 - g.padding.w : g.padding.w},
        in(to_x ? g.o : g.c),
        out(to_x ? g.c : g.o) {}
  int64_t tiles() const { return count(); }
  bool by_tiles() const { return tiles() > std::max(in, out); }
  int64_t panels() const { return (out + panel_width() - 1) / panel_width(); }
  int64_t width(int64_t panel) const {
    return std::min(panel_width(), out - panel * panel_width());
  }

  /// Tiles [begin, end) of x to those of v from its first on.
  void transform_x(const float* x, int64_t begin, int64_t end, Transformed v) const {
    const auto line = [](const VecF* d, VecF* r, int s) HWY_ATTR { input_line(d, r, s); };
    for (int64_t t = begin; t < end; ++t, v.next_tile()) {
      const Place p = place(t);
      const Patch patch = inputs(p);
      const float* from = x + first_input(p) * in;
      if (patch.whole(kIn))
        transform_tile<kIn, true>(from, w * in, in, patch, v, line);
      else
        transform_tile<kIn, false>(from, w * in, in, patch, v, line);
    }
  }

  /// The same for gradients of y, whose tiles do not overlap.
  void transform_dy(const float* dy, int64_t begin, int64_t end, Transformed v) const {
    const auto line = [](const VecF* d, VecF* r, int s) HWY_ATTR { gradient_line(d, r, s); };
    for (int64_t t = begin; t < end; ++t, v.next_tile()) {
      const Place p = place(t);
      const Patch patch = outputs(p);
      const float* from = dy + first_output(p) * out;
      if (patch.whole(kOut))
        transform_tile<kOut, true>(from, ow * out, out, patch, v, line);
      else
        transform_tile<kOut, false>(from, ow * out, out, patch, v, line);
    }
  }

  /// Outputs [at, at + width) of tiles [begin, end) from m[point * step + (tile - begin) * width].
  void transform_back(const float* m, int64_t step, int64_t begin, int64_t end, int64_t at,
                      int64_t width, const ConvEpilogue<float>& epilogue, float* y) const {
    for (int64_t t = begin; t < end; ++t, m += width) {
      const Place p = place(t);
      const Patch patch = outputs(p);
      float* to = y + first_output(p) * out + at;
      const ConvEpilogue<float> own{epilogue.bias ? epilogue.bias + at : nullptr, epilogue.relu};
      if (patch.whole(kOut))
        output_tile<true>(m, step, width, own, to, ow * out, out, patch);
      else
        output_tile<false>(m, step, width, own, to, ow * out, out, patch);
    }
  }
};

/// Row-major weights as one pass reads them: element (i, o, tap) at i * in + o * out + tap.
struct Weights {
  const float* data;
  int64_t in, out;
  bool flipped;  // the last tap first

  Weights(const float* w, const ConvGeometry& g, bool to_x)
      : data(w), in(to_x ? g.c * kTaps : kTaps), out(to_x ? kTaps : g.c * kTaps), flipped(to_x) {}

  /// Input channels [begin, end) and outputs [at, at + width) to u[point * step + i * width].
  void transform(int64_t begin, int64_t end, int64_t at, int64_t width, float* u,
                 int64_t step) const {
    const TagF d;
    const hn::RebindToSigned<TagF> di;
    const auto index = hn::Mul(hn::Iota(di, 0), hn::Set(di, static_cast<int32_t>(out)));
    for (int64_t i = begin; i < end; ++i)
      for (int64_t o = 0; o < width; o += lanes_f32()) {
        const float* from = data + i * in + (at + o) * out;
        VecF half[kIn * 3];
        for (int x = 0; x < 3; ++x) {
          VecF column[3];
          for (int y = 0; y < 3; ++y) {
            const int tap = y * 3 + x;
            column[y] = hn::GatherIndex(d, from + (flipped ? kTaps - 1 - tap : tap), index);
          }
          weight_line(column, half + x, 3);
        }
        for (int r = 0; r < kIn; ++r) {
          VecF points[kIn];
          weight_line(half + r * 3, points, 1);
          for (int k = 0; k < kIn; ++k)
            hn::StoreU(points[k], d, u + (r * kIn + k) * step + i * width + o);
        }
      }
  }
};

int64_t grain_of(int64_t work) {
  return std::max<int64_t>(1, kGrainWork / std::max<int64_t>(1, work));
}
size_t floats(int64_t count) { return static_cast<size_t>(count) * sizeof(float); }

/// The products and outputs of panels [q, end_q) for tiles [begin, end), whose transform is v (rows
/// of p.in); their weights lie `panel` apart in u, and m has room for the products of each. Point
/// by point, so that the tiles stay in the cache while the panels go by.
void panel_outputs(const Problem& p, const float* v, int64_t v_step, const float* u, int64_t panel,
                   int64_t q, int64_t end_q, int64_t begin, int64_t end, float* m,
                   const ConvEpilogue<float>& epilogue, float* y) {
  const int64_t count = end - begin, m_step = count * panel_width() + kPad;
  for (int64_t k = 0; k < kPoints; ++k)
    for (int64_t i = q; i < end_q; ++i) {
      const int64_t width = p.width(i);
      conv_panel(count, p.in, {v + k * v_step, p.in, 1}, u + (i - q) * panel + k * p.in * width,
                 width, width, false, m + ((i - q) * kPoints + k) * m_step, width);
    }
  for (int64_t i = q; i < end_q; ++i)
    p.transform_back(m + (i - q) * kPoints * m_step, m_step, begin, end, i * panel_width(),
                     p.width(i), epilogue, y);
}

/// Floats that panel_outputs() needs for the products of so many panels.
int64_t products_room(int64_t panels) { return panels * kPoints * (kBlock * panel_width() + kPad); }

void by_tiles(const Context& context, const Problem& p, const float* x, const Weights& w,
              const ConvEpilogue<float>& epilogue, float* y) {
  const int64_t panel = kPoints * p.in * panel_width();
  const Workspace u_room = context.workspace(floats(p.panels() * panel));
  float* u = u_room.as<float>();
  parallel_for(p.panels() * p.in, grain_of(kPoints * panel_width()),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end;) {
                   const int64_t q = i / p.in, last = std::min(end, (q + 1) * p.in);
                   w.transform(i - q * p.in, last - q * p.in, q * panel_width(), p.width(q),
                               u + q * panel, p.in * p.width(q));
                   i = last;
                 }
               });
  const int64_t blocks = (p.tiles() + kBlock - 1) / kBlock, v_step = kBlock * p.in + kPad;
  const int64_t grain = grain_of(kPoints * kBlock * p.in * p.out), group = kGroup / panel_width();
  const PartScratch scratch(context, blocks, grain,
                            floats(kPoints * v_step + products_room(group)));
  parallel_for(blocks, grain, [&](int64_t begin, int64_t end) {
    const PartScratch::Slot slot(scratch);
    float *v = slot.as<float>(), *m = v + kPoints * v_step;
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b * kBlock, last = std::min(p.tiles(), first + kBlock);
      p.transform_x(x, first, last, Transformed::rows(v, v_step, p.in));
      for (int64_t q = 0; q < p.panels(); q += group)
        panel_outputs(p, v, v_step, u + q * panel, panel, q, std::min(p.panels(), q + group), first,
                      last, m, epilogue, y);
    }
  });
}

void by_panels(const Context& context, const Problem& p, const float* x, const Weights& w,
               const ConvEpilogue<float>& epilogue, float* y) {
  const int64_t v_step = p.tiles() * p.in + kPad;
  const Workspace v_room = context.workspace(floats(kPoints * v_step));
  float* v = v_room.as<float>();
  parallel_for(p.tiles(), grain_of(kPoints * p.in), [&](int64_t begin, int64_t end) {
    p.transform_x(x, begin, end, Transformed::rows(v + begin * p.in, v_step, p.in));
  });
  // Groups of panels, as many as keep all threads busy.
  const int64_t group =
      std::clamp<int64_t>(p.panels() / (2 * num_threads()), 1, kGroup / panel_width());
  const int64_t groups = (p.panels() + group - 1) / group;
  const int64_t panel = kPoints * p.in * panel_width();
  const int64_t grain = grain_of(group * panel * p.tiles());
  const PartScratch scratch(context, groups, grain, floats(group * panel + products_room(group)));
  parallel_for(groups, grain, [&](int64_t begin, int64_t end) {
    const PartScratch::Slot slot(scratch);
    float *u = slot.as<float>(), *m = u + group * panel;
    for (int64_t q = begin * group; q < std::min(p.panels(), end * group); q += group) {
      const int64_t end_q = std::min(p.panels(), q + group);
      for (int64_t i = q; i < end_q; ++i)
        w.transform(0, p.in, i * panel_width(), p.width(i), u + (i - q) * panel, p.in * p.width(i));
      for (int64_t first = 0; first < p.tiles(); first += kBlock)
        panel_outputs(p, v + first * p.in, v_step, u, panel, q, end_q, first,
                      std::min(p.tiles(), first + kBlock), m, epilogue, y);
    }
  });
}

/// Input channels [first, last) and outputs [at, at + width): from the gradient of the transformed
/// weights, at u[point * step + (i - first) * ld], to row-major dw.
void weight_gradient(const ConvGeometry& g, const float* u, int64_t step, int64_t ld, int64_t first,
                     int64_t last, int64_t at, int64_t width, float* dw) {
  const TagF d;
  const hn::RebindToSigned<TagF> di;
  const auto index = hn::Mul(hn::Iota(di, 0), hn::Set(di, static_cast<int32_t>(g.c * kTaps)));
  for (int64_t i = first; i < last; ++i, u += ld)
    for (int64_t o = 0; o < width; o += lanes_f32()) {
      VecF half[3 * kIn];
      for (int k = 0; k < kIn; ++k) {
        VecF column[kIn];
        for (int r = 0; r < kIn; ++r) column[r] = hn::LoadU(d, u + (r * kIn + k) * step + o);
        weight_gradient_line(column, half + k, kIn);
      }
      float* to = dw + ((at + o) * g.c + i) * kTaps;
      for (int y = 0; y < 3; ++y) {
        VecF taps[3];
        weight_gradient_line(half + y * kIn, taps, 1);
        for (int x = 0; x < 3; ++x) hn::ScatterIndex(taps[x], d, to + y * 3 + x, index);
      }
    }
}

void grad_by_tiles(const Context& context, const ConvGeometry& g, const float* x, const float* dy,
                   float* dw) {
  const Problem p(g, false);
  // Parts of the tiles, their number fixed by the sizes, each with sums of its own.
  const int64_t matrix = p.in * p.out + kPad, size = kPoints * matrix;
  const int64_t blocks = (p.tiles() + kBlock - 1) / kBlock;
  const int64_t parts =
      std::clamp<int64_t>((int64_t{3} << 20) / size, 2, std::min<int64_t>(8, blocks));
  const Workspace u_room = context.workspace(floats(parts * size));
  float* u = u_room.as<float>();
  const int64_t v_step = kBlock * p.in + kPad, d_step = kBlock * p.out + kPad;
  const PartScratch scratch(context, parts, 1, floats(kPoints * (v_step + d_step)));
  parallel_for(parts, 1, [&](int64_t part, int64_t end) {
    const PartScratch::Slot slot(scratch);
    float *v = slot.as<float>(), *d = v + kPoints * v_step;
    for (; part < end; ++part) {
      const int64_t from = blocks * part / parts, to = blocks * (part + 1) / parts;
      for (int64_t b = from; b < to; ++b) {
        const int64_t first = b * kBlock, last = std::min(p.tiles(), first + kBlock);
        p.transform_x(x, first, last, Transformed::rows(v, v_step, p.in));
        p.transform_dy(dy, first, last, Transformed::rows(d, d_step, p.out));
        for (int64_t k = 0; k < kPoints; ++k)
          for (int64_t q = 0; q < p.panels(); ++q) {
            const int64_t at = q * panel_width();
            conv_panel(p.in, last - first, {v + k * v_step, 1, p.in}, d + k * d_step + at, p.out,
                       p.width(q), b > from, u + part * size + k * matrix + at, p.out);
          }
      }
    }
  });
  parallel_for(p.in, grain_of(kPoints * parts * p.out), [&](int64_t begin, int64_t end) {
    const TagF d;
    for (int64_t i = begin; i < end; ++i)
      for (int64_t k = 0; k < kPoints; ++k)
        for (int64_t o = 0; o < p.out; o += lanes_f32()) {
          float* to = u + k * matrix + i * p.out + o;
          VecF sum = hn::LoadU(d, to);
          for (int64_t part = 1; part < parts; ++part)
            sum = hn::Add(sum, hn::LoadU(d, to + part * size));
          hn::StoreU(sum, d, to);
        }
    weight_gradient(g, u + begin * p.out, matrix, p.out, begin, end, 0, p.out, dw);
  });
}

void grad_by_panels(const Context& context, const ConvGeometry& g, const float* x, const float* dy,
                    float* dw) {
  const Problem p(g, false);
  // What a product reads lies side by side: channels that are far apart would share few of the
  // cache's sets.
  const int64_t chunk = kTileRows * lanes_f32() / 2, chunks = (p.in + chunk - 1) / chunk;
  const int64_t v_block = p.tiles() * chunk, v_step = chunks * v_block + kPad;
  const int64_t d_block = p.tiles() * panel_width(), d_step = p.panels() * d_block + kPad;
  const Workspace workspace = context.workspace(floats(kPoints * (v_step + d_step)));
  float *v = workspace.as<float>(), *d = v + kPoints * v_step;
  parallel_for(p.tiles(), grain_of(kPoints * (p.in + p.out)), [&](int64_t begin, int64_t end) {
    p.transform_x(x, begin, end, {v + begin * chunk, v_step, chunk, v_block});
    p.transform_dy(dy, begin, end, {d + begin * panel_width(), d_step, panel_width(), d_block});
  });
  const int64_t pieces = chunks * p.panels(), step = chunk * panel_width() + kPad;
  const int64_t grain = grain_of(kPoints * p.tiles() * chunk * panel_width());
  const PartScratch scratch(context, pieces, grain, floats(kPoints * step));
  parallel_for(pieces, grain, [&](int64_t begin, int64_t end) {
    const PartScratch::Slot slot(scratch);
    float* u = slot.as<float>();
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t q = piece / chunks, at = q * panel_width(), width = p.width(q);
      const int64_t c = piece % chunks, first = c * chunk, last = std::min(p.in, first + chunk);
      for (int64_t k = 0; k < kPoints; ++k)
        conv_panel(last - first, p.tiles(), {v + k * v_step + c * v_block, 1, chunk},
                   d + k * d_step + q * d_block, panel_width(), width, false, u + k * step, width);
      weight_gradient(g, u, step, width, first, last, at, width, dw);
    }
  });
}

void run_winograd(const Context& context, ConvPass pass, const ConvGeometry& g, const float* a,
                  const float* b, const ConvEpilogue<float>& epilogue, float* out) {
  if (pass == ConvPass::grad_weight) {
    const bool tiles = Problem(g, false).by_tiles();
    return tiles ? grad_by_tiles(context, g, a, b, out) : grad_by_panels(context, g, a, b, out);
  }
  const bool to_x = pass == ConvPass::grad_x;
  const Problem p(g, to_x);
  const Weights w(b, g, to_x);
  return p.by_tiles() ? by_tiles(context, p, a, w, epilogue, out)
                      : by_panels(context, p, a, w, epilogue, out);
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::cpu {

HWY_EXPORT(run_winograd);

bool winograd_wins(ConvPass, const backend::ConvGeometry& g) {
  constexpr int64_t kBlock = 16;  // channels
  return g.kh == 3 && g.kw == 3 && g.stride == Pair(1) && g.dilation == Pair(1) && g.groups == 1 &&
         g.c % kBlock == 0 && g.o % kBlock == 0 && g.c >= 2 * kBlock && g.o >= 2 * kBlock &&
         g.oh >= 4 && g.ow >= 4 && g.n > 0;
}

void conv_winograd(const Context& context, ConvPass pass, const backend::ConvGeometry& g,
                   const float* a, const float* b, const ConvEpilogue<float>& epilogue,
                   float* out) {
  HWY_DYNAMIC_DISPATCH(run_winograd)(context, pass, g, a, b, epilogue, out);
}

}  // namespace brim::cpu
#endif
