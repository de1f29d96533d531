// Regular patterns: arange, linspace, and the triangles of matrices.
#include <brim/formula/formula.h>

#include "backend/cuda/elementwise/cast.cuh"
#include "backend/cuda/elementwise/elementwise.cuh"
#include "backend/types.h"

namespace brim::cuda {
namespace {

using formula::Params;

/// Multiplication and addition are rounded apart, as on the CPU.
__device__ inline double line(double start, double step, int64_t i) {
  return __dadd_rn(start, __dmul_rn(step, static_cast<double>(i)));
}

template <class T>
__global__ void arange_kernel(T* y, int64_t n, Params p) {
  begin_kernel();
  for (int64_t i = first_index(); i < n; i += grid_size()) y[i] = element<T>(line(p.a, p.b, i));
}

template <class T>
void arange(const Context& context, Tensor& y, const Params& p) {
  if (y.numel() == 0) return;
  launch(context, &arange_kernel<T>, grid_for(y.numel()), data<T>(y), y.numel(), p);
}

/// From both ends, so that the last element is exactly the end.
template <class T>
__global__ void linspace_kernel(T* y, int64_t n, Params p, double step) {
  begin_kernel();
  for (int64_t i = first_index(); i < n; i += grid_size())
    y[i] = element<T>(i < n / 2 || n == 1 ? line(p.a, step, i) : line(p.b, -step, n - 1 - i));
}

template <class T>
void linspace(const Context& context, Tensor& y, const Params& p) {
  const int64_t n = y.numel();
  if (n == 0) return;
  const double step = n > 1 ? (p.b - p.a) / static_cast<double>(n - 1) : 0;
  launch(context, &linspace_kernel<T>, grid_for(n), data<T>(y), n, p, step);
}

template <class T>
__global__ void triangle_kernel(const T* x, T* y, int64_t n, int64_t rows, int64_t columns,
                                int64_t first, bool upper) {
  begin_kernel();
  for (int64_t i = first_index(); i < n; i += grid_size()) {
    const int64_t diagonal = i / columns % rows + first, column = i % columns;
    y[i] = (upper ? column >= diagonal : column <= diagonal) ? x[i] : T{};
  }
}

/// Keeps columns [row + first, ...) of x when `upper`, else columns (..., row + first].
template <class T>
void triangle(const Context& context, const Tensor& x, Tensor& y, int64_t first, bool upper) {
  const int64_t rows = x.shape()[x.rank() - 2], columns = x.shape().back();
  if (y.numel() == 0) return;
  launch(context, &triangle_kernel<T>, grid_for(y.numel()), data<const T>(x), data<T>(y), y.numel(),
         rows, columns, first, upper);
}

const bool registered =
    backend::for_each_type(backend::AllTypes{}, []<class T>(std::type_identity<T>) {
      backend::register_kernel("arange", DeviceKind::cuda, dtype_of<T>, &arange<T>);
      backend::register_kernel("linspace", DeviceKind::cuda, dtype_of<T>, &linspace<T>);
      backend::register_kernel("triangle", DeviceKind::cuda, dtype_of<T>, &triangle<Bits<T>>);
    });

}  // namespace
}  // namespace brim::cuda
