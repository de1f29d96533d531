// interpolate and its gradient on the CPU: rows of images between two rows of x, a block after the
// other. A row-major plane is an image of blocks of one number, an nhwc image has pixels as blocks.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/interpolate.cpp"
#include <hwy/foreach_target.h>
#include "backend/cpu/runtime/small_baseline-inl.h"

#include <algorithm>
#include <cmath>

#include <brim/formula/dense.h>

#include "backend/cpu/conv/image_formats.h"
#include "backend/cpu/elementwise/loop.h"
#include "backend/cpu/elementwise/through_f32.h"
#include "backend/cpu/runtime/isa.h"
#include "backend/cpu/runtime/scratch.h"
#include "backend/kernel.h"
#include "backend/options/resize.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

using backend::ResizeAxis;
using backend::ResizeGeometry;

/// What an element of the result is made of: rest * x[before] + share * x[after]. Of the nearest
/// element, x[before] alone.
template <class T>
struct Tap {
  int64_t before, after;
  T rest, share;
};

template <class T>
void nearest_taps(const ResizeAxis& axis, Tap<T>* taps) {
  for (int64_t i = 0; i < axis.to; ++i) {
    const int64_t at = axis.nearest<T>(i);
    taps[i] = {at, at, T(1), T(0)};
  }
}

/// Between the element at or before a place and the next one.
template <class T>
void linear_taps(const ResizeAxis& axis, bool align_corners, Tap<T>* taps) {
  for (int64_t i = 0; i < axis.to; ++i) {
    const double number = static_cast<double>(i);
    const double place =
        align_corners ? number * axis.step : std::max((number + 0.5) * axis.step - 0.5, 0.0);
    const int64_t before = std::min(static_cast<int64_t>(place), axis.from - 1);
    const T share = static_cast<T>(place - static_cast<double>(before));
    taps[i] = {before, std::min(before + 1, axis.from - 1), T(1) - share, share};
  }
}

/// The images as (planes, rows, columns, blocks), with the taps of rows and columns in scratch.
template <class T>
struct Resize {
  int64_t planes, block;
  int64_t h, w, oh, ow;
  Workspace memory;
  Tap<T>*rows, *columns;

  Resize(const Context& context, const ResizeGeometry& g, bool by_pixels)
      : planes(by_pixels ? g.n : g.n * g.c),
        block(by_pixels ? g.c : 1),
        h(g.rows.from),
        w(g.columns.from),
        oh(g.rows.to),
        ow(g.columns.to),
        memory(context.workspace(static_cast<size_t>(oh + ow) * sizeof(Tap<T>))),
        rows(memory.as<Tap<T>>()),
        columns(rows + oh) {
    for (const auto& [axis, taps] : {std::pair{g.rows, rows}, {g.columns, columns}})
      if (g.bilinear)
        linear_taps(axis, g.align_corners, taps);
      else
        nearest_taps(axis, taps);
  }
};

int64_t grain_of(int64_t row) {
  return std::max<int64_t>(1, kElementwiseGrain / std::max<int64_t>(row, 1));
}

/// y = rest * a + share * b
template <class T>
HWY_INLINE void blend(const T* a, const T* b, T rest, T share, T* HWY_RESTRICT y, int64_t n) {
  BRIM_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] = a[i] * rest + b[i] * share;
}
/// y += factor * x
template <class T>
HWY_INLINE void add_scaled(const T* x, T factor, T* HWY_RESTRICT y, int64_t n) {
  BRIM_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] += x[i] * factor;
}

/// E: what has the size of the elements; T: what places are computed in.
template <class E, class T>
void nearest_row(const Resize<T>& r, const E* row, E* HWY_RESTRICT y) {
  if (r.block == 1) {
    for (int64_t i = 0; i < r.ow; ++i) y[i] = row[r.columns[i].before];
    return;
  }
  for (int64_t i = 0; i < r.ow; ++i) {
    const E* const from = row + r.columns[i].before * r.block;
    E* const to = y + i * r.block;
    BRIM_INDEPENDENT
    for (int64_t k = 0; k < r.block; ++k) to[k] = from[k];
  }
}

template <class E, class T>
void nearest(const Resize<T>& r, const E* x, E* y) {
  const int64_t in = r.w * r.block, out = r.ow * r.block;
  parallel_for(r.planes * r.oh, grain_of(out), [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      const int64_t plane = line / r.oh, i = line % r.oh, from = r.rows[i].before;
      E* const to = y + line * out;
      if (line > begin && i > 0 && r.rows[i - 1].before == from)
        std::copy_n(to - out, out, to);
      else
        nearest_row(r, x + (plane * r.h + from) * in, to);
    }
  });
}

/// A row of x's width -> a row of the result's.
template <class T>
HWY_INLINE void linear_row(const Resize<T>& r, const T* HWY_RESTRICT row, T* HWY_RESTRICT y) {
  if (r.block == 1) {
    for (int64_t i = 0; i < r.ow; ++i) {
      const Tap<T>& t = r.columns[i];
      y[i] = row[t.before] * t.rest + row[t.after] * t.share;
    }
    return;
  }
  for (int64_t i = 0; i < r.ow; ++i) {
    const Tap<T>& t = r.columns[i];
    blend(row + t.before * r.block, row + t.after * r.block, t.rest, t.share, y + i * r.block,
          r.block);
  }
}

