// Sums are rows of x times panels of weights. Where windows have the pixels of a row side by side,
// neighbouring outputs read rows of x that lie as they are, and nothing is copied (by_rows). Else
// blocks of pixels become rows of all that they read. The order in which a sum is added up depends
// on the sizes alone.
#include "rt/kernels/convolution.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rt/kernels/convolution.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "rt/kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::rt::HWY_NAMESPACE {
namespace {

constexpr int64_t kDepth = 256;  // of weights that pass the rows of a block while in the cache

HWY_INLINE void copy(const float* HWY_RESTRICT from, int64_t count, float* HWY_RESTRICT to) {
  const TagF d;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
  if (i < count) store_part(load_part(from + i, count - i), count - i, to + i);
}

HWY_INLINE void zero(float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = 0;
}

/// What pixels [begin, end) of a group read, as rows of depth().
void gather(const Convolution& k, int64_t group, int64_t begin, int64_t end, float* to) {
  const ConvolutionAttributes& a = k.a;
  const int64_t inputs = k.inputs();
  const bool by_rows = a.groups == 1 && a.dilation_w == 1;
  const int64_t segments = by_rows ? 1 : a.kernel_w, taps = by_rows ? a.kernel_w : 1;
  int64_t column = begin % k.ow, row = begin / k.ow % k.oh, image = begin / (k.ow * k.oh);
  for (int64_t p = begin; p < end; ++p) {
    const int64_t x0 = column * a.stride_w - a.left;
    for (int64_t ky = 0; ky < a.kernel_h; ++ky) {
      const int64_t y = row * a.stride_h - a.top + ky * a.dilation_h;
      const float* const line = k.x + ((image * k.h + y) * k.w) * k.c + group * inputs;
      for (int64_t s = 0; s < segments; ++s, to += taps * inputs) {
        const int64_t x = x0 + s * a.dilation_w;
        const int64_t low = std::clamp<int64_t>(-x, 0, taps);
        const int64_t high = std::clamp<int64_t>(k.w - x, low, taps);
        if (y < 0 || y >= k.h || low == high) {
          zero(to, taps * inputs);
          continue;
        }
        zero(to, low * inputs);
        copy(line + (x + low) * k.c, (high - low) * inputs, to + low * inputs);
        zero(to + high * inputs, (taps - high) * inputs);
      }
    }
    if (++column < k.ow) continue;
    column = 0;
    if (++row < k.oh) continue;
    row = 0;
    ++image;
  }
}

/// Products of `rows` rows and P panels from `panel` on, for the pixels from `first` on. `sums`
/// holds the rows' sums.
template <int P, class Panel = WholePanel>
void product(const Convolution& k, int64_t group, int64_t panel, int64_t first, int64_t rows,
             Left x, float* sums) {
  const int64_t depth = k.depth(), outputs = k.outputs(), at = panel * kPanel;
  const int64_t all = group * panels_of(outputs) + panel;
  const float* const weights = k.weights + all * depth * kPanel;
  const float* const bias = k.bias ? k.bias + all * kPanel : nullptr;
  const int64_t y_at = first * k.o + group * outputs + at;
  const int64_t step = rows > kTileRows ? kDepth : depth;
  for (int64_t p = 0; p == 0 || p < depth; p += step) {
    const int64_t part = std::min(step, depth - p);
    int64_t index = rows > kTileRows ? 0 : kPanel;  // one tile reads weights as memory gives them
    for_row_tiles(rows, [&](auto tile_rows, int64_t r) HWY_ATTR {
      using Sums = Tile<decltype(tile_rows)::value, P, Panel>;
      const bool is_last = p + step >= depth;
      const int64_t to = y_at + r * k.o;
      const Finish end{k.y + to,
                       k.o,
                       k.residual ? k.residual + to : nullptr,
                       outputs - at,
                       static_cast<float>(k.a.low),
                       static_cast<float>(k.a.high)};
      if (is_last) Sums::prefetch(end);
      Sums tile;
      float* const partial = sums + r * P * kPanel;
      if (p == 0)
        tile.load(bias, 0);
      else
        tile.load(partial, P * kPanel);
      const Right w = {weights + p * kPanel, depth * kPanel, nullptr};
      // Behind a panel's last weights lie those of the next panel.
      const float* const next = p + step < depth ? w.data + part * kPanel : weights + P * w.panel;
      tile.add_products(part, {x.data + r * x.row + p, x.row}, fetching<P>(w, next, part, index++));
      if (is_last)
        tile.finish(end);
      else
        tile.store(partial, P * kPanel);
    });
  }
}

/// Whether the panel before `end` is the last one and has outputs in its first half alone, where
/// vectors make a difference of it.
bool has_half_panel(const Convolution& k, int64_t end) {
  const int64_t rest = k.outputs() % kPanel;
  return kLanes > 1 && rest != 0 && rest <= kPanel / 2 && end == panels_of(k.outputs());
}

/// Panels [begin, end) of a group for a block of pixels.
void products(const Convolution& k, int64_t group, int64_t begin, int64_t end, int64_t first,
              int64_t rows, Left x, float* sums) {
  const int64_t whole = end - (rows > 1 && has_half_panel(k, end));
  int64_t q = begin;
  if (rows == 1)
    for (; q + kTall <= whole; q += kTall) product<kTall>(k, group, q, first, rows, x, sums);
  for (; q + kWide <= whole; q += kWide) product<kWide>(k, group, q, first, rows, x, sums);
  if constexpr (kWide > 2)
    for (; q + 2 <= whole; q += 2) product<2>(k, group, q, first, rows, x, sums);
  for (; q < whole; ++q) product<1>(k, group, q, first, rows, x, sums);
  if constexpr (kLanes > 1)
    for (; q < end; ++q) product<1, HalfPanel>(k, group, q, first, rows, x, sums);
}

/// The rows of a block: gathered in `scratch`, or x itself.
Left rows_of(const Convolution& k, int64_t group, int64_t first, int64_t last, float* scratch) {
  if (k.is_product()) return {k.x + first * k.c + group * k.inputs(), k.c};
  gather(k, group, first, last, scratch);
  return {scratch, k.depth()};
}

/// Outputs side by side in a row, or below each other in a column, whose windows have the same
/// taps.
struct OutputLine {
  int64_t row, column;  ///< of the first one
  int64_t count;
  bool is_column;
};

/// P panels of a line of outputs, without copies of x. `index` numbers the lines of a panel.
template <int P, class Panel>
void line_products(const Convolution& k, int64_t panel, const OutputLine& line, int64_t index) {
  const ConvolutionAttributes& a = k.a;
  const int64_t image = line.row / k.oh, depth = k.depth(), segment = a.kernel_w * k.c;
  const int64_t top = line.row % k.oh * a.stride_h - a.top,
                left = line.column * a.stride_w - a.left;
  const Taps rows(top, k.h, a.kernel_h, a.dilation_h), columns(left, k.w, a.kernel_w, 1);
  const int64_t x_step = line.is_column ? a.stride_h * k.w * k.c : a.stride_w * k.c;
  const int64_t y_step = line.is_column ? k.ow * k.o : k.o;
  const int64_t x_row = a.dilation_h * k.w * k.c;
  const float* const weights = k.weights + panel * depth * kPanel;
  const float* const bias = k.bias ? k.bias + panel * kPanel : nullptr;
  const float* const x = k.x + ((image * k.h + top) * k.w + left + columns.first) * k.c;
  const int64_t y_at = (line.row * k.ow + line.column) * k.o + panel * kPanel;
  for_row_tiles(line.count, [&](auto count, int64_t at) HWY_ATTR {
    Tile<decltype(count)::value, P, Panel> tile;
    tile.load(bias, 0);
    const float* from = x + at * x_step + rows.first * x_row;
    const int64_t taps = (columns.last - columns.first) * k.c;
    Right w = {weights + (rows.first * segment + columns.first * k.c) * kPanel, depth * kPanel,
               nullptr};
    w = fetching<P>(w, weights + P * w.panel, depth, index);
    for (int64_t ky = rows.first; ky < rows.last; ++ky, from += x_row) {
      tile.add_products(taps, {from, x_step}, w);
      w.data += segment * kPanel;
      w.ahead += segment * kAhead<P>;
    }
    const int64_t to = y_at + at * y_step;
    tile.finish({k.y + to, y_step, k.residual ? k.residual + to : nullptr, k.o - panel * kPanel,
                 static_cast<float>(a.low), static_cast<float>(a.high)});
  });
}

/// P panels of rows [begin, end) of outputs.
template <int P, class Panel>
void row_products(const Convolution& k, int64_t begin, int64_t end, int64_t panel) {
  const ConvolutionAttributes& a = k.a;
  const InnerOutputs inner = k.inner_columns();
  for (int64_t r = begin; r < end; ++r)
    line_products<P, Panel>(k, panel, {r, inner.begin, inner.end - inner.begin, false}, r - begin);
  if (inner.end - inner.begin == k.ow) return;
  const auto is_whole = [&](int64_t row) {
    const Taps taps(row % k.oh * a.stride_h - a.top, k.h, a.kernel_h, a.dilation_h);
    return taps.last - taps.first == a.kernel_h;
  };
  // Columns at the borders from top to bottom: as many tiles as they have in rows would be narrow.
  for (int64_t row = begin, next; row < end; row = next) {
    next = row + 1;
    if (is_whole(row))
      while (next < end && next % k.oh != 0 && is_whole(next)) ++next;
    for (int64_t column = 0; column < k.ow; ++column) {
      if (column == inner.begin) column = inner.end;
      if (column < k.ow) line_products<P, Panel>(k, panel, {row, column, next - row, true}, kPanel);
    }
  }
}

void run_by_rows(const Convolution& k, const ConvolutionPlan& plan, const Threads& threads) {
  const int64_t panels = panels_of(k.o), rows = k.n * k.oh;
  const int64_t whole = panels - has_half_panel(k, panels);
  parallel_parts(threads, rows, plan.grain, [&](int64_t, int64_t begin, int64_t end) {
    // Weights of a panel stay in the cache while rows pass by.
    int64_t q = 0;
    for (; q + kWide <= whole; q += kWide) row_products<kWide, WholePanel>(k, begin, end, q);
    for (; q < whole; ++q) row_products<1, WholePanel>(k, begin, end, q);
    if constexpr (kLanes > 1)
      for (; q < panels; ++q) row_products<1, HalfPanel>(k, begin, end, q);
  });
}

void run_convolution(const Convolution& k, const ConvolutionPlan& plan, const Threads& threads,
                     float* scratch) {
  if (plan.by_rows) return run_by_rows(k, plan, threads);
  const int64_t panels = panels_of(k.outputs());
  if (plan.by_panels) {
    float* const rows = scratch + threads.count() * plan.sums;
    for (int64_t group = 0; group < k.a.groups; ++group) {
      if (!k.is_product())
        parallel_parts(threads, k.pixels(), plan.gather_grain,
                       [&](int64_t, int64_t begin, int64_t end) {
                         gather(k, group, begin, end, rows + begin * k.depth());
                       });
      const Left x = k.is_product() ? Left{k.x + group * k.inputs(), k.c} : Left{rows, k.depth()};
      parallel_parts(threads, panels, plan.grain, [&](int64_t part, int64_t begin, int64_t end) {
        for (int64_t first = 0; first < k.pixels(); first += plan.block)
          products(k, group, begin, end, first, std::min(plan.block, k.pixels() - first),
                   {x.data + first * x.row, x.row}, scratch + part * plan.sums);
      });
    }
    return;
  }
  const int64_t blocks = (k.pixels() + plan.block - 1) / plan.block;
  const int64_t each = plan.sums + (k.is_product() ? 0 : plan.block * k.depth());
  parallel_parts(threads, blocks, plan.grain, [&](int64_t part, int64_t begin, int64_t end) {
    float *const sums = scratch + part * each, *const gathered = sums + plan.sums;
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b * plan.block, last = std::min(first + plan.block, k.pixels());
      for (int64_t group = 0; group < k.a.groups; ++group)
        products(k, group, 0, panels, first, last - first, rows_of(k, group, first, last, gathered),
                 sums);
    }
  });
}

}  // namespace
}  // namespace brim::rt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::rt {

BRIM_RT_ISA_TABLE(run_convolution);

size_t convolution_scratch(const Convolution& conv, int threads) {
  return static_cast<size_t>(ConvolutionPlan(conv, threads).scratch) * sizeof(float);
}

void convolve(Isa isa, const Convolution& conv, const Threads& threads, float* scratch) {
  if (conv.pixels() > 0 && conv.o > 0)
    run_convolution_table.of(isa)(conv, ConvolutionPlan(conv, threads.count()), threads, scratch);
}

}  // namespace brim::rt
#endif
