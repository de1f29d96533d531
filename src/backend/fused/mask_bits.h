// What is needed of a tensor that is read for its sign alone: a bit for each element. Plans keep
// that where memory is short.
#pragma once

#include <string_view>

#include "backend/kernel.h"

namespace brim::backend {

/// "pack_mask": bit i % 8 of byte i / 8 is whether x[i] passes a gradient on, which all do but
/// those of 0 and less (NaN does). x: (n), of floats; bits: (n / 8, rounded up) u8.
using PackMask = Kernel<void(const Context&, const Tensor& x, Tensor& bits)>;
/// "unpack_mask": 1 where the bit is set, else 0, to floats of shape (n).
using UnpackMask = Kernel<void(const Context&, const Tensor& bits, Tensor& x)>;

constexpr int64_t mask_bytes(int64_t elements) { return (elements + 7) / 8; }

const PackMask& pack_mask_kernel();
const UnpackMask& unpack_mask_kernel();

/// Declares, beside the kernel `name`, that it computes the same from a 1 in place of each element
/// of `operand` that is not 0 or less, and a 0 in place of each other one.
bool register_mask_operand(const char* name, const char* operand);
bool is_mask_operand(const Launch& launch, const Operand& operand);

}  // namespace brim::backend
