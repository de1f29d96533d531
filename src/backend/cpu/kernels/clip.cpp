// Norms, limits and factors over lists of tensors on the CPU, for gradient clipping and means over
// ranks. Inputs are row-major; those of 16 bits are computed with in f32, which their norms are.
#include <cmath>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "backend/cpu/elementwise/convert.h"
#include "backend/cpu/elementwise/loop.h"
#include "backend/cpu/reduce/narrow_norm.h"
#include "backend/kernel.h"

namespace brim::cpu {
namespace {

/// Partial norms are taken over runs of this many numbers, whatever the number of threads, so the
/// result does not depend on it.
constexpr int64_t kRun = 8192;
constexpr int64_t kBlock = 512;  // of 16 bits, widened in the L1 cache
constexpr size_t kLanes = 8;     // independent sums, so that the compiler can vectorise

template <class T>
using Compute = std::conditional_t<sizeof(T) == 2, float, T>;

/// Sum of f(x) over a run, in double.
template <class T, class F>
double sum_of(const T* x, int64_t n, F f) {
  double lane[kLanes] = {};
  int64_t i = 0;
  for (; i + static_cast<int64_t>(kLanes) <= n; i += kLanes)
    for (size_t k = 0; k < kLanes; ++k)
      lane[k] += f(static_cast<double>(x[i + static_cast<int64_t>(k)]));
  for (; i < n; ++i) lane[0] += f(static_cast<double>(x[i]));
  double total = 0;
  for (double l : lane) total += l;
  return total;
}

template <class T>
double largest(const T* x, int64_t n) {
  double max = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double v = std::abs(static_cast<double>(x[i]));
    if (!(v <= max)) max = v;  // a NaN stays
    if (std::isnan(max)) break;
  }
  return max;
}

template <class T>
double partial(const T* x, int64_t n, double p) {
  if (p == 2) return sum_of(x, n, [](double v) { return v * v; });
  if (p == 1) return sum_of(x, n, [](double v) { return std::abs(v); });
  if (std::isinf(p)) return largest(x, n);
  return sum_of(x, n, [p](double v) { return std::pow(std::abs(v), p); });
}

template <class T>
double run_norm(const T* x, int64_t n, double p) {
  if constexpr (sizeof(T) == 2) {
    if (p == 2) return square_sum(x, n);
    float wide[kRun];
    convert_run(x, wide, n);
    return partial(wide, n, p);
  } else {
    return partial(x, n, p);
  }
}

template <class T>
void list_norm(const Context&, std::span<const Tensor> list, Tensor& norm, double p) {
  struct Run {
    const T* x;
    int64_t n;
  };
  std::vector<Run> runs;
  for (const Tensor& t : list)
    for (int64_t i = 0; i < t.numel(); i += kRun)
      runs.push_back({static_cast<const T*>(t.raw()) + i, std::min(kRun, t.numel() - i)});
  std::vector<double> parts(runs.size());
  parallel_for(static_cast<int64_t>(runs.size()), 8, [&](int64_t begin, int64_t end) {
    for (size_t i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      parts[i] = run_norm(runs[i].x, runs[i].n, p);
  });
  double total = 0;
  for (double part : parts) {
    if (!std::isinf(p) || std::isnan(part))
      total += part;
    else if (part > total)
      total = part;
  }
  if (!std::isinf(p)) total = p == 2 ? std::sqrt(total) : std::pow(total, 1 / p);
  *static_cast<Compute<T>*>(norm.raw()) = static_cast<Compute<T>>(total);
}

/// Calls f on each element of each tensor.
template <class T, class F>
void for_each(std::span<Tensor> list, F f) {
  for (Tensor& t : list) {
    T* x = static_cast<T*>(t.raw());
    parallel_for(t.numel(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
      if constexpr (sizeof(T) == 2) {
        float wide[kBlock];
        for (; begin < end; begin += kBlock) {
          const int64_t n = std::min(kBlock, end - begin);
          convert_run(x + begin, wide, n);
          for (int64_t i = 0; i < n; ++i) wide[i] = f(wide[i]);
          convert_run(wide, x + begin, n);
        }
      } else {
        for (int64_t i = begin; i < end; ++i) x[i] = f(x[i]);
      }
    });
  }
}

template <class T>
void scale_all(std::span<Tensor> list, double factor) {
  const auto f = static_cast<Compute<T>>(factor);
  if constexpr (sizeof(T) == 2) {
    for (Tensor& t : list)
      parallel_for(t.numel(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
        scale_run(static_cast<T*>(t.raw()) + begin, f, end - begin);
      });
  } else {
    for_each<T>(list, [f](T v) { return v * f; });
  }
}

template <class T>
void list_clip(const Context&, std::span<Tensor> list, const Tensor& norm, double max_norm) {
  const auto total = *static_cast<const Compute<T>*>(norm.raw());
  const double factor = max_norm / (static_cast<double>(total) + 1e-6);
  if (factor >= 1) return;  // a NaN goes on, into every gradient, as in PyTorch
  scale_all<T>(list, factor);
}

template <class T>
void list_clamp(const Context&, std::span<Tensor> list, double limit) {
  using C = Compute<T>;
  const C high = static_cast<C>(limit), low = -high;
  for_each<T>(list, [=](C v) { return v < low ? low : v > high ? high : v; });
}

template <class T>
void list_scale(const Context&, std::span<Tensor> list, double factor) {
  scale_all<T>(list, factor);
}

template <class T>
bool register_all() {
  const DType dtype = dtype_of<T>;
  backend::register_kernel("list_norm", DeviceKind::cpu, dtype, &list_norm<T>);
  backend::register_kernel("list_clip", DeviceKind::cpu, dtype, &list_clip<T>);
  backend::register_kernel("list_scale", DeviceKind::cpu, dtype, &list_scale<T>);
  return backend::register_kernel("list_clamp", DeviceKind::cpu, dtype, &list_clamp<T>);
}

const bool registered = register_all<float>() && register_all<double>() && register_all<Half>() &&
                        register_all<BFloat16>();

}  // namespace
}  // namespace brim::cpu
