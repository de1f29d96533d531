// Reading and writing at positions given by a tensor of indices (i64 or i32). An index outside of
// [0, size) throws IndexError; on an accelerator it is reported at the next wait for the device.
// Repeated indices add up in a fixed order, so results do not depend on the number of threads.
#pragma once

#include <brim/core/tensor.h>

namespace brim {

/// y[.., j, ..] = x[.., index[j], ..]. index: (K).
Tensor index_select(const Tensor& x, int axis, const Tensor& index);
/// y[.., i, ..] = x[.., index[.., i, ..], ..]. index: x's rank, in other axes at most x's size.
Tensor gather(const Tensor& x, int axis, const Tensor& index);
/// gather with index and x broadcast to each other in all axes but one.
Tensor take_along(const Tensor& x, const Tensor& index, int axis);
/// x with y[.., index[.., i, ..], ..] = source[.., i, ..]. Of repeated indices the last one counts;
/// the gradient of `source` is right only without repeats.
Tensor scatter(const Tensor& x, int axis, const Tensor& index, const Tensor& source);
/// The same with one number for all.
Tensor scatter(const Tensor& x, int axis, const Tensor& index, double value);
/// x with source added where scatter would write it.
Tensor scatter_add(const Tensor& x, int axis, const Tensor& index, const Tensor& source);
/// x with alpha * source[.., j, ..] added at index[j]. index: (K); source: x's shape, K on the
/// axis.
Tensor index_add(const Tensor& x, int axis, const Tensor& index, const Tensor& source,
                 double alpha = 1);

/// Elements of x where `mask` (bool, broadcast with x) is true, in row-major order: (K). The host
/// reads the mask: waits for the device.
Tensor masked_select(const Tensor& x, const Tensor& mask);
/// Positions of elements that are not zero: (K, rank) i64. Waits for the device.
Tensor nonzero(const Tensor& x);
/// ids: any shape of i64 or i32 -> (.., classes), 1 at the id and 0 elsewhere. classes = -1 takes
/// the largest id + 1, and then waits for the device.
Tensor one_hot(const Tensor& ids, int64_t classes = -1, DType dtype = i64);

}  // namespace brim
