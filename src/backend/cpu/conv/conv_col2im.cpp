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

/// Adds row ky of the windows of one row of dy to a row of dx. product: (pixels, kh, kw, c).
template <class T>
void add_pixels(const ConvGeometry& g, const T* product, int64_t ky, T* row) {
  const int64_t window = g.kh * g.kw * g.c;
  for (int64_t ox = 0; ox < g.ow; ++ox) {
    const T* const from = product + ox * window + ky * g.kw * g.c;
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
void add_plane(const ConvGeometry& g, const T* product, int64_t ky, T* row) {
  const int64_t step = g.stride.w;
  for (int64_t kx = 0; kx < g.kw; ++kx) {
    const T* const from = product + (ky * g.kw + kx) * g.ow;
    const int64_t first = kx * g.dilation.w - g.padding.w;
    const Range pixels = windows(first, step, 1, g.ow, 0, g.w);
    T* const to = row + first;
    if (step == 1)
      for (int64_t ox = pixels.begin; ox < pixels.end; ++ox) to[ox] += from[ox];
    else
      for (int64_t ox = pixels.begin; ox < pixels.end; ++ox) to[ox * step] += from[ox];
  }
}

}  // namespace

bool conv_col2im_wins(ConvPass pass, const ConvGeometry& g) {
  if (pass != ConvPass::grad_x || g.groups != 1 || g.c % 16 == 0 || g.work() == 0) return false;
  // Direct sums have no vectors along strided rows: 2 to 24 times as fast. Along others, only a few
  // channels leave them too little to do with what they load: 1.3 to 4 times.
  return g.stride != Pair(1) || (g.c > 1 && g.c <= 4 && g.o >= 32);
}

template <class T>
void conv_col2im_grad_x(const Context& context, bool nhwc, const ConvGeometry& g, const T* dy,
                        const T* weight, T* dx) {
  const int64_t window = g.c * g.kh * g.kw;
  const Workspace turned =
      context.workspace(static_cast<size_t>(nhwc ? g.o * window : 0) * sizeof(T));
  if (nhwc) transpose(weight, g.o, g.c, g.kh * g.kw, turned.as<T>());
  // Bands of rows of dx. Rows of dy whose windows two bands share are multiplied for each of them.
  const int64_t reach = (g.kh - 1) * g.dilation.h + 1;
  const int64_t least = std::max<int64_t>(8 * g.stride.h, 4 * reach);
  const int64_t bands = std::clamp<int64_t>(g.h / least, 1, 2 * num_threads());
  const PartScratch scratch(context, g.n * bands, 1,
                            static_cast<size_t>(window * g.ow) * sizeof(T));
  parallel_for(g.n * bands, 1, [&](int64_t part, int64_t last) {
    const PartScratch::Slot slot(scratch);
    T* const product = slot.as<T>();
    for (; part < last; ++part) {
      const int64_t n = part / bands, band = part % bands;
      const Range rows = {g.h * band / bands, g.h * (band + 1) / bands};
      const T* const image = dy + n * g.o * g.oh * g.ow;
      T* const to = dx + n * g.c * g.h * g.w;
      if (nhwc)
        std::fill(to + rows.begin * g.w * g.c, to + rows.end * g.w * g.c, T(0));
      else
        for (int64_t c = 0; c < g.c; ++c)
          std::fill(to + (c * g.h + rows.begin) * g.w, to + (c * g.h + rows.end) * g.w, T(0));
      const Range from = windows(-g.padding.h, g.stride.h, reach, g.oh, rows.begin, rows.end);
      for (int64_t oy = from.begin; oy < from.end; ++oy) {
        if (nhwc)
          gemm(g.ow, window, g.o, Matrix<T>{image + oy * g.ow * g.o, g.o, 1},
               Matrix<T>{turned.as<T>(), window, 1}, false, product, window);
        else
          gemm(window, g.ow, g.o, Matrix<T>{weight, 1, window},
               Matrix<T>{image + oy * g.ow, g.oh * g.ow, 1}, false, product, g.ow);
        for (int64_t ky = 0; ky < g.kh; ++ky) {
          const int64_t y = oy * g.stride.h - g.padding.h + ky * g.dilation.h;
          if (y < rows.begin || y >= rows.end) continue;
          if (nhwc)
            add_pixels(g, product, ky, to + y * g.w * g.c);
          else
            for (int64_t c = 0; c < g.c; ++c)
              add_plane(g, product + c * g.kh * g.kw * g.ow, ky, to + (c * g.h + y) * g.w);
        }
      }
    }
  });
}

template void conv_col2im_grad_x(const Context&, bool, const ConvGeometry&, const float*,
                                 const float*, float*);
template void conv_col2im_grad_x(const Context&, bool, const ConvGeometry&, const double*,
                                 const double*, double*);

}  // namespace brim::cpu
