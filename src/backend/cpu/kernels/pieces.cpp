// copy_pieces on the CPU: row by row, so that what the pieces of a row share is still in the cache.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "backend/cpu/elementwise/loop.h"
#include "backend/kernel.h"
#include "backend/options/pieces.h"

namespace brim::cpu {
namespace {

using backend::Piece;
using backend::Pieces;

/// An axis of y from the outermost in memory on: where in x its elements come from.
struct PieceAxis {
  int64_t size, stride;  // of x
  std::array<Piece, 3> pieces;
  std::vector<int64_t> offsets;  // of all elements

  PieceAxis(int64_t count, int64_t x_stride, const std::array<Piece, 3>& of)
      : size(count), stride(x_stride), pieces(of) {
    offsets.reserve(static_cast<size_t>(count));
    for (const Piece& piece : pieces)
      for (int64_t i = 0; i < piece.size; ++i)
        offsets.push_back((piece.from + i * piece.step) * stride);
  }
};

template <class T>
void copy_row(const T* x, const PieceAxis& axis, T* y) {
  for (const Piece& piece : axis.pieces) {
    const int64_t step = piece.step * axis.stride;
    const T* const from = x + piece.from * axis.stride;
    if (step == 1)
      std::memcpy(y, from, static_cast<size_t>(piece.size) * sizeof(T));
    else
      for (int64_t i = 0; i < piece.size; ++i) y[i] = from[i * step];
    y += piece.size;
  }
}

/// y fills its memory, in whatever order of the axes.
template <class T>
void copy_as(const Tensor& x, Tensor& y, const Pieces& pieces) {
  std::vector<int> order;
  for (int axis = 0; axis < y.rank(); ++axis) order.push_back(axis);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return y.strides()[a] > y.strides()[b]; });
  std::vector<PieceAxis> axes;
  for (const int axis : order)
    axes.emplace_back(y.shape()[axis], x.strides()[axis], pieces.axes[static_cast<size_t>(axis)]);
  const T* const from = static_cast<const T*>(x.raw());
  T* const to = static_cast<T*>(y.raw());
  if (axes.empty()) return void(*to = *from);
  const PieceAxis inner = std::move(axes.back());
  axes.pop_back();
  const int64_t rows = y.numel() / inner.size;
  const int64_t grain = std::max<int64_t>(1, kElementwiseGrain / inner.size);
  parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    std::array<int64_t, kMaxRank> index{};
    int64_t left = begin;
    for (size_t k = axes.size(); k-- > 0; left /= axes[k].size) index[k] = left % axes[k].size;
    for (; begin < end; ++begin) {
      int64_t offset = 0;
      for (size_t k = 0; k < axes.size(); ++k)
        offset += axes[k].offsets[static_cast<size_t>(index[k])];
      copy_row(from + offset, inner, to + begin * inner.size);
      for (size_t k = axes.size(); k-- > 0;) {
        if (++index[k] < axes[k].size) break;
        index[k] = 0;
      }
    }
  });
}

void copy_pieces(const Context&, const Tensor& x, Tensor& y, const Pieces& pieces) {
  if (y.numel() == 0) return;
  switch (size_of(y.dtype())) {
    case 1:
      return copy_as<uint8_t>(x, y, pieces);
    case 2:
      return copy_as<uint16_t>(x, y, pieces);
    case 4:
      return copy_as<uint32_t>(x, y, pieces);
    case 8:
      return copy_as<uint64_t>(x, y, pieces);
    default:
      return copy_as<std::array<uint64_t, 2>>(x, y, pieces);
  }
}

bool register_for_all() {
  for (int i = 0; i < kDTypeCount; ++i)
    backend::register_kernel("copy_pieces", DeviceKind::cpu, static_cast<DType>(i), &copy_pieces);
  return true;
}
const bool registered = register_for_all();

}  // namespace
}  // namespace brim::cpu
