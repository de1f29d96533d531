// Casts of many tensors in one launch. The table of their addresses is an argument of the kernel.
#include <span>
#include <type_traits>

#include "backend/cuda/elementwise/cast.cuh"
#include "backend/cuda/elementwise/elementwise.cuh"
#include "backend/fused/list_cast.h"
#include "backend/types.h"

namespace brim::cuda {
namespace {

constexpr int64_t kPerThread = 4, kPerBlock = kThreads * kPerThread;
constexpr int kMaxCastRank = 4;

/// Some tensors, each with its blocks. As many as 4 KiB of arguments hold.
struct Casts {
  struct One {
    const void* x;
    void* y;
    int32_t numel;
    int32_t end;                                   ///< the first block that no longer belongs to it
    int32_t rank, size[kMaxCastRank];              ///< [0] is the innermost
    int32_t from[kMaxCastRank], to[kMaxCastRank];  ///< strides
  };
  static constexpr int kMax = 3800 / sizeof(One);
  int count = 0;
  One one[kMax];
};

/// A block takes kPerBlock neighbouring elements of one tensor, in the order of what is written.
template <class To, class From>
__global__ void list_cast_kernel(Casts casts) {
  begin_kernel();
  const auto block = static_cast<int32_t>(blockIdx.x);
  int low = 0, high = casts.count - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (block < casts.one[middle].end)
      high = middle;
    else
      low = middle + 1;
  }
  const Casts::One& one = casts.one[low];
  const int32_t first = low > 0 ? casts.one[low - 1].end : 0;
  const From* const x = static_cast<const From*>(one.x);
  To* const y = static_cast<To*>(one.y);
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const int64_t i = (block - first) * kPerBlock + k * kThreads + static_cast<int>(threadIdx.x);
    if (i >= one.numel) continue;
    auto rest = static_cast<uint32_t>(i);
    int32_t from = 0, to = 0;
    for (int d = 0; d < one.rank; ++d) {
      const auto size = static_cast<uint32_t>(one.size[d]);
      const auto at = static_cast<int32_t>(d + 1 < one.rank ? rest % size : rest);
      rest /= size;
      from += at * one.from[d];
      to += at * one.to[d];
    }
    y[to] = element<To>(widen(x[from]));
  }
}

/// Collects tensors and launches the kernel when the table is full.
template <class To, class From>
class CastList {
 public:
  explicit CastList(const Context& context) : context_(context) {}

  /// False for a tensor that a table has no place for.
  bool add(const Tensor& x, Tensor& y) {
    const backend::Loop<2> loop = backend::make_loop(y, x);
    if (loop.rank > kMaxCastRank || loop.numel > backend::kMaxListCast) return false;
    if (loop.numel == 0) return true;
    Casts::One& one = casts_.one[casts_.count];
    one = {.x = data<const From>(x), .y = data<To>(y), .numel = static_cast<int32_t>(loop.numel)};
    one.rank = loop.rank;
    for (int d = 0; d < loop.rank; ++d) {
      const auto i = static_cast<size_t>(d);
      constexpr int64_t kMaxStride = int64_t{1} << 24;
      if (loop.stride[0][i] * loop.size[i] > kMaxStride * 8 ||
          loop.stride[1][i] * loop.size[i] > kMaxStride * 8)
        return false;  // offsets would not fit 32 bits
      one.size[d] = static_cast<int32_t>(loop.size[i]);
      one.to[d] = static_cast<int32_t>(loop.stride[0][i]);
      one.from[d] = static_cast<int32_t>(loop.stride[1][i]);
    }
    one.end = blocks() + static_cast<int32_t>((loop.numel + kPerBlock - 1) / kPerBlock);
    if (++casts_.count == Casts::kMax) flush();
    return true;
  }
  void flush() {
    if (casts_.count == 0) return;
    const Grid grid{dim3(static_cast<unsigned>(blocks())), dim3(kThreads)};
    launch(context_, &list_cast_kernel<To, From>, grid, casts_);
    casts_.count = 0;
  }

 private:
  int32_t blocks() const { return casts_.count > 0 ? casts_.one[casts_.count - 1].end : 0; }

  const Context& context_;
  Casts casts_;
};

template <class To>
void list_cast(const Context& context, std::span<const Tensor> x, std::span<Tensor> y) {
  static const backend::Kernel<void(const Context&, const Tensor&, Tensor&)> copy("copy");
  if (y.empty()) return;
  const auto cast = [&]<class From>(std::type_identity<From>) {
    CastList<To, From> list(context);
    for (size_t i = 0; i < y.size(); ++i)
      if (!list.add(x[i], y[i])) copy(y[i].device(), y[i].dtype(), x[i], y[i]);
    list.flush();
  };
  switch (x[0].dtype()) {
    case DType::f32:
      return cast(std::type_identity<float>{});
    case DType::f64:
      return cast(std::type_identity<double>{});
    case DType::f16:
      return cast(std::type_identity<Half>{});
    case DType::bf16:
      return cast(std::type_identity<BFloat16>{});
    default:
      backend::missing_kernel("list_cast", DeviceKind::cuda, x[0].dtype());
  }
}

const bool registered =
    backend::for_each_type(backend::Floats{}, []<class T>(std::type_identity<T>) {
      backend::register_kernel("list_cast", DeviceKind::cuda, dtype_of<T>, &list_cast<T>);
    });

}  // namespace
}  // namespace brim::cuda
