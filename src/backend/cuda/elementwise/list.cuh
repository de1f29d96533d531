// Work on lists of tensors, such as all gradients of a network: many of them in a launch. The
// addresses are an argument of the kernel.
#pragma once

#include "backend/cuda/elementwise/elementwise.cuh"

namespace brim::cuda {

constexpr int64_t kListRun = 8192;  // elements of a tensor that a block takes
constexpr int kListThreads = 256;
constexpr int kListed = 64;  // tensors in a launch

/// Some tensors, cut into runs, one block each.
template <class T>
struct List {
  T* data[kListed] = {};
  int64_t numel[kListed] = {};
  int64_t end[kListed] = {};  // runs of this tensor and of those before it
  int count = 0;

  int64_t runs() const { return count > 0 ? end[count - 1] : 0; }
  bool add(T* values, int64_t n) {
    data[count] = values;
    numel[count] = n;
    end[count] = runs() + (n + kListRun - 1) / kListRun;
    ++count;
    return count == kListed;
  }

  /// Calls f(values, n) for this thread's block's run.
  template <class F>
  __device__ void run(int64_t block, const F& f) const {
    int i = 0;
    while (end[i] <= block) ++i;
    const int64_t first = (block - (i > 0 ? end[i - 1] : 0)) * kListRun, left = numel[i] - first;
    f(data[i] + first, left < kListRun ? left : kListRun);
  }
};

/// Calls body(list, runs in earlier lists) until all tensors that hold something had their turn.
template <class T, class Tensors, class Body>
void in_lists(const Tensors& tensors, const Body& body) {
  List<T> list;
  int64_t before = 0;
  const auto flush = [&] {
    if (list.runs() > 0) body(list, before);
    before += list.runs();
    list = {};
  };
  for (const Tensor& t : tensors)
    if (t.numel() > 0 && list.add(data<T>(t), t.numel())) flush();
  flush();
}

template <class T>
Grid grid_of(const List<T>& list) {
  return {dim3(static_cast<unsigned>(list.runs())), dim3(kListThreads), 1024};
}

/// x = f(x) for all elements of the list, unless that changes nothing; each thread makes its f.
/// Runs begin where packs do if their tensor does.
template <class T, class Make>
__global__ void list_kernel(List<T> list, Make make) {
  begin_kernel();
  const auto f = make();
  if (f.does_nothing()) return;
  list.run(blockIdx.x, [&](T* x, int64_t n) {
    constexpr int kWidth = 16 / sizeof(T), kAtOnce = 4;
    using Packed = Pack<T, kWidth>;
    const int threads = static_cast<int>(blockDim.x);
    const int packs =
        reinterpret_cast<uintptr_t>(x) % sizeof(Packed) == 0 ? static_cast<int>(n) / kWidth : 0;
    Packed* const packed = reinterpret_cast<Packed*>(x);
    for (int i = static_cast<int>(threadIdx.x); i < packs; i += kAtOnce * threads) {
      Packed loaded[kAtOnce];
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u)
        if (i + u * threads < packs) loaded[u] = packed[i + u * threads];
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        if (i + u * threads >= packs) break;
#pragma unroll
        for (int k = 0; k < kWidth; ++k) loaded[u].at[k] = narrow<T>(f(widen(loaded[u].at[k])));
        packed[i + u * threads] = loaded[u];
      }
    }
    for (int i = packs * kWidth + static_cast<int>(threadIdx.x); i < n; i += threads)
      x[i] = narrow<T>(f(widen(x[i])));
  });
}

}  // namespace brim::cuda
