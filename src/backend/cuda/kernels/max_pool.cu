// Max pooling with the indices of the maxima, and both ways along those indices.
#include <limits>
#include <type_traits>

#include "backend/cuda/conv/pool.cuh"
#include "backend/kernel.h"
#include "backend/types.h"

namespace brim::cuda {
namespace {

using backend::PoolGeometry;

template <class Index>
Windows<Index> rows(const PoolGeometry& g) {
  return {g.h, g.oh, g.kernel.h, g.stride.h, g.padding.h, g.dilation.h};
}
template <class Index>
Windows<Index> columns(const PoolGeometry& g) {
  return {g.w, g.ow, g.kernel.w, g.stride.w, g.padding.w, g.dilation.w};
}

/// The largest element of a window and its index there; a NaN wins, as it must not be lost. Windows
/// of nothing but padding: -infinity, kNoElement.
template <class T, class At, class Index, int Width>
struct Largest {
  Images<const T, Index> from;
  Images<T, Index> to;
  Images<At, Index> indices;
  Windows<Index> rows, columns;
  Index kernel_width;
  Compute<T> lowest;

  __device__ void operator()(const PlaceInImages<Index>& p) const {
    const Range<Index> ys = rows.elements(p.y), xs = columns.elements(p.x);
    const Index first = rows.index(p.y, ys.begin) * kernel_width + columns.index(p.x, xs.begin);
    const bool any = ys.begin < ys.end && xs.begin < xs.end;
    Compute<T> best[Width];
    Pack<At, Width> at;
#pragma unroll
    for (int k = 0; k < Width; ++k) {
      best[k] = lowest;
      at.at[k] = any ? static_cast<At>(first) : backend::kNoElement<At>;
    }
    const T* const plane = from.plane(p.n, p.c);
    Index of_row = first;
    for (Index y = ys.begin; y < ys.end; y += rows.dilation, of_row += kernel_width) {
      const T* const row = plane + y * from.y;
      Index here = of_row;
      for (Index x = xs.begin; x < xs.end; x += columns.dilation, ++here) {
        const Pack<T, Width> v = load<Width>(row + x * from.x);
#pragma unroll
        for (int k = 0; k < Width; ++k)
          if (const Compute<T> wide = widen(v.at[k]); wide > best[k] || wide != wide)
            best[k] = wide, at.at[k] = static_cast<At>(here);
      }
    }
    Pack<T, Width> result;
#pragma unroll
    for (int k = 0; k < Width; ++k) result.at[k] = narrow<T>(best[k]);
    store<Width>(to.at(p.n, p.c, p.y, p.x), result);
    store<Width>(indices.at(p.n, p.c, p.y, p.x), at);
  }
};

/// dx: the sum of the dy whose windows found their maximum here, first to last.
template <class T, class At, class Index, int Width>
struct Scatter {
  static constexpr int kBlocksAtOnce = sizeof(Index) == 8 ? 2 : 0;  // else it spills registers
  Images<const T, Index> dy;
  Images<const At, Index> indices;
  Images<T, Index> dx;
  Windows<Index> rows, columns;
  Index kernel_width;

  __device__ void operator()(const PlaceInImages<Index>& p) const {
    const Range<Index> ys = rows.over(p.y), xs = columns.over(p.x);
    Compute<T> sum[Width] = {};
    const T* const plane = dy.plane(p.n, p.c);
    const At* const plane_of_indices = indices.plane(p.n, p.c);
    for (Index y = ys.begin; y < ys.end; ++y) {
      if (rows.skips(y, p.y)) continue;
      const Index of_row = rows.index(y, p.y) * kernel_width;
      const T* const row = plane + y * dy.y;
      const At* const row_of_indices = plane_of_indices + y * indices.y;
      for (Index x = xs.begin; x < xs.end; ++x) {
        if (columns.skips(x, p.x)) continue;
        const At here = static_cast<At>(of_row + columns.index(x, p.x));
        const Pack<T, Width> v = load<Width>(row + x * dy.x);
        const Pack<At, Width> at = load<Width>(row_of_indices + x * indices.x);
#pragma unroll
        for (int k = 0; k < Width; ++k)
          if (at.at[k] == here) sum[k] += widen(v.at[k]);
      }
    }
    Pack<T, Width> result;
#pragma unroll
    for (int k = 0; k < Width; ++k) result.at[k] = narrow<T>(sum[k]);
    store<Width>(dx.at(p.n, p.c, p.y, p.x), result);
  }
};

/// y: the elements of x at the indices.
template <class T, class At, class Index, int Width>
struct Gather {
  Images<const T, Index> from;
  Images<const At, Index> indices;
  Images<T, Index> to;
  Windows<Index> rows, columns;
  DivideBy<Index> kernel_width;

