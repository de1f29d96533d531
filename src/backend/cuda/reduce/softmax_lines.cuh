// softmax, log_softmax and their gradients along a line of elements: what threads gather of it, and
// what they write of what that comes to.
#pragma once

#include "backend/cuda/elementwise/elementwise.cuh"
#include "backend/cuda/reduce/row_packs.cuh"
#include "backend/cuda/reduce/softmax.cuh"

namespace brim::cuda {

/// The sums of exp(x - largest) along lines.
template <class T>
struct ExpSums {
  using C = Compute<T>;
  using Lane = ExpSum<C>;
  using Total = ExpSum<C>;
  const T* x;

  __device__ Lane init() const { return {}; }
  __device__ Total start() const { return {}; }
  __device__ void step(Lane& lane, int64_t at, int64_t, int64_t) const {
    lane.add(brim::cuda::widen(x[at]));
  }
  __device__ Total widen(const Lane& lane) const { return lane; }
  __device__ Total combine(const Total& a, const Total& b) const { return Total::joined(a, b); }
};

/// y = exp(x - largest) / sum, or its logarithm.
template <class T, bool kLog>
struct Softmax : ExpSums<T> {
  using typename ExpSums<T>::C;
  using typename ExpSums<T>::Lane;
  using typename ExpSums<T>::Total;
  using ExpSums<T>::step;
  using ExpSums<T>::x;
  T* y;
  Total* totals;  // of lines, where a reduction makes them

  __device__ void finish(int64_t line, Total total) const { totals[line] = prepared(total); }
  /// A total as `write` takes it: the factor, or what the logarithm takes off, in the place of sum.
  __device__ Total prepared(Total total) const {
    total.sum = kLog ? std::log(total.sum) : 1 / total.sum;
    return total;
  }
  __device__ T result(T v, const Total& total) const {
    const C d = brim::cuda::widen(v) - total.largest;
    return narrow<T>(kLog ? d - total.sum : std::exp(d) * total.sum);
  }
  __device__ void write(int64_t at, const Total& total) const { y[at] = result(x[at], total); }

  template <int Width>
  using Loaded = Pack<T, Width>;
  template <int Width>
  __device__ Loaded<Width> load(int64_t at, bool whole) const {
    return read_pack<Width>(x + at, whole);
  }
  template <int Width>
  __device__ void step(Lane& lane, const Loaded<Width>& in) const {
#pragma unroll
    for (int k = 0; k < Width; ++k) lane.add(brim::cuda::widen(in.at[k]));
  }
  template <int Width>
  __device__ void write(int64_t at, const Loaded<Width>& in, const Total& total, bool whole) const {
    Pack<T, Width> out;
#pragma unroll
    for (int k = 0; k < Width; ++k) out.at[k] = result(in.at[k], total);
    write_pack<Width>(y + at, out, whole);
  }
  template <class Run>
  void with_packs(int64_t n, const Run& run) const {
    with_row_packs<T>(n, {x, y}, run);
  }
};

/// dx = y (dy - sum(dy y)), for log_softmax dx = dy - exp(y) sum(dy).
template <class T, bool kLog>
struct SoftmaxGrad {
  using C = Compute<T>;
  using Lane = C;
  using Total = C;
  const T *dy, *y;
  T* dx;
  Total* totals;

  __device__ Lane init() const { return 0; }
  __device__ Total start() const { return 0; }
  __device__ void add(Lane& sum, T dy_at, T y_at) const {
    const C g = brim::cuda::widen(dy_at);
    sum += kLog ? g : g * brim::cuda::widen(y_at);
  }
  __device__ void step(Lane& sum, int64_t at, int64_t, int64_t) const { add(sum, dy[at], y[at]); }
  __device__ Total widen(const Lane& sum) const { return sum; }
  __device__ Total combine(const Total& a, const Total& b) const { return a + b; }
  __device__ void finish(int64_t line, Total total) const { totals[line] = total; }
  __device__ Total prepared(Total total) const { return total; }
  __device__ T result(T dy_at, T y_at, const Total& total) const {
    const C g = brim::cuda::widen(dy_at), p = brim::cuda::widen(y_at);
    return narrow<T>(kLog ? g - std::exp(p) * total : p * (g - total));
  }
  __device__ void write(int64_t at, const Total& total) const {
    dx[at] = result(dy[at], y[at], total);
  }

  template <int Width>
  struct Loaded {
    Pack<T, Width> dy, y;
  };
  template <int Width>
  __device__ Loaded<Width> load(int64_t at, bool whole) const {
    return {read_pack<Width>(dy + at, whole), read_pack<Width>(y + at, whole)};
  }
  template <int Width>
  __device__ void step(Lane& sum, const Loaded<Width>& in) const {
#pragma unroll
    for (int k = 0; k < Width; ++k) add(sum, in.dy.at[k], in.y.at[k]);
  }
  template <int Width>
  __device__ void write(int64_t at, const Loaded<Width>& in, const Total& total, bool whole) const {
    Pack<T, Width> out;
#pragma unroll
    for (int k = 0; k < Width; ++k) out.at[k] = result(in.dy.at[k], in.y.at[k], total);
    write_pack<Width>(dx + at, out, whole);
  }
  template <class Run>
  void with_packs(int64_t n, const Run& run) const {
    with_row_packs<T>(n, {dy, y, dx}, run);
  }
};

}  // namespace brim::cuda
