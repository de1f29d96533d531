// A batch for a network, made on the device from pictures that lie there as bytes.
#pragma once

#include <brim/core/tensor.h>

#include "backend/options/picture_options.h"

namespace brim::ops {

/// Fills x and y with the batch whose first sample is row position[0] + options.offset of
/// `windows`: each sample's window is cut out of its picture, mirrored and normalised
/// (formula/picture.h), and its label is taken. Then position[0] is moved on by options.advance,
/// in the same launch: a step that is captured with it gets the next batch whenever it is replayed.
///
/// pictures: (M, 3, H, W) u8, labels: (M) i64, windows: (T, 4) i32 (formula::PictureWindow),
/// position: (2) i64, of which the second is the kernel's own and 0 between launches, x: (N, 3, h,
/// w) f32, y: (N) i64; all contiguous and on one device. Throws ShapeError, DTypeError,
/// DeviceError; IndexError (on asynchronous devices when they are waited for) where a row or
/// picture does not exist.
void picture_batch(const Tensor& pictures, const Tensor& labels, const Tensor& windows,
                   Tensor& position, Tensor& x, Tensor& y, const backend::PictureOptions& options);

}  // namespace brim::ops
