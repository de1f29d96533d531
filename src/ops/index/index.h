// The two kernels under every indexing op: reading and writing along one axis at positions that a
// tensor of indices holds.
#pragma once

#include <brim/core/tensor.h>

#include "backend/kernel.h"
#include "backend/options/index_options.h"

namespace brim::ops {

using backend::IndexOptions;
using GatherKernel = backend::Kernel<void(const Context&, const Tensor& x, const Tensor& index,
                                          Tensor& y, const IndexOptions&)>;
using ScatterKernel = backend::Kernel<void(const Context&, const Tensor& index,
                                           const Tensor& source, Tensor& y, const IndexOptions&)>;

/// `index` as i64; throws DTypeError unless it is i64 or i32, DeviceError unless it is with `x`.
Tensor as_index(const char* op, const Tensor& index, const Tensor& x);
/// A tensor of rank 0 seen as (1), others as they are.
inline Tensor at_least_1d(const Tensor& x) { return x.rank() == 0 ? x.reshape({1}) : x; }
/// An index vector seen as an index of `shape` that varies along `axis` only.
Tensor along_axis(const Tensor& index, const Shape& shape, int axis);

}  // namespace brim::ops
