// l1_distances on GPUs: a thread for each pair of rows.
#include <brim/extend/cuda.h>

namespace {

using namespace brim;
namespace cuda = brim::extend::cuda;

template <class T>
__global__ void distances(int64_t rows, int64_t others, int64_t count, const T* a, const T* b,
                          T* y) {
  for (int64_t i = cuda::first_index(); i < rows * others; i += cuda::grid_size()) {
    const T* const p = a + i / others * count;
    const T* const q = b + i % others * count;
    T sum = 0;
    for (int64_t k = 0; k < count; ++k) sum += p[k] < q[k] ? q[k] - p[k] : p[k] - q[k];
    y[i] = sum;
  }
}

template <class T>
void run(const Context& context, const Tensor& a, const Tensor& b, Tensor& y) {
  if (y.numel() == 0) return;
  cuda::launch(context, &distances<T>, cuda::grid_for(y.numel()), a.size(0), b.size(0), a.size(1),
               static_cast<const T*>(a.raw()), static_cast<const T*>(b.raw()),
               static_cast<T*>(y.raw()));
}

const bool registered =
    extend::register_kernel("l1_distances", DeviceKind::cuda, f32, &run<float>) &&
    extend::register_kernel("l1_distances", DeviceKind::cuda, f64, &run<double>);

}  // namespace
