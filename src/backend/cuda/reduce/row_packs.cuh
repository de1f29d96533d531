// Rows that a group of threads reads in packs of 16 bytes, and holds in registers between two
// passes where they are short enough, so that memory is read once.
//
// A thread takes packs number rank, rank + size, ... of a row, each from its first element on.
// Packs are taken where a row's length is a multiple of theirs, which the shape decides; where
// addresses do not allow one access for a pack, its elements are read one by one, in the same
// order. So the order of sums follows from the shape alone, and results are the same bits whatever
// the addresses.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "backend/cuda/device/thread_group.cuh"
#include "backend/cuda/elementwise/elementwise.cuh"

namespace brim::cuda {

/// `whole`: by one access.
template <int Width, class T>
__device__ inline Pack<T, Width> read_pack(const T* from, bool whole) {
  if (whole) return *reinterpret_cast<const Pack<T, Width>*>(from);
  Pack<T, Width> pack;
#pragma unroll
  for (int k = 0; k < Width; ++k) pack.at[k] = from[k];
  return pack;
}
template <int Width, class T>
__device__ inline void write_pack(T* to, const Pack<T, Width>& pack, bool whole) {
  if (whole) {
    *reinterpret_cast<Pack<T, Width>*>(to) = pack;
    return;
  }
#pragma unroll
  for (int k = 0; k < Width; ++k) to[k] = pack.at[k];
}

/// One thread's packs of a row. Loaded: what is read for one of them.
template <int Width, class Loaded>
class RowShare {
 public:
  /// Packs of a thread that stay in registers: those of rows of up to 32 elements a thread in f32
  /// and 16 bits, which are 1024, 8192 and 16384 with the groups of threads_per_row; of 8 in f64.
  static constexpr int kHeld = Width == 8 || Width == 2 ? 4 : 8;

  __device__ RowShare(const ThreadGroup& group, int64_t n) : group_(group), packs_(n / Width) {}

  /// Reads what is held; load(i) -> Loaded reads the pack from element i of the row on.
  template <class Load>
  __device__ void read(const Load& load) {
    if (!is_held()) return;
#pragma unroll
    for (int j = 0; j < kHeld; ++j)
      if (const int64_t pack = place(j); pack < packs_) held_[j] = load(pack * Width);
  }
  /// Calls f(loaded, i) for each pack, and end() behind every `Run` of them and behind the last.
  template <int Run, class Load, class F, class End>
  __device__ void each(const Load& load, const F& f, const End& end) const {
    if (is_held()) {
#pragma unroll
      for (int j = 0; j < kHeld; ++j) {
        if (const int64_t pack = place(j); pack < packs_) f(held_[j], pack * Width);
        if (j % Run == Run - 1 || j == kHeld - 1) end();
      }
      return;
    }
    int run = 0;
    for (int64_t pack = group_.rank; pack < packs_; pack += group_.size) {
      f(load(pack * Width), pack * Width);
      if (++run % Run == 0) end();
    }
    end();
  }
  template <class Load, class F>
  __device__ void each(const Load& load, const F& f) const {
    each<kHeld>(load, f, [] {});
  }
  /// Whether read() reads the row; else each() does, every time.
  __device__ bool is_held() const { return packs_ <= int64_t{group_.size} * kHeld; }

 private:
  __device__ int64_t place(int j) const { return group_.rank + int64_t{j} * group_.size; }

  const ThreadGroup& group_;
  int64_t packs_;
  Loaded held_[kHeld];
};

/// Queues run<Width>(whole) for rows of n elements of T: in packs of 16 bytes where n is a multiple
/// of them, each by one access where all `addresses` allow that; else element by element.
template <class T, class Run>
void with_row_packs(int64_t n, std::initializer_list<const void*> addresses, const Run& run) {
  constexpr int kWidth = static_cast<int>(16 / sizeof(T));
  if (n % kWidth != 0) return run.template operator()<1>(true);
  bool whole = true;
  for (const void* address : addresses) whole = whole && (!address || is_aligned(address, 16));
  run.template operator()<kWidth>(whole);
}

}  // namespace brim::cuda
