// embedding and its gradient on the CPU.
#include <algorithm>
#include <cstring>

#include "backend/cpu/elementwise/convert.h"
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

/// The same of 16 bits: sums of the rows that ids name are kept in f32 and rounded once; the other
/// rows are zero.
template <class W>
void embedding_grad_16_bits(const Context& context, const Tensor& tdy, const Tensor& ids,
                            Tensor& dweight, int64_t skip) {
  const int64_t width = dweight.shape()[1], n = ids.numel(), rows = dweight.shape()[0];
  constexpr int64_t kShort = 64;  // rows that are converted faster all at once
  if (width < kShort || rows == 0)
    return ThroughF32<&embedding_grad<float>, Outputs::written>::run(context, tdy, ids, dweight,
                                                                     skip);
  const int64_t* id = static_cast<const int64_t*>(ids.raw());
  const W* dy = static_cast<const W*>(tdy.raw());
  W* dw = static_cast<W*>(dweight.raw());
  const Workspace table = context.workspace(static_cast<size_t>(rows) * sizeof(int64_t));
  int64_t* const sum_of = table.as<int64_t>();  // the row's number among those that are named
  std::fill_n(sum_of, rows, int64_t{-1});
  int64_t named = 0;
  for (int64_t i = 0; i < n; ++i)
    if (id[i] != skip && sum_of[id[i]] < 0) sum_of[id[i]] = named++;
  // As large as the shapes allow: plans keep what a first run asked for.
  const Workspace space =
      context.workspace(static_cast<size_t>(std::min(n, rows) * width) * sizeof(float));
  float* const sums = space.as<float>();
  const int64_t grain = std::max<int64_t>(16, kElementwiseGrain / std::max<int64_t>(n + rows, 1));
  parallel_for(width, grain, [&](int64_t first, int64_t end) {
    constexpr int64_t kBlock = 512;
    float wide[kBlock];
    const auto set_zero = [](W* to, int64_t count) {
      std::memset(static_cast<void*>(to), 0, static_cast<size_t>(count) * sizeof(W));
    };
    if (end - first == width)
      set_zero(dw, rows * width);
    else
      for (int64_t r = 0; r < rows; ++r) set_zero(dw + r * width + first, end - first);
    for (int64_t begin = first; begin < end; begin += kBlock) {
      const int64_t count = std::min(kBlock, end - begin);
      for (int64_t r = 0; r < named; ++r) std::fill_n(sums + r * width + begin, count, 0.0f);
      for (int64_t i = 0; i < n; ++i) {
        if (id[i] == skip) continue;
        convert_run(dy + i * width + begin, wide, count);
        float* const to = sums + sum_of[id[i]] * width + begin;
        for (int64_t c = 0; c < count; ++c) to[c] += wide[c];
      }
      for (int64_t r = 0; r < rows; ++r)
        if (sum_of[r] >= 0)
          convert_run(sums + sum_of[r] * width + begin, dw + r * width + begin, count);
    }
  });
}

template <class... T>
bool register_all() {
  return (backend::register_kernel("embedding", DeviceKind::cpu, dtype_of<T>, &embedding<T>) &&
          ...);
}

const bool registered = register_all<float, double, Half, BFloat16>() &&
                        backend::register_kernel("embedding_grad", DeviceKind::cpu, DType::f32,
                                                 &embedding_grad<float>) &&
                        backend::register_kernel("embedding_grad", DeviceKind::cpu, DType::f64,
                                                 &embedding_grad<double>) &&
                        backend::register_kernel("embedding_grad", DeviceKind::cpu, DType::f16,
                                                 &embedding_grad_16_bits<Half>) &&
                        backend::register_kernel("embedding_grad", DeviceKind::cpu, DType::bf16,
                                                 &embedding_grad_16_bits<BFloat16>);

}  // namespace
}  // namespace brim::cpu
