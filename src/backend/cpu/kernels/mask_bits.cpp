// Signs of a tensor as bits, and back, on the CPU.
#include "backend/fused/mask_bits.h"

#include <algorithm>

#include "backend/cpu/elementwise/loop.h"
#include "backend/cpu/elementwise/through_f32.h"

namespace brim::cpu {
namespace {

/// body(first element, how many of them, byte) for each byte.
template <class Body>
void for_each_byte(int64_t numel, const Body& body) {
  parallel_for((numel + 7) / 8, kElementwiseGrain / 8, [&](int64_t begin, int64_t end) {
    for (int64_t byte = begin; byte < end; ++byte)
      body(8 * byte, std::min<int64_t>(8, numel - 8 * byte), byte);
  });
}

template <class T>
void pack_mask(const Context&, const Tensor& x, Tensor& bits) {
  const T* from = static_cast<const T*>(x.raw());
  uint8_t* to = static_cast<uint8_t*>(bits.raw());
  for_each_byte(x.numel(), [&](int64_t first, int64_t count, int64_t byte) {
    unsigned of_byte = 0;
    for (int64_t k = 0; k < count; ++k)
      of_byte |= static_cast<unsigned>(!(from[first + k] <= T(0))) << k;
    to[byte] = static_cast<uint8_t>(of_byte);
  });
}

template <class T>
void unpack_mask(const Context&, const Tensor& bits, Tensor& x) {
  const uint8_t* from = static_cast<const uint8_t*>(bits.raw());
  T* to = static_cast<T*>(x.raw());
  for_each_byte(x.numel(), [&](int64_t first, int64_t count, int64_t byte) {
    for (int64_t k = 0; k < count; ++k) to[first + k] = static_cast<T>((from[byte] >> k) & 1);
  });
}

const bool registered = register_floats<&pack_mask<float>, &pack_mask<double>>("pack_mask") &&
                        register_floats<&unpack_mask<float>, &unpack_mask<double>>("unpack_mask");

}  // namespace
}  // namespace brim::cpu
