#include "backend/cpu/conv/conv_col2im.h"

#include <algorithm>

#include "backend/cpu/elementwise/transpose.h"
#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/runtime/parallel.h"
#include "backend/cpu/runtime/scratch.h"

namespace brim::cpu {
namespace {

using backend::ConvGeometry;

/// [begin, end)
struct Range {
  int64_t begin, end;
};

/// Windows of `size` elements, whose first are `step` apart from `first` on, of which there are
/// `count`, that have an element in [begin, end).
Range windows(int64_t first, int64_t step, int64_t size, int64_t count, int64_t begin,
              int64_t end) {
  const auto ceil_div = [step](int64_t x) { return x <= 0 ? -(-x / step) : (x - 1) / step + 1; };
  return {std::clamp<int64_t>(ceil_div(begin - first - size + 1), 0, count),
          std::clamp<int64_t>(ceil_div(end - first), 0, count)};
}

/// Adds row ky of the windows of some pixels of a row of dy to a row of dx. product: (pixels, kh,
/// kw, c).
template <class T>
void add_pixels(const ConvGeometry& g, const T* product, Range pixels, int64_t ky, T* row) {
  const int64_t window = g.kh * g.kw * g.c;
  for (int64_t ox = pixels.begin; ox < pixels.end; ++ox) {
    const T* const from = product + (ox - pixels.begin) * window + ky * g.kw * g.c;
    const int64_t x = ox * g.stride.w - g.padding.w, dilation = g.dilation.w;
    // Taps inside of dx; where they follow each other they are one run.
    const Range taps = windows(x, dilation, 1, g.kw, 0, g.w);
    const int64_t run = dilation == 1 ? (taps.end - taps.begin) * g.c : g.c;
    for (int64_t kx = taps.begin; kx < taps.end; kx += dilation == 1 ? g.kw : 1) {
      T* const to = row + (x + kx * dilation) * g.c;
      for (int64_t i = 0; i < run; ++i) to[i] += from[kx * g.c + i];
    }
  }
}

/// The same for a row of one channel's plane. product: (kh, kw, pixels) of that channel.
template <class T>
void add_plane(const ConvGeometry& g, const T* product, Range pixels, int64_t ky, T* row) {
  const int64_t step = g.stride.w, count = pixels.end - pixels.begin;
  for (int64_t kx = 0; kx < g.kw; ++kx) {
    const T* const from = product + (ky * g.kw + kx) * count;
    const int64_t first = pixels.begin * step + kx * g.dilation.w - g.padding.w;
    const Range inside = windows(first, step, 1, count, 0, g.w);
    T* const to = row + first;
    if (step == 1)
      for (int64_t i = inside.begin; i < inside.end; ++i) to[i] += from[i];
    else
      for (int64_t i = inside.begin; i < inside.end; ++i) to[i * step] += from[i];
  }
}

/// Sets rows of an image to 0.
template <class T>
void clear_rows(const ConvGeometry& g, bool nhwc, Range rows, T* image) {
  const int64_t planes = nhwc ? 1 : g.c, row = nhwc ? g.w * g.c : g.w;
  for (int64_t c = 0; c < planes; ++c)
    std::fill(image + (c * g.h + rows.begin) * row, image + (c * g.h + rows.end) * row, T(0));
}

/// Adds the windows of some pixels of row oy of dy to those of an image's rows that they reach.
template <class T>
void add_windows(const ConvGeometry& g, bool nhwc, const T* product, Range pixels, int64_t oy,
                 Range rows, T* image) {
  const int64_t plane = g.kh * g.kw * (pixels.end - pixels.begin);  // of the product
  for (int64_t ky = 0; ky < g.kh; ++ky) {
    const int64_t y = oy * g.stride.h - g.padding.h + ky * g.dilation.h;
    if (y < rows.begin || y >= rows.end) continue;
    if (nhwc)
      add_pixels(g, product, pixels, ky, image + y * g.w * g.c);
    else
      for (int64_t c = 0; c < g.c; ++c)
        add_plane(g, product + c * plane, pixels, ky, image + (c * g.h + y) * g.w);
  }
}

}  // namespace

template <class T>
bool conv_col2im_wins(ConvPass pass, bool nhwc, const ConvGeometry& g) {
  if (pass != ConvPass::grad_x || g.groups != 1 || g.work() == 0) return false;
  // conv_nhwc and oneDNN have blocks of channels.
  if (sizeof(T) == sizeof(float) && g.c % 16 == 0 && (nhwc || g.o % 16 == 0)) return false;
  // What is left are direct sums (bench/micro/backend/conv_grad_bench.cpp), which have no vectors
  // along strided rows. Along others they lose only with images.
  if (g.stride != Pair(1)) return g.o >= 16;
  return g.c == 3 && g.o >= 32 && g.h * g.w >= 64 * 64;
}

template <class T>
void conv_col2im_grad_x(const Context& context, bool nhwc, const ConvGeometry& g, const T* dy,
                        const T* weight, T* dx) {
  constexpr int64_t kMaxProduct = 65536;  // its elements, which then still are in the L2 cache
  const int64_t window = g.c * g.kh * g.kw;
  const Workspace transposed =
      context.workspace(static_cast<size_t>(nhwc ? g.o * window : 0) * sizeof(T));
  if (nhwc) transpose(weight, g.o, g.c, g.kh * g.kw, transposed.as<T>());
  // Bands of rows of dx. Rows of dy whose windows two bands share are multiplied for each of them.
  const int64_t reach = (g.kh - 1) * g.dilation.h + 1;
  const int64_t min_rows = std::max<int64_t>(8 * g.stride.h, 4 * reach);
  const int64_t bands = std::clamp<int64_t>(g.h / min_rows, 1, 2 * num_threads());
  const int64_t run = std::clamp<int64_t>(kMaxProduct / window, 1, g.ow);  // pixels of a product
  const PartScratch scratch(context, g.n * bands, 1, static_cast<size_t>(window * run) * sizeof(T));
  parallel_for(g.n * bands, 1, [&](int64_t part, int64_t last) {
    const PartScratch::Slot slot(scratch);
    T* const product = slot.as<T>();
    for (; part < last; ++part) {
      const int64_t n = part / bands, band = part % bands;
      const Range rows = {g.h * band / bands, g.h * (band + 1) / bands};
      const T* const from = dy + n * g.o * g.oh * g.ow;
      T* const to = dx + n * g.c * g.h * g.w;
      clear_rows(g, nhwc, rows, to);
      const Range reaching = windows(-g.padding.h, g.stride.h, reach, g.oh, rows.begin, rows.end);
      for (int64_t oy = reaching.begin; oy < reaching.end; ++oy)
        for (int64_t ox = 0; ox < g.ow; ox += run) {
          const Range pixels = {ox, std::min(g.ow, ox + run)};
          const int64_t count = pixels.end - pixels.begin;
          if (nhwc)
            gemm(count, window, g.o, Matrix<T>{from + (oy * g.ow + ox) * g.o, g.o, 1},
                 Matrix<T>{transposed.as<T>(), window, 1}, false, product, window);
          else
            gemm(window, count, g.o, Matrix<T>{weight, 1, window},
                 Matrix<T>{from + oy * g.ow + ox, g.oh * g.ow, 1}, false, product, count);
          add_windows(g, nhwc, product, pixels, oy, rows, to);
        }
    }
  });
}

template bool conv_col2im_wins<float>(ConvPass, bool, const ConvGeometry&);
template bool conv_col2im_wins<double>(ConvPass, bool, const ConvGeometry&);
template void conv_col2im_grad_x(const Context&, bool, const ConvGeometry&, const float*,
                                 const float*, float*);
template void conv_col2im_grad_x(const Context&, bool, const ConvGeometry&, const double*,
                                 const double*, double*);

}  // namespace brim::cpu
