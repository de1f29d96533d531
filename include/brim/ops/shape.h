// Moving, joining, splitting, repeating and padding. All work on every dtype and any strides and
// have gradients of any order. An axis lies in [-rank, rank), else IndexError.
#pragma once

#include <optional>
#include <vector>

#include <brim/core/tensor.h>

namespace brim {

// --- views (see the members of Tensor)
///@{
/// As the members of Tensor.
inline Tensor view(const Tensor& x, const Shape& shape) { return x.view(shape); }
inline Tensor reshape(const Tensor& x, const Shape& shape) { return x.reshape(shape); }
inline Tensor flatten(const Tensor& x, int start = 0, int end = -1) {
  return x.flatten(start, end);
}
inline Tensor permute(const Tensor& x, std::span<const int> axes) { return x.permute(axes); }
inline Tensor permute(const Tensor& x, std::initializer_list<int> axes) { return x.permute(axes); }
inline Tensor transpose(const Tensor& x, int a, int b) { return x.transpose(a, b); }
inline Tensor swapaxes(const Tensor& x, int a, int b) { return x.transpose(a, b); }
inline Tensor expand(const Tensor& x, const Shape& shape) { return x.expand(shape); }
inline Tensor squeeze(const Tensor& x, int axis) { return x.squeeze(axis); }
inline Tensor squeeze(const Tensor& x) { return x.squeeze(); }
inline Tensor unsqueeze(const Tensor& x, int axis) { return x.unsqueeze(axis); }
inline Tensor slice(const Tensor& x, int axis, int64_t start, int64_t stop, int64_t step = 1) {
  return x.slice(axis, start, stop, step);
}
inline Tensor select(const Tensor& x, int axis, int64_t index) { return x.select(axis, index); }
///@}
/// Moves one axis; the others keep their order.
Tensor movedim(const Tensor& x, int from, int to);
/// `length` elements from `start` on. Throws IndexError unless they all exist.
Tensor narrow(const Tensor& x, int axis, int64_t start, int64_t length);
/// Elements [.., i, .., i + offset, ..] of two axes, as a new last axis.
Tensor diagonal(const Tensor& x, int64_t offset = 0, int axis1 = 0, int axis2 = 1);

/// Windows of `size` elements along an axis, `step` apart, as a new last axis: a view, whose
/// windows share memory where they overlap. (.., L, ..) -> (.., (L - size) / step + 1, .., size).
Tensor unfold(const Tensor& x, int axis, int64_t size, int64_t step);

// --- parts, as views
/// Pieces of `size` along an axis; the last may be smaller.
std::vector<Tensor> split(const Tensor& x, int64_t size, int axis = 0);
/// Pieces of these sizes. Throws ShapeError unless they add up to the axis.
std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int axis = 0);
/// At most `chunks` pieces of equal size, except the last.
std::vector<Tensor> chunk(const Tensor& x, int64_t chunks, int axis = 0);
/// The slices along an axis, without that axis.
std::vector<Tensor> unbind(const Tensor& x, int axis = 0);

// --- copies
/// Joins along an existing axis; channel-last where all of them are. Throws ShapeError when other
/// sizes differ, DTypeError, DeviceError.
Tensor cat(const std::vector<Tensor>& tensors, int axis = 0);
/// Joins equal shapes along a new axis.
Tensor stack(const std::vector<Tensor>& tensors, int axis = 0);
/// The whole tensor repeats[i] times along axis i; more repeats than axes add axes in front.
Tensor repeat(const Tensor& x, const Shape& repeats);
/// Each element `repeats` times along an axis; without one the tensor is flattened first.
Tensor repeat_interleave(const Tensor& x, int64_t repeats, std::optional<int> axis = {});
/// Element i repeats[i] times.
Tensor repeat_interleave(const Tensor& x, const std::vector<int64_t>& repeats,
                         std::optional<int> axis = {});
/// The same with repeats (n) in a tensor, which the host reads: waits for the device.
Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::optional<int> axis = {});
/// Reversed order along the axes.
Tensor flip(const Tensor& x, const std::vector<int>& axes);
/// Shifts elements along an axis; what leaves at the end comes back at the start. Without axes the
/// flattened tensor is shifted.
Tensor roll(const Tensor& x, const std::vector<int64_t>& shifts, const std::vector<int>& axes = {});
/// Zeros above (tril) or below (triu) the given diagonal of the last two axes.
Tensor tril(const Tensor& x, int64_t diagonal = 0);
/// The same above the diagonal: what is on it and to its right stays.
Tensor triu(const Tensor& x, int64_t diagonal = 0);

/// x with `source` in the place of slice(x, axis, start, stop, step), whose shape it must have
/// (ShapeError): writing into a part, with gradients of both.
Tensor slice_scatter(const Tensor& x, const Tensor& source, int axis, int64_t start, int64_t stop,
                     int64_t step = 1);
/// The same for select(x, axis, index).
Tensor select_scatter(const Tensor& x, const Tensor& source, int axis, int64_t index);

/// Channels as pixels: (.., C r r, H, W) -> (.., C, H r, W r), r = `factor` (Shi et al. 2016).
Tensor pixel_shuffle(const Tensor& x, int64_t factor);
/// The reverse: (.., C, H r, W r) -> (.., C r r, H, W).
Tensor pixel_unshuffle(const Tensor& x, int64_t factor);

/// What padding is filled with: a number, the mirrored inside (without the edge), the edge, or the
/// opposite side.
enum class PadMode : uint8_t {
  constant,   ///< one value
  reflect,    ///< mirrored, without the edge
  replicate,  ///< the edge again
  circular    ///< from the other side
};
/// pads: {before, after} of the last axis, then of the one before it, and so on, as in
/// torch.nn.functional.pad; negative ones cut off. Throws ShapeError when the mode needs more
/// elements than there are.
Tensor pad(const Tensor& x, const std::vector<int64_t>& pads, PadMode mode = PadMode::constant,
           double value = 0);

}  // namespace brim
