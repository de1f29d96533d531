// pad: a border of numbers, or of copies of the inside. The gradient of a constant border is the
// inside, which is a pad with negative sizes.
#include <algorithm>
#include <array>

#include <brim/ops/binary.h>
#include <brim/ops/reduce.h>
#include <brim/ops/shape.h>

#include "autograd/node.h"
#include "backend/kernel.h"
#include "backend/options/pieces.h"
#include "ops/checks.h"
#include "ops/memory/copy.h"
#include "ops/memory_format.h"

namespace brim {
namespace {

Tensor pad_constant(const Tensor& x, const std::vector<int64_t>& pads, double value) {
  Shape shape = x.shape();
  for (size_t i = 0; i < pads.size(); ++i) shape[x.rank() - 1 - static_cast<int>(i / 2)] += pads[i];
  Tensor y = ops::empty_in(shape, x.dtype(), x);
  ops::fill_elements(y, value);
  Tensor from = x.detach(), to = y;
  for (int i = 0; i < static_cast<int>(pads.size()) / 2; ++i) {
    const int axis = x.rank() - 1 - i;
    const int64_t before = pads[2 * static_cast<size_t>(i)];
    const int64_t after = pads[2 * static_cast<size_t>(i) + 1];
    const int64_t size = x.shape()[axis];
    // The part of x that is kept may be empty where a negative pad takes all of it.
    const int64_t first = std::max<int64_t>(0, -before);
    const int64_t last = std::max(first, size - std::max<int64_t>(0, -after));
    from = from.slice(axis, std::min(first, size), last);
    to = to.slice(axis, std::max<int64_t>(0, before), std::max<int64_t>(0, before) + last - first);
  }
  if (from.numel() > 0 && to.shape() == from.shape()) ops::copy_elements(from, to);
  return autograd::with_grad("pad", y, {x}, autograd::SavesNothing{[pads](autograd::GradCall& g) {
                               std::vector<int64_t> inverse = pads;
                               for (int64_t& p : inverse) p = -p;
                               g.set(0, pad_constant(g.dy(), inverse, 0));
                             }});
}

using backend::Piece;
using backend::Pieces;

std::array<Piece, 3> pieces_of(int64_t size, int64_t before, int64_t after, PadMode mode) {
  switch (mode) {
    case PadMode::reflect:
      return {{{before, before, -1}, {0, size, 1}, {size - 2, after, -1}}};
    case PadMode::replicate:
      return {{{0, before, 0}, {0, size, 1}, {size - 1, after, 0}}};
    default:
      return {{{size - before, before, 1}, {0, size, 1}, {0, after, 1}}};
  }
}

/// Copies the pieces of axes 0 to `axis`, which are the same in x and y behind it; for devices
/// without the kernel.
void copy_pieces(const Tensor& x, const Tensor& y, int axis, const Pieces& pieces) {
  if (axis < 0) {
    Tensor to = y;
    return ops::copy_elements(x, to);
  }
  int64_t at = 0;
  for (const Piece& piece : pieces.axes[static_cast<size_t>(axis)]) {
    if (piece.size == 0) continue;
    Shape shape = x.shape();
    Strides strides = x.strides();
    shape[axis] = piece.size;
    strides[axis] *= piece.step;
    const int64_t offset = x.offset() + piece.from * x.strides()[axis];
    copy_pieces(x.alias(shape, strides, offset), y.slice(axis, at, at + piece.size), axis - 1,
                pieces);
    at += piece.size;
  }
}

/// Of the copies along one axis: each is added to what it is a copy of.
Tensor folded(const Tensor& dy, int axis, int64_t before, int64_t after, PadMode mode) {
  const int64_t size = dy.shape()[axis] - before - after;
  const auto part = [&](int64_t from, int64_t count) { return dy.slice(axis, from, from + count); };
  // `count` elements that belong to x from `at` on, as zeros elsewhere.
  const auto at = [&](const Tensor& t, int64_t from) {
    std::vector<int64_t> pads(2 * static_cast<size_t>(dy.rank() - axis), 0);
    pads[pads.size() - 2] = from;
    pads[pads.size() - 1] = size - from - t.shape()[axis];
    return pad(t, pads);
  };
  Tensor dx = part(before, size);
  const auto add_copies = [&](int64_t from, int64_t count, int64_t inner) {
    if (count == 0) return;
    const Tensor copies = part(from, count);
    dx = dx + at(mode == PadMode::reflect     ? flip(copies, {axis})
                 : mode == PadMode::replicate ? sum(copies, {axis}, /*keepdim=*/true)
                                              : copies,
                 inner);
  };
  const bool reflects = mode == PadMode::reflect, replicates = mode == PadMode::replicate;
  add_copies(0, before, reflects ? 1 : replicates ? 0 : size - before);
  add_copies(before + size, after, reflects ? size - 1 - after : replicates ? size - 1 : 0);
  return dx;
}

/// The other modes, of borders of 0 or more; in the memory format of `like`.
Tensor pad_copied(const Tensor& x, const std::vector<int64_t>& pads, PadMode mode,
                  const Tensor& like) {
  Shape shape = x.shape();
  Pieces pieces;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const size_t i = 2 * static_cast<size_t>(x.rank() - 1 - axis);
    const bool padded = i < pads.size();
    const int64_t before = padded ? pads[i] : 0, after = padded ? pads[i + 1] : 0;
    pieces.axes[static_cast<size_t>(axis)] = pieces_of(shape[axis], before, after, mode);
    shape[axis] += before + after;
  }
  Tensor y = ops::empty_in(shape, x.dtype(), like);
  static const backend::Kernel<void(const Context&, const Tensor& x, Tensor& y, const Pieces&)>
      kernel("copy_pieces", {.operands = "x, y"});
  if (kernel.exists(x.device(), x.dtype()))
    kernel(x.device(), x.dtype(), x.detach(), y, pieces);
  else if (y.numel() > 0)
    copy_pieces(x.detach(), y, x.rank() - 1, pieces);
  return autograd::with_grad(
      "pad", y, {x}, autograd::SavesNothing{[pads, mode](autograd::GradCall& g) {
        Tensor d = g.dy();
        for (size_t i = 0; i < pads.size(); i += 2)
          d = folded(d, d.rank() - 1 - static_cast<int>(i / 2), pads[i], pads[i + 1], mode);
        g.set(0, d);
      }});
}

/// Throws ShapeError where an axis has too few elements for its border.
void check_border(const Tensor& x, int axis, int64_t before, int64_t after, PadMode mode) {
  const int64_t size = x.shape()[axis];
  const int64_t most = mode == PadMode::reflect ? size - 1 : size;
  const bool enough =
      mode == PadMode::replicate ? size > 0 : std::max(before, after) <= std::max<int64_t>(0, most);
  BRIM_CHECK(enough, ShapeError,
             "[pad] axis {} of shape {} is too small for a {} border of {} and {}; use PadMode::"
             "constant",
             axis, x.shape().str(),
             mode == PadMode::reflect     ? "reflected"
             : mode == PadMode::replicate ? "replicated"
                                          : "circular",
             before, after);
}

}  // namespace

