#include "backend/cpu/conv/conv_blocks.h"

#include <algorithm>

#include "backend/cpu/elementwise/transpose.h"
#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/runtime/scratch.h"

namespace brim::cpu {
namespace {

using backend::ConvGeometry;

constexpr int64_t kProduct = 65536;  // numbers of a product, which then still is in the L2 cache

/// Rows of dy [first, last) of an image, as blocks. product: (c kh kw, pixels).
template <class T>
void write_planes(const ConvGeometry& g, const T* product, int64_t first, int64_t last, T* dx) {
  const int64_t pixels = (last - first) * g.ow;
  for (int64_t c = 0; c < g.c; ++c)
    for (int64_t oy = first; oy < last; ++oy)
      for (int64_t ky = 0; ky < g.kh; ++ky) {
        const T* const from = product + (c * g.kh + ky) * g.kw * pixels + (oy - first) * g.ow;
        T* const to = dx + (c * g.h + oy * g.kh + ky) * g.w;
        if (g.kw == 2) {
          for (int64_t i = 0; i < g.ow; ++i) {
            to[2 * i] = from[i];
            to[2 * i + 1] = from[pixels + i];
          }
          continue;
        }
        for (int64_t kx = 0; kx < g.kw; ++kx)
          for (int64_t i = 0; i < g.ow; ++i) to[i * g.kw + kx] = from[kx * pixels + i];
      }
}

/// The same of nhwc images. product: (pixels, kh, kw c).
template <class T>
void write_pixels(const ConvGeometry& g, const T* product, int64_t first, int64_t last, T* dx) {
  const int64_t row = g.kw * g.c;  // of a block
  for (int64_t oy = first; oy < last; ++oy)
    for (int64_t ky = 0; ky < g.kh; ++ky) {
      const T* const from = product + ((oy - first) * g.ow * g.kh + ky) * row;
      T* const to = dx + (oy * g.kh + ky) * g.w * g.c;
      for (int64_t i = 0; i < g.ow; ++i) std::copy_n(from + i * g.kh * row, row, to + i * row);
    }
}

}  // namespace

bool conv_blocks_supports(ConvPass pass, const ConvGeometry& g) {
  return pass == ConvPass::grad_x && g.stride == Pair(g.kh, g.kw) && g.padding == Pair(0) &&
         g.dilation == Pair(1) && g.groups == 1 && g.kh * g.kw > 1;
}

template <class T>
void conv_blocks_grad_x(const Context& context, bool nhwc, const ConvGeometry& g, const T* dy,
                        const T* weight, T* dx) {
  const int64_t block = g.c * g.kh * g.kw, image = g.c * g.h * g.w;
  if (g.h > g.oh * g.kh || g.w > g.ow * g.kw) std::fill_n(dx, g.n * image, T(0));  // beyond them
  const Workspace turned =
      context.workspace(static_cast<size_t>(nhwc ? g.o * block : 1) * sizeof(T));
  if (nhwc) transpose(weight, g.o, g.c, g.kh * g.kw, turned.as<T>());
  const int64_t rows = std::clamp<int64_t>(kProduct / (block * g.ow), 1, g.oh);  // at once
  const int64_t parts = (g.oh + rows - 1) / rows;
  const PartScratch scratch(context, g.n * parts, 1,
                            static_cast<size_t>(block * rows * g.ow) * sizeof(T));
  parallel_for(g.n * parts, 1, [&](int64_t begin, int64_t end) {
    const PartScratch::Slot slot(scratch);
    T* const product = slot.as<T>();
    for (; begin < end; ++begin) {
      const int64_t n = begin / parts, first = begin % parts * rows;
      const int64_t last = std::min(g.oh, first + rows), pixels = (last - first) * g.ow;
      if (nhwc) {
        const T* const from = dy + (n * g.oh + first) * g.ow * g.o;
        gemm(pixels, block, g.o, Matrix<T>{from, g.o, 1}, Matrix<T>{turned.as<T>(), block, 1},
             false, product, block);
        write_pixels(g, product, first, last, dx + n * image);
      } else {
        const T* const from = dy + n * g.o * g.oh * g.ow + first * g.ow;
        gemm(block, pixels, g.o, Matrix<T>{weight, 1, block}, Matrix<T>{from, g.oh * g.ow, 1},
             false, product, pixels);
        write_planes(g, product, first, last, dx + n * image);
      }
    }
  });
}

template void conv_blocks_grad_x(const Context&, bool, const ConvGeometry&, const float*,
                                 const float*, float*);
template void conv_blocks_grad_x(const Context&, bool, const ConvGeometry&, const double*,
                                 const double*, double*);

}  // namespace brim::cpu