template <class T>
void bilinear(const Context& context, const Resize<T>& r, const T* x, T* y) {
  const int64_t in = r.w * r.block, out = r.ow * r.block, lines = r.planes * r.oh;
  const int64_t grain = grain_of(out);
  const PartScratch scratch(context, lines, grain, static_cast<size_t>(in) * sizeof(T));
  parallel_for(lines, grain, [&](int64_t begin, int64_t end) {
    const PartScratch::Slot slot(scratch);
    T* const between = slot.as<T>();
    for (int64_t line = begin; line < end; ++line) {
      const Tap<T>& t = r.rows[line % r.oh];
      const T* const plane = x + line / r.oh * r.h * in;
      blend(plane + t.before * in, plane + t.after * in, t.rest, t.share, between, in);
      linear_row(r, between, y + line * out);
    }
  });
}

template <class T>
void interpolate(const Context& context, const Tensor& x, Tensor& y, const ResizeGeometry& g) {
  if (y.numel() == 0) return;
  const Resize<T> r(context, g, are_nhwc(x, y));
  const T* const from = static_cast<const T*>(x.raw());
  T* const to = static_cast<T*>(y.raw());
  if (g.bilinear)
    bilinear(context, r, from, to);
  else
    nearest(r, from, to);
}

/// Of 16-bit floats: the nearest elements are copied as they are.
void interpolate_16_bits(const Context& context, const Tensor& x, Tensor& y,
                         const ResizeGeometry& g) {
  if (g.bilinear) return ThroughF32<&interpolate<float>, Outputs::written>::run(context, x, y, g);
  if (y.numel() == 0) return;
  nearest(Resize<float>(context, g, are_nhwc(x, y)), static_cast<const uint16_t*>(x.raw()),
          static_cast<uint16_t*>(y.raw()));
}

/// The transpose of linear_row, or of nearest_row.
template <bool kBilinear, class T>
HWY_INLINE void spread_row(const Resize<T>& r, const T* HWY_RESTRICT dy, T* HWY_RESTRICT row) {
  std::fill_n(row, r.w * r.block, T(0));
  if (r.block == 1) {
    for (int64_t i = 0; i < r.ow; ++i) {
      const Tap<T>& t = r.columns[i];
      row[t.before] += dy[i] * t.rest;
      if constexpr (kBilinear) row[t.after] += dy[i] * t.share;
    }
    return;
  }
  for (int64_t i = 0; i < r.ow; ++i) {
    const Tap<T>& t = r.columns[i];
    const T* const from = dy + i * r.block;
    add_scaled(from, t.rest, row + t.before * r.block, r.block);
    if constexpr (kBilinear) add_scaled(from, t.share, row + t.after * r.block, r.block);
  }
}

/// Rows [first, last) of a plane of dx: what is made of them hands its gradient back, first to
/// last.
template <bool kBilinear, class T>
void spread_to_rows(const Resize<T>& r, const T* dy, int64_t first, int64_t last, T* between,
                    T* dx) {
  const int64_t in = r.w * r.block, out = r.ow * r.block;
  std::fill(dx + first * in, dx + last * in, T(0));
  const Tap<T>* const all = r.rows + r.oh;
  const Tap<T>* t = std::partition_point(static_cast<const Tap<T>*>(r.rows), all,
                                         [&](const Tap<T>& tap) { return tap.after < first; });
  for (; t != all && t->before < last; ++t) {
    spread_row<kBilinear>(r, dy + (t - r.rows) * out, between);
    if (t->before >= first) add_scaled(between, t->rest, dx + t->before * in, in);
    if constexpr (kBilinear)
      if (t->after < last) add_scaled(between, t->share, dx + t->after * in, in);
  }
}

template <bool kBilinear, class T>
void spread(const Context& context, const Resize<T>& r, const T* dy, T* dx) {
  const int64_t in = r.w * r.block, lines = r.planes * r.h;
  const int64_t grain = grain_of(r.oh * r.ow * r.block / r.h);
  const PartScratch scratch(context, lines, grain, static_cast<size_t>(in) * sizeof(T));
  parallel_for(lines, grain, [&](int64_t begin, int64_t end) {
    const PartScratch::Slot slot(scratch);
    while (begin < end) {
      const int64_t plane = begin / r.h, first = begin % r.h;
      const int64_t last = std::min(r.h, first + end - begin);
      spread_to_rows<kBilinear>(r, dy + plane * r.oh * r.ow * r.block, first, last, slot.as<T>(),
                                dx + plane * r.h * in);
      begin += last - first;
    }
  });
}

template <class T>
void interpolate_grad(const Context& context, const Tensor& dy, Tensor& dx,
                      const ResizeGeometry& g) {
  if (dx.numel() == 0) return;
  const Resize<T> r(context, g, are_nhwc(dy, dx));
  const T* const from = static_cast<const T*>(dy.raw());
  T* const to = static_cast<T*>(dx.raw());
  (g.bilinear ? spread<true, T> : spread<false, T>)(context, r, from, to);
}

void register_interpolate() {
  constexpr DeviceKind cpu = DeviceKind::cpu;
  backend::register_kernel("interpolate", cpu, DType::f32, &interpolate<float>);
  backend::register_kernel("interpolate", cpu, DType::f64, &interpolate<double>);
  for (const DType dtype : {DType::f16, DType::bf16})
    backend::register_kernel("interpolate", cpu, dtype, &interpolate_16_bits);
  register_floats<&interpolate_grad<float>, &interpolate_grad<double>>("interpolate_grad");
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
BRIM_REGISTER_FOR_CPU(register_interpolate);
#endif