Tensor pad(const Tensor& x, const std::vector<int64_t>& pads, PadMode mode, double value) {
  ops::check_defined("pad", x);
  BRIM_CHECK(pads.size() % 2 == 0 && static_cast<int>(pads.size()) <= 2 * x.rank(), ShapeError,
             "[pad] {} pads for shape {}; give two for each padded axis, the last axis first",
             pads.size(), x.shape().str());
  const int count = static_cast<int>(pads.size()) / 2;
  for (int i = 0; i < count; ++i) {
    const int64_t size = x.shape()[x.rank() - 1 - i], limit = int64_t{1} << 56;
    const int64_t before = pads[2 * static_cast<size_t>(i)];
    const int64_t after = pads[2 * static_cast<size_t>(i) + 1];
    BRIM_CHECK(std::max(before, after) < limit && std::min(before, after) > -limit &&
                   size + before + after >= 0,
               ShapeError, "[pad] pads {} and {} of axis {} leave no valid size, shape {}", before,
               after, x.rank() - 1 - i, x.shape().str());
  }
  if (mode == PadMode::constant) return pad_constant(x, pads, value);
  Tensor inside = x;
  std::vector<int64_t> borders;
  for (int i = 0; i < count; ++i) {
    const int axis = x.rank() - 1 - i;
    const int64_t before = pads[2 * static_cast<size_t>(i)];
    const int64_t after = pads[2 * static_cast<size_t>(i) + 1];
    if (before < 0 || after < 0)
      inside = inside.slice(axis, std::max<int64_t>(0, -before),
                            inside.shape()[axis] - std::max<int64_t>(0, -after));
    borders.push_back(std::max<int64_t>(0, before));
    borders.push_back(std::max<int64_t>(0, after));
    if (before > 0 || after > 0)
      check_border(inside, axis, borders[borders.size() - 2], borders.back(), mode);
  }
  return pad_copied(inside, borders, mode, x);
}

}  // namespace brim
