// The collectives of a group's ranks (dist/collective_kernels.h) on GPUs: NCCL carries the bytes,
// the kernels here copy and reduce them, in the order that all devices have.
#include <span>
#include <type_traits>

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/number.cuh"
#include "backend/types.h"
#include "dist/collective_kernels.h"
#include "dist/cuda/nccl.h"
#include "dist/reductions.h"

namespace brim::cuda {
namespace {

// --- many copies in a launch

constexpr int kCopies = 64;
constexpr int64_t kCopied = 32768;  // bytes that a block takes

struct CopyList {
  dist::Copy copy[kCopies];
  int64_t end[kCopies];  // blocks of this copy and of those before it
  int count = 0;

  int64_t blocks() const { return count > 0 ? end[count - 1] : 0; }
};

struct alignas(16) FourWords {
  uint32_t word[4];
};

template <class Word>
__device__ void copy_words(char* to, const char* from, int64_t bytes) {
  const int64_t words = bytes / static_cast<int64_t>(sizeof(Word));
  for (int64_t i = threadIdx.x; i < words; i += blockDim.x)
    reinterpret_cast<Word*>(to)[i] = reinterpret_cast<const Word*>(from)[i];
}

__global__ void copy_list_kernel(CopyList list) {
  begin_kernel();
  const auto block = static_cast<int64_t>(blockIdx.x);
  int k = 0;
  while (list.end[k] <= block) ++k;
  const int64_t first = (block - (k > 0 ? list.end[k - 1] : 0)) * kCopied;
  const int64_t left = static_cast<int64_t>(list.copy[k].bytes) - first;
  const int64_t bytes = left < kCopied ? left : kCopied;
  char* const to = static_cast<char*>(list.copy[k].to) + first;
  const char* const from = static_cast<const char*>(list.copy[k].from) + first;
  // The widest words of which both sides and the length consist.
  const auto all =
      static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) |
      bytes;
  if (all % 16 == 0)
    copy_words<FourWords>(to, from, bytes);
  else if (all % 4 == 0)
    copy_words<int32_t>(to, from, bytes);
  else if (all % 2 == 0)
    copy_words<int16_t>(to, from, bytes);
  else
    copy_words<char>(to, from, bytes);
}

// --- reductions

template <class T, class F>
__global__ void reduce_into_kernel(T* into, const T* from, int64_t count) {
  begin_kernel();
  for (int64_t i = first_index(); i < count; i += grid_size())
    into[i] = narrow<T>(F()(widen(into[i]), widen(from[i])));
}

template <class T, class F>
void reduce_into(const Context& context, void* into, const void* from, int64_t count) {
  launch(context, &reduce_into_kernel<T, F>, grid_for(count), static_cast<T*>(into),
         static_cast<const T*>(from), count);
}

/// What lies on a GPU.
struct GpuMover {
  static constexpr int64_t kBlock = int64_t{1} << 62;  // all at once
  explicit GpuMover(const Context& c) : context(c) {}

  void copy(std::span<const dist::Copy> copies) const {
    CopyList list;
    const auto flush = [&] {
      if (list.count == 0) return;
      const Grid grid{dim3(static_cast<unsigned>(list.blocks())), dim3(kThreads)};
      launch(context, &copy_list_kernel, grid, list);
      list.count = 0;
    };
    for (const dist::Copy& c : copies) {
      if (c.bytes == 0) continue;
      list.copy[list.count] = c;
      list.end[list.count] =
          list.blocks() + (static_cast<int64_t>(c.bytes) + kCopied - 1) / kCopied;
      if (++list.count == kCopies) flush();
    }
    flush();
  }
  void reduce(DType dtype, dist::Reduce reduce, void* into, const void* from, int64_t count) const {
    if (count == 0) return;
    backend::for_each_type(backend::AllTypes{}, [&]<class T>(std::type_identity<T>) {
      if (dtype == dtype_of<T>)
        dist::with_reduction<T>(reduce,
                                [&]<class F>(F) { reduce_into<T, F>(context, into, from, count); });
    });
  }
  void exchange(dist::Transport& transport, const dist::Call& call,
                std::span<const dist::Outgoing> out, std::span<const dist::Incoming> in) const {
    exchange_by_nccl(transport, call, context.stream, out, in);
  }
  static bool is_replayed(const Context& context) { return context.scratch != nullptr; }  // a plan

  const Context& context;
};

const bool registered = dist::CollectiveKernels<GpuMover>::add_to(DeviceKind::cuda);

}  // namespace
}  // namespace brim::cuda
