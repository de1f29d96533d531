// dropout: element i is decided by word i % 4 of Philox block i / 4, in every dtype.
#include "backend/cuda/elementwise/elementwise.cuh"
#include "backend/cuda/graph/graph_parameter.cuh"
#include "backend/types.h"
#include "formula/philox.h"

namespace brim::cuda {
namespace {

/// Drops where a word's upper 24 bits are below `limit`. kPacked: four elements move at once.
template <class T, bool kPacked>
__global__ void dropout_kernel(const T* x, T* y, int64_t n, GraphParameter<RandomKey> key_parameter,
                               uint32_t limit, Compute<T> scale) {
  begin_kernel();
  const RandomKey key = key_parameter.get();
  for (int64_t block = first_index(); block * 4 < n; block += grid_size()) {
    const formula::Words words = formula::random_block(key, static_cast<uint64_t>(block));
    const auto kept = [&](int k, T v) {
      return (words.w[k] >> 8) < limit ? T{} : narrow<T>(widen(v) * scale);
    };
    if (kPacked && block * 4 + 4 <= n) {
      Pack<T, 4> four = reinterpret_cast<const Pack<T, 4>*>(x)[block];
#pragma unroll
      for (int k = 0; k < 4; ++k) four.at[k] = kept(k, four.at[k]);
      reinterpret_cast<Pack<T, 4>*>(y)[block] = four;
    } else {
      for (int k = 0; k < 4; ++k)
        if (block * 4 + k < n) y[block * 4 + k] = kept(k, x[block * 4 + k]);
    }
  }
}

template <class T>
void dropout(const Context& context, const Tensor& x, Tensor& y, double p, const RandomKey& key) {
  if (x.numel() == 0) return;
  const uint32_t limit = formula::drop_limit(p);
  const Compute<T> scale = p < 1 ? static_cast<Compute<T>>(1 / (1 - p)) : Compute<T>(0);
  const bool packed =
      is_aligned(x.raw(), sizeof(Pack<T, 4>)) && is_aligned(y.raw(), sizeof(Pack<T, 4>));
  launch(context, packed ? &dropout_kernel<T, true> : &dropout_kernel<T, false>,
         grid_for(x.numel() / 4 + 1), data<const T>(x), data<T>(y), x.numel(), graph_parameter(key),
         limit, scale);
}

const bool registered =
    backend::for_each_type(backend::Floats{}, []<class T>(std::type_identity<T>) {
      backend::register_kernel("dropout", DeviceKind::cuda, dtype_of<T>, &dropout<T>);
    });

}  // namespace
}  // namespace brim::cuda
