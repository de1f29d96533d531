// Max pooling with the places of the maxima, and both ways along those places.
#include <limits>

#include "backend/cuda/pool.cuh"
#include "backend/kernel.h"

namespace brim::cuda {
namespace {

using backend::PoolGeometry;

/// The largest element of a window and its index in the plane; a NaN wins, as it must not be lost.
/// Windows of nothing but padding: -infinity, -1.
template <class T>
struct Largest {
  Images<const T> from;
  Images<T> to;
  Images<int32_t> places;
  PoolGeometry g;
  Compute<T> lowest;

  __device__ void operator()(const PlaceInImages& p) const {
    Compute<T> best = lowest;
    int64_t at = -1;
    for (int64_t ky = 0; ky < g.kernel.h; ++ky) {
      const int64_t y = p.y * g.stride.h - g.padding.h + ky * g.dilation.h;
      if (y < 0 || y >= g.h) continue;
      for (int64_t kx = 0; kx < g.kernel.w; ++kx) {
        const int64_t x = p.x * g.stride.w - g.padding.w + kx * g.dilation.w;
        if (x < 0 || x >= g.w) continue;
        const Compute<T> v = widen(from.at(p.n, p.c, y, x));
        if (at < 0 || v > best || v != v) best = v, at = y * g.w + x;
      }
    }
    to.at(p.n, p.c, p.y, p.x) = narrow<T>(best);
    places.at(p.n, p.c, p.y, p.x) = static_cast<int32_t>(at);
  }
};

/// dx: the sum of the dy whose windows found their maximum here, first to last.
template <class T>
struct Scatter {
  Images<const T> dy;
  Images<const int32_t> places;
  Images<T> dx;
  PoolGeometry g;

  __device__ void operator()(const PlaceInImages& p) const {
    const int64_t here = p.y * g.w + p.x;
    Compute<T> sum = 0;
    for (int64_t ky = g.kernel.h - 1; ky >= 0; --ky) {
      const int64_t y = p.y + g.padding.h - ky * g.dilation.h;
      if (y < 0 || y % g.stride.h != 0 || y / g.stride.h >= g.oh) continue;
      for (int64_t kx = g.kernel.w - 1; kx >= 0; --kx) {
        const int64_t x = p.x + g.padding.w - kx * g.dilation.w;
        if (x < 0 || x % g.stride.w != 0 || x / g.stride.w >= g.ow) continue;
        if (places.at(p.n, p.c, y / g.stride.h, x / g.stride.w) == here)
          sum += widen(dy.at(p.n, p.c, y / g.stride.h, x / g.stride.w));
      }
    }
    dx.at(p.n, p.c, p.y, p.x) = narrow<T>(sum);
  }
};

/// y: the elements of x at the places.
template <class T>
struct Gather {
  Images<const T> from;
  Images<const int32_t> places;
  Images<T> to;
  int64_t width;  // of x

  __device__ void operator()(const PlaceInImages& p) const {
    const int32_t at = places.at(p.n, p.c, p.y, p.x);
    to.at(p.n, p.c, p.y, p.x) = at < 0 ? narrow<T>(0) : from.at(p.n, p.c, at / width, at % width);
  }
};

template <class T>
void max_pool(const Context& context, const Tensor& x, Tensor& y, Tensor& places,
              const PoolGeometry& g) {
  for_each_element(context, y,
                   Largest<T>{Images<const T>(x), Images<T>(y), Images<int32_t>(places), g,
                              -std::numeric_limits<Compute<T>>::infinity()});
}

template <class T>
void scatter(const Context& context, const Tensor& dy, const Tensor& places, Tensor& dx,
             const PoolGeometry& g) {
  for_each_element(
      context, dx,
      Scatter<T>{Images<const T>(dy), Images<const int32_t>(places), Images<T>(dx), g});
}

template <class T>
void gather(const Context& context, const Tensor& x, const Tensor& places, Tensor& y,
            const PoolGeometry& g) {
  for_each_element(context, y,
                   Gather<T>{Images<const T>(x), Images<const int32_t>(places), Images<T>(y), g.w});
}

template <class... T>
bool register_all() {
  constexpr DeviceKind cuda = DeviceKind::cuda;
  (backend::register_kernel("max_pool2d", cuda, dtype_of<T>, &max_pool<T>), ...);
  (backend::register_kernel("max_pool2d_scatter", cuda, dtype_of<T>, &scatter<T>), ...);
  (backend::register_kernel("max_pool2d_gather", cuda, dtype_of<T>, &gather<T>), ...);
  return true;
}

const bool registered = register_all<float, double, Half, BFloat16>();

}  // namespace
}  // namespace brim::cuda
