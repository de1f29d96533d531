// CUB's radix sort of one line of keys (see sort.cuh). Positions are no digits of it: keys come in
// the order of their positions, and the sort is stable. It neither waits for the device nor reads
// from it, so a stream capture may hold it. The emulation, which has no CUB, merges runs instead.
#include "backend/cuda/kernels/sort.cuh"

#if defined(__CUDACC__)
#include <cub/device/device_radix_sort.cuh>
#include <cuda/std/tuple>

namespace brim::cuda {
namespace {

/// What CUB sorts wide keys by.
struct KeyOnly {
  __host__ __device__ ::cuda::std::tuple<uint64_t&> operator()(WideKey& k) const { return {k.key}; }
};

/// `sort`: a call of CUB with (temporary memory or null, its bytes, keys, stream).
template <class Key, class Sort>
const Key* sorted(const Context& context, Key* scratch, int64_t length, const Sort& sort) {
  const DeviceGuard guard(context.device().index);
  const cudaStream_t stream = native(context.stream);
  cub::DoubleBuffer<Key> keys(scratch, scratch + length);
  size_t bytes = 0;
  check(sort(nullptr, bytes, keys, stream), "cub::DeviceRadixSort");
  const Workspace temporary = context.workspace(bytes);
  const cudaError_t result =
      with_room(context.stream, [&] { return sort(temporary.as<void>(), bytes, keys, stream); });
  check(result, "cub::DeviceRadixSort");
  note_queued(context.device().index);
  return keys.Current();
}

}  // namespace

const uint64_t* radix_sort(const Context& context, uint64_t* scratch, int64_t length) {
  return sorted(context, scratch, length,
                [&](void* temporary, size_t& bytes, auto& keys, cudaStream_t stream) {
                  return cub::DeviceRadixSort::SortKeys(temporary, bytes, keys, length, 32, 64,
                                                        stream);
                });
}

const WideKey* radix_sort(const Context& context, WideKey* scratch, int64_t length) {
  return sorted(context, scratch, length,
                [&](void* temporary, size_t& bytes, auto& keys, cudaStream_t stream) {
                  return cub::DeviceRadixSort::SortKeys(temporary, bytes, keys, length, KeyOnly{},
                                                        0, 64, stream);
                });
}

}  // namespace brim::cuda
#endif