  __device__ void operator()(const PlaceInImages<Index>& p) const {
    const Pack<At, Width> at = load<Width>(indices.at(p.n, p.c, p.y, p.x));
    Pack<T, Width> result;
#pragma unroll
    for (int k = 0; k < Width; ++k) {
      result.at[k] = narrow<T>(0);
      if (at.at[k] == backend::kNoElement<At>) continue;
      const Split<Index> index(static_cast<Index>(at.at[k]), kernel_width);
      result.at[k] = *from.at(p.n, p.c + k, rows.element(p.y, index.quotient),
                              columns.element(p.x, index.rest));
    }
    store<Width>(to.at(p.n, p.c, p.y, p.x), result);
  }
};

/// Calls body(std::type_identity<At>()) for the type of indices.
template <class Body>
void with_indices(const Tensor& indices, const Body& body) {
  if (indices.dtype() == DType::u8)
    body(std::type_identity<uint8_t>());
  else
    body(std::type_identity<int32_t>());
}

template <class T>
void max_pool(const Context& context, const Tensor& x, Tensor& y, Tensor& indices,
              const PoolGeometry& g) {
  with_indices(indices, [&]<class At>(std::type_identity<At>) {
    for_each_pack<T>(
        context, y, {&x, &y, &indices}, windows_fit_32_bits(g), [&]<class Index, int Width>() {
          return Largest<T, At, Index, Width>{Images<const T, Index>(x),
                                              Images<T, Index>(y),
                                              Images<At, Index>(indices),
                                              rows<Index>(g),
                                              columns<Index>(g),
                                              static_cast<Index>(g.kernel.w),
                                              -std::numeric_limits<Compute<T>>::infinity()};
        });
  });
}

template <class T>
void scatter(const Context& context, const Tensor& dy, const Tensor& indices, Tensor& dx,
             const PoolGeometry& g) {
  with_indices(indices, [&]<class At>(std::type_identity<At>) {
    for_each_pack<T>(context, dx, {&dy, &indices, &dx}, windows_fit_32_bits(g),
                     [&]<class Index, int Width>() {
                       return Scatter<T, At, Index, Width>{
                           Images<const T, Index>(dy), Images<const At, Index>(indices),
                           Images<T, Index>(dx),       rows<Index>(g),
                           columns<Index>(g),          static_cast<Index>(g.kernel.w)};
                     });
  });
}

template <class T>
void gather(const Context& context, const Tensor& x, const Tensor& indices, Tensor& y,
            const PoolGeometry& g) {
  with_indices(indices, [&]<class At>(std::type_identity<At>) {
    for_each_pack<T>(context, y, {&x, &indices, &y}, windows_fit_32_bits(g),
                     [&]<class Index, int Width>() {
                       return Gather<T, At, Index, Width>{
                           Images<const T, Index>(x), Images<const At, Index>(indices),
                           Images<T, Index>(y),       rows<Index>(g),
                           columns<Index>(g),         DivideBy<Index>(g.kernel.w)};
                     });
  });
}

const bool registered =
    backend::for_each_type(backend::Floats{}, []<class T>(std::type_identity<T>) {
      constexpr DeviceKind cuda = DeviceKind::cuda;
      backend::register_kernel("max_pool2d", cuda, dtype_of<T>, &max_pool<T>);
      backend::register_kernel("max_pool2d_scatter", cuda, dtype_of<T>, &scatter<T>);
      backend::register_kernel("max_pool2d_gather", cuda, dtype_of<T>, &gather<T>);
    });

}  // namespace
}  // namespace brim::cuda
