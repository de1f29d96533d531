// Tensors of every dtype, those that are stored only among them, by their bytes.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include <brim/core/tensor.h>

namespace brim::tests {

/// (2, 3) of bits of all kinds, signalling NaNs among them; of bool, of false and true.
inline Tensor any_bits(DType dtype) {
  Tensor x = Tensor::empty({2, 3}, dtype, Device::cpu());
  auto* const bytes = static_cast<uint8_t*>(x.raw());
  for (size_t i = 0; i < 6 * size_of(dtype); ++i)
    bytes[i] = static_cast<uint8_t>(dtype == bool_ ? i % 2 : 37 * i + 201);
  // Those of f32, f64, bf16 and of complex numbers; of f16 a NaN with a payload.
  constexpr uint32_t kNaNs[] = {0x7fa00001, 0x7ff00001};
  if (size_of(dtype) > 1) std::memcpy(bytes, kNaNs, sizeof kNaNs);
  return x;
}

/// The bytes of `x`, row-major.
inline std::vector<uint8_t> bytes_of(const Tensor& x) {
  const Tensor packed = x.detach().to(Device::cpu()).contiguous();
  const auto* const bytes = static_cast<const uint8_t*>(packed.raw());
  return {bytes, bytes + static_cast<size_t>(x.numel()) * size_of(x.dtype())};
}

}  // namespace brim::tests
