// Signs of a tensor as bits, and back: a thread for each byte.
#include "backend/fused/mask_bits.h"

#include "backend/cuda/elementwise/elementwise.cuh"
#include "backend/types.h"

namespace brim::cuda {
namespace {

template <class T>
__global__ void pack_mask_kernel(const T* x, uint8_t* bits, int64_t numel) {
  begin_kernel();
  for (int64_t byte = first_index(); 8 * byte < numel; byte += grid_size()) {
    unsigned of_byte = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k)
      if (8 * byte + k < numel && !(widen(x[8 * byte + k]) <= Compute<T>(0))) of_byte |= 1u << k;
    bits[byte] = static_cast<uint8_t>(of_byte);
  }
}

template <class T>
__global__ void unpack_mask_kernel(const uint8_t* bits, T* x, int64_t numel) {
  begin_kernel();
  for (int64_t byte = first_index(); 8 * byte < numel; byte += grid_size()) {
    const unsigned of_byte = bits[byte];
#pragma unroll
    for (int k = 0; k < 8; ++k)
      if (8 * byte + k < numel)
        x[8 * byte + k] = narrow<T>(static_cast<Compute<T>>((of_byte >> k) & 1u));
  }
}

template <class T>
void pack_mask(const Context& context, const Tensor& x, Tensor& bits) {
  if (x.numel() > 0)
    launch(context, &pack_mask_kernel<T>, grid_for(bits.numel()), data<const T>(x),
           data<uint8_t>(bits), x.numel());
}
template <class T>
void unpack_mask(const Context& context, const Tensor& bits, Tensor& x) {
  if (x.numel() > 0)
    launch(context, &unpack_mask_kernel<T>, grid_for(bits.numel()), data<const uint8_t>(bits),
           data<T>(x), x.numel());
}

const bool registered =
    backend::for_each_type(backend::Floats{}, []<class T>(std::type_identity<T>) {
      backend::register_kernel("pack_mask", DeviceKind::cuda, dtype_of<T>, &pack_mask<T>);
      backend::register_kernel("unpack_mask", DeviceKind::cuda, dtype_of<T>, &unpack_mask<T>);
    });

}  // namespace
}  // namespace brim::cuda
