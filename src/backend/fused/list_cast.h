// Casts of many tensors in one launch: under Autocast each weight is cast where it is used, and
// each gradient back again, and a GPU takes longer to launch that than to do it.
#pragma once

#include <span>

#include "backend/kernel.h"

namespace brim::backend {

/// "list_cast", by the dtype of y: y[i] = x[i], whose shapes are equal and whose dtypes are one;
/// floats, of any strides.
using ListCastKernel = Kernel<void(const Context&, std::span<const Tensor> x, std::span<Tensor> y)>;

/// What one tensor of a list may have at most: beyond, a launch of its own is nothing beside its
/// bytes.
inline constexpr int64_t kMaxListCast = int64_t{1} << 22;

}  // namespace brim::backend
