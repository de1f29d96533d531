// Sorting lines of distinct keys in scratch memory: blocks sort chunks in shared memory (Batcher's
// bitonic network), then runs are merged in pairs, each element finding its place by a binary
// search in the other run. Keys are distinct because each holds its position, so the order is the
// one stable order, however threads share the work. Under nvcc, CUB sorts one long line. Many lines
// are not left to it: its segmented sort waits for the device to count them, which a stream capture
// forbids, and its segmented radix sort gives a line to one block, however long it is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "backend/cuda/device/launch.cuh"

namespace brim::cuda {

/// A 64-bit key above its position. Shorter keys are packed into one uint64_t.
struct WideKey {
  uint64_t key;
  uint64_t position;
  __device__ friend bool operator<(const WideKey& a, const WideKey& b) {
    return a.key != b.key ? a.key < b.key : a.position < b.position;
  }
};

/// After all others.
template <class Key>
__device__ inline Key last_key() {
  if constexpr (std::is_same_v<Key, WideKey>)
    return {~uint64_t{0}, ~uint64_t{0}};
  else
    return ~Key{0};
}

constexpr int64_t kSortChunk = 1024;  // elements that a block sorts

/// Fills and sorts chunks: make(line, i) gives the key of element i of a line. `width`: elements of
/// a chunk, a power of 2, twice the threads of a block or more.
template <class Key, class Make>
__global__ void sort_chunks_kernel(Make make, Key* to, int64_t lines, int64_t length, int width) {
  begin_kernel();
  Key* chunk = shared_memory<Key>();
  const int64_t chunks = (length + width - 1) / width;
  const int threads = static_cast<int>(blockDim.x), me = static_cast<int>(threadIdx.x);
  for (int64_t c = blockIdx.x; c < lines * chunks; c += gridDim.x) {
    const int64_t line = c / chunks, begin = c % chunks * width;
    const int count = static_cast<int>(length - begin < width ? length - begin : width);
    for (int i = me; i < width; i += threads)
      chunk[i] = i < count ? make(line, begin + i) : last_key<Key>();
    __syncthreads();
    for (int run = 2; run <= width; run *= 2) {
      for (int step = run / 2; step > 0; step /= 2) {
        for (int pair = me; pair < width / 2; pair += threads) {
          const int i = pair / step * 2 * step + pair % step, j = i + step;
          const Key a = chunk[i], b = chunk[j];
          if (((i & run) == 0) == (b < a)) {
            chunk[i] = b;
            chunk[j] = a;
          }
        }
        __syncthreads();
      }
    }
    for (int i = me; i < count; i += threads) to[line * length + begin + i] = chunk[i];
    __syncthreads();
  }
}

/// Merges neighbouring sorted runs of `run` elements.
template <class Key>
__global__ void merge_runs_kernel(const Key* from, Key* to, int64_t lines, int64_t length,
                                  int64_t run) {
  begin_kernel();
  for (int64_t i = first_index(); i < lines * length; i += grid_size()) {
    const int64_t line = i / length, at = i % length;
    const Key* keys = from + line * length;
    const int64_t first = at / (2 * run) * 2 * run;  // of the pair of runs
    const bool left = at < first + run;
    const int64_t begin = left ? first + run : first;
    int64_t low = begin < length ? begin : length;
    int64_t high = begin + run < length ? begin + run : length;
    const int64_t start = low;
    const Key key = keys[at];
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (keys[middle] < key)
        low = middle + 1;
      else
        high = middle;
    }
    // As many of the other run come before it; its own run's are in place.
    const int64_t place = left ? at + (low - start) : first + (at - first - run) + (low - start);
    to[line * length + place] = key;
  }
}

/// How many keys of scratch memory sort_keys needs.
inline int64_t sort_scratch(int64_t lines, int64_t length) {
  return lines * length * (length > kSortChunk ? 2 : 1);
}

#if defined(__CUDACC__)
template <class Key, class Make>
__global__ void make_keys_kernel(Make make, Key* to, int64_t length) {
  begin_kernel();
  for (int64_t i = first_index(); i < length; i += grid_size()) to[i] = make(0, i);
}

/// Sorts `length` keys, whose positions ascend, with as much scratch memory behind them; returns
/// where they lie then.
const uint64_t* radix_sort(const Context& context, uint64_t* scratch, int64_t length);
const WideKey* radix_sort(const Context& context, WideKey* scratch, int64_t length);
#endif

/// Sorts every line; returns where in `scratch` the sorted keys lie, line after line.
template <class Key, class Make>
const Key* sort_keys(const Context& context, const Make& make, Key* scratch, int64_t lines,
                     int64_t length) {
#if defined(__CUDACC__)
  if (lines == 1 && length > kSortChunk) {
    launch(context, &make_keys_kernel<Key, Make>, grid_for(length), make, scratch, length);
    return radix_sort(context, scratch, length);
  }
#endif
  int64_t width = 2;
  while (width < length && width < kSortChunk) width *= 2;
  const int64_t chunks = (length + width - 1) / width;
  Grid grid{dim3(static_cast<unsigned>(std::min(lines * chunks, kMaxBlocks))),
            dim3(static_cast<unsigned>(std::clamp<int64_t>(width / 2, 32, kThreads))),
            static_cast<size_t>(width) * sizeof(Key)};
  launch_blocks(context, &sort_chunks_kernel<Key, Make>, grid, make, scratch, lines, length,
                static_cast<int>(width));
  Key *from = scratch, *to = scratch + lines * length;
  for (int64_t run = width; run < length; run *= 2) {
    launch(context, &merge_runs_kernel<Key>, grid_for(lines * length), from, to, lines, length,
           run);
    std::swap(from, to);
  }
  return from;
}

}  // namespace brim::cuda
