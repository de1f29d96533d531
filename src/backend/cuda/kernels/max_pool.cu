// Max pooling with the indices of the maxima, and both ways along those indices.
#include <limits>

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

/// The largest element of a window and its index in the plane; a NaN wins, as it must not be lost.
/// Windows of nothing but padding: -infinity, -1.
template <class T, class Index, int Width>
struct Largest {
  Images<const T, Index> from;
  Images<T, Index> to;
  Images<int32_t, Index> indices;
  Windows<Index> rows, columns;
  Compute<T> lowest;

  __device__ void operator()(const PlaceInImages<Index>& p) const {
    const Range<Index> ys = rows.elements(p.y), xs = columns.elements(p.x);
    const bool any = ys.begin < ys.end && xs.begin < xs.end;
    Compute<T> best[Width];
    Pack<int32_t, Width> at;
#pragma unroll
    for (int k = 0; k < Width; ++k) {
      best[k] = lowest;
      at.at[k] = any ? static_cast<int32_t>(ys.begin * columns.in + xs.begin) : -1;
    }
    const T* const plane = from.plane(p.n, p.c);
    for (Index y = ys.begin; y < ys.end; y += rows.dilation) {
      const T* const row = plane + y * from.y;
      for (Index x = xs.begin; x < xs.end; x += columns.dilation) {
        const Pack<T, Width> v = load<Width>(row + x * from.x);
        const int32_t here = static_cast<int32_t>(y * columns.in + x);
#pragma unroll
        for (int k = 0; k < Width; ++k)
          if (const Compute<T> wide = widen(v.at[k]); wide > best[k] || wide != wide)
            best[k] = wide, at.at[k] = here;
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
template <class T, class Index, int Width>
struct Scatter {
  Images<const T, Index> dy;
  Images<const int32_t, Index> indices;
  Images<T, Index> dx;
  Windows<Index> rows, columns;

  __device__ void operator()(const PlaceInImages<Index>& p) const {
    const int32_t here = static_cast<int32_t>(p.y * columns.in + p.x);
    const Range<Index> ys = rows.over(p.y), xs = columns.over(p.x);
    Compute<T> sum[Width] = {};
    const T* const plane = dy.plane(p.n, p.c);
    const int32_t* const plane_of_indices = indices.plane(p.n, p.c);
    for (Index y = ys.begin; y < ys.end; ++y) {
      const T* const row = plane + y * dy.y;
      const int32_t* const row_of_indices = plane_of_indices + y * indices.y;
      for (Index x = xs.begin; x < xs.end; ++x) {
        const Pack<T, Width> v = load<Width>(row + x * dy.x);
        const Pack<int32_t, Width> at = load<Width>(row_of_indices + x * indices.x);
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
template <class T, class Index, int Width>
struct Gather {
  Images<const T, Index> from;
  Images<const int32_t, Index> indices;
  Images<T, Index> to;
  DivideBy<int32_t> width;  // of x; an index has 31 bits

  __device__ void operator()(const PlaceInImages<Index>& p) const {
    const Pack<int32_t, Width> at = load<Width>(indices.at(p.n, p.c, p.y, p.x));
    Pack<T, Width> result;
#pragma unroll
    for (int k = 0; k < Width; ++k) {
      const Split<int32_t> index(at.at[k] < 0 ? 0 : at.at[k], width);
      result.at[k] =
          at.at[k] < 0 ? narrow<T>(0) : *from.at(p.n, p.c + k, index.quotient, index.rest);
    }
    store<Width>(to.at(p.n, p.c, p.y, p.x), result);
  }
};

template <class T>
void max_pool(const Context& context, const Tensor& x, Tensor& y, Tensor& indices,
              const PoolGeometry& g) {
  for_each_pack<T>(context, y, {&x, &y, &indices}, windows_fit_32_bits(g),
                   [&]<class Index, int Width>() {
                     return Largest<T, Index, Width>{Images<const T, Index>(x),
                                                     Images<T, Index>(y),
                                                     Images<int32_t, Index>(indices),
                                                     rows<Index>(g),
                                                     columns<Index>(g),
                                                     -std::numeric_limits<Compute<T>>::infinity()};
                   });
}

template <class T>
void scatter(const Context& context, const Tensor& dy, const Tensor& indices, Tensor& dx,
             const PoolGeometry& g) {
  for_each_pack<T>(
      context, dx, {&dy, &indices, &dx}, windows_fit_32_bits(g), [&]<class Index, int Width>() {
        return Scatter<T, Index, Width>{Images<const T, Index>(dy),
                                        Images<const int32_t, Index>(indices), Images<T, Index>(dx),
                                        rows<Index>(g), columns<Index>(g)};
      });
}

template <class T>
void gather(const Context& context, const Tensor& x, const Tensor& indices, Tensor& y,
            const PoolGeometry& g) {
  for_each_pack<T>(context, y, {&x, &indices, &y}, true, [&]<class Index, int Width>() {
    return Gather<T, Index, Width>{Images<const T, Index>(x), Images<const int32_t, Index>(indices),
                                   Images<T, Index>(y), DivideBy<int32_t>(g.w)};
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
