// Kernels that move or set elements without arithmetic; shared by memory/ and create/.
#pragma once

#include <span>

#include "backend/kernel.h"

namespace brim::ops {

/// y[...] = cast(x[...]), both on the kernel's device, same shape, any strides.
void copy_elements(const Tensor& x, Tensor& y);
/// y = value everywhere.
void fill_elements(Tensor& y, double value);

/// Copies each of `from`, all on one device, into its partner of `to`, all on another one: pairs of
/// equal dtype, shape and dense row-major layout. The work is queued on the current stream of the
/// device that it goes to, or of the one that is not the CPU. Between accelerators the streams of
/// both wait for each other, once for all: the copies for what makes `from`, and the later work on
/// its device, which may overwrite or free it, for the copies. Waits on the host only for copies to
/// the CPU, and with `non_blocking` not for those into pinned memory. Throws NotImplemented between
/// accelerators of two kinds.
void copy_between_devices(std::span<const Tensor> from, std::span<const Tensor> to,
                          bool non_blocking = false);

}  // namespace brim::ops
