// Whether two tensors see the same memory.
#pragma once

#include <brim/core/tensor.h>

namespace brim {

/// True if both see the same elements of the same storage in the same order.
bool same_view(const Tensor& a, const Tensor& b);
/// The same, or both are row-major, of whatever shapes.
bool same_elements(const Tensor& a, const Tensor& b);
/// True if `t` is dense, in whatever order, and fills its storage.
bool covers_storage(const Tensor& t);

}  // namespace brim
