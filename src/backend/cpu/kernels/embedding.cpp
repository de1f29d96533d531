// embedding and its gradient on the CPU.
#include <algorithm>

#include "backend/cpu/elementwise/loop.h"
#include "backend/cpu/elementwise/runs.h"
#include "backend/cpu/elementwise/through_f32.h"
#include "backend/kernel.h"
#include "core/check.h"

namespace brim::cpu {
namespace {

template <class T>
void embedding(const Context&, const Tensor& weight, const Tensor& ids, Tensor& ty, int64_t zero) {
  const int64_t rows = weight.shape()[0], width = weight.shape()[1], n = ids.numel();
  const int64_t* id = static_cast<const int64_t*>(ids.raw());
  for (int64_t i = 0; i < n; ++i)
    BRIM_CHECK(id[i] >= 0 && id[i] < rows, IndexError,
               "[embedding] id {} at position {} is out of range for {} rows", id[i], i, rows);
  const T* from = static_cast<const T*>(weight.raw());
  T* y = static_cast<T*>(ty.raw());
  const int64_t grain = std::max<int64_t>(1, kElementwiseGrain / std::max<int64_t>(width, 1));
  parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (id[i] == zero)
        std::fill_n(y + i * width, width, T{});
      else
        copy_short(y + i * width, from + id[i] * width, static_cast<size_t>(width) * sizeof(T));
    }
  });
}

/// Threads share the columns, so rows are added in the order of the ids.
template <class T>
void embedding_grad(const Context&, const Tensor& tdy, const Tensor& ids, Tensor& dweight,
                    int64_t skip) {
  const int64_t width = dweight.shape()[1], n = ids.numel(), rows = dweight.shape()[0];
  const int64_t* id = static_cast<const int64_t*>(ids.raw());
  const T* dy = static_cast<const T*>(tdy.raw());
  T* dw = static_cast<T*>(dweight.raw());
  const int64_t grain = std::max<int64_t>(16, kElementwiseGrain / std::max<int64_t>(n + rows, 1));
  parallel_for(width, grain, [&](int64_t begin, int64_t end) {
    const int64_t count = end - begin;
    if (count == width)
      std::fill_n(dw, rows * width, T(0));
    else
      for (int64_t r = 0; r < rows; ++r) std::fill_n(dw + r * width + begin, count, T(0));
    for (int64_t i = 0; i < n; ++i) {
      if (id[i] == skip) continue;
      const T* from = dy + i * width + begin;
      T* to = dw + id[i] * width + begin;
      for (int64_t c = 0; c < count; ++c) to[c] += from[c];
    }
  });
}

template <class... T>
bool register_all() {
  return (backend::register_kernel("embedding", DeviceKind::cpu, dtype_of<T>, &embedding<T>) &&
          ...);
}

const bool registered =
    register_all<float, double, Half, BFloat16>() &&
    register_floats<&embedding_grad<float>, &embedding_grad<double>>("embedding_grad");

}  // namespace
}  // namespace brim::cpu
