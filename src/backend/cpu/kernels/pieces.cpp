// copy_pieces on the CPU: row by row, so that what the pieces of a row share is still in the cache.
#include <algorithm>
#include <array>
#include <cstring>

#include "backend/cpu/elementwise/loop.h"
#include "backend/kernel.h"
#include "backend/options/pieces.h"
#include "core/axes_by_stride.h"
#include "core/context.h"

namespace brim::cpu {
namespace {

using backend::Piece;
using backend::Pieces;

/// An axis of y: where in x its elements come from.
struct PieceAxis {
  int64_t size = 0, stride = 0;  // of x
  std::array<Piece, 3> pieces{};

  /// Of all elements.
  void write_offsets(int64_t* to) const {
    for (const Piece& piece : pieces)
      for (int64_t i = 0; i < piece.size; ++i) *to++ = (piece.from + i * piece.step) * stride;
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
void copy_as(const Context& context, const Tensor& x, Tensor& y, const Pieces& pieces) {
  const T* const from = static_cast<const T*>(x.raw());
  T* const to = static_cast<T*>(y.raw());
  if (y.rank() == 0) return void(*to = *from);
  const std::array<int, kMaxRank> order = axes_by_stride(y);
  std::array<PieceAxis, kMaxRank> axes;
  const size_t outer = static_cast<size_t>(y.rank()) - 1;
  int64_t places = 0;
  for (size_t k = 0; k <= outer; ++k) {
    const int axis = order[k];
    axes[k] = {y.shape()[axis], x.strides()[axis], pieces.axes[static_cast<size_t>(axis)]};
    if (k < outer) places += axes[k].size;
  }
  const Workspace space(context.workspace(static_cast<size_t>(places) * sizeof(int64_t)));
  std::array<int64_t*, kMaxRank> offsets{};
  int64_t* next = space.as<int64_t>();
  for (size_t k = 0; k < outer; next += axes[k++].size) {
    offsets[k] = next;
    axes[k].write_offsets(next);
  }
  const PieceAxis& inner = axes[outer];
  const int64_t rows = y.numel() / inner.size;
  const int64_t grain = std::max<int64_t>(1, kElementwiseGrain / inner.size);
  parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    std::array<int64_t, kMaxRank> index{};
    int64_t left = begin;
    for (size_t k = outer; k-- > 0; left /= axes[k].size) index[k] = left % axes[k].size;
    for (; begin < end; ++begin) {
      int64_t offset = 0;
      for (size_t k = 0; k < outer; ++k) offset += offsets[k][index[k]];
      copy_row(from + offset, inner, to + begin * inner.size);
      for (size_t k = outer; k-- > 0;) {
        if (++index[k] < axes[k].size) break;
        index[k] = 0;
      }
    }
  });
}

void copy_pieces(const Context& context, const Tensor& x, Tensor& y, const Pieces& pieces) {
  if (y.numel() == 0) return;
  switch (size_of(y.dtype())) {
    case 1:
      return copy_as<uint8_t>(context, x, y, pieces);
    case 2:
      return copy_as<uint16_t>(context, x, y, pieces);
    case 4:
      return copy_as<uint32_t>(context, x, y, pieces);
    case 8:
      return copy_as<uint64_t>(context, x, y, pieces);
    default:
      return copy_as<std::array<uint64_t, 2>>(context, x, y, pieces);
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
