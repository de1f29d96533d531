// The iteration space of an elementwise kernel: operands with any strides (0 where broadcast),
// dimensions reordered and merged so that the innermost run is as long as possible.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include <brim/core/tensor.h>

namespace brim::backend {

/// N operands; operand 0 is the output, whose shape is the iteration space. Strides in elements.
template <int N>
struct Loop {
  int rank = 0;
  int64_t numel = 1;
  std::array<int64_t, kMaxRank> size{};  // [0] is the innermost
  std::array<std::array<int64_t, kMaxRank>, N> stride{};

  bool all_contiguous() const {
    if (rank > 1) return false;
    for (int k = 0; k < N; ++k)
      if (stride[k][0] != 1) return false;
    return true;
  }

  /// Offsets of each operand at linear position `index` of the iteration space.
  std::array<int64_t, N> offsets(int64_t index) const {
    std::array<int64_t, N> at{};
    for (int d = 0; d < rank; ++d) {
      const int64_t i = index % size[d];
      index /= size[d];
      for (int k = 0; k < N; ++k) at[k] += i * stride[k][d];
    }
    return at;
  }
};

/// Builds the loop; `strides[k][axis]` belongs to the output's axes, outermost first.
template <int N>
Loop<N> make_loop(const Shape& shape, const std::array<Strides, N>& strides) {
  Loop<N> loop;
  std::array<int, kMaxRank> order{};
  int rank = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    loop.numel *= shape[axis];
    if (shape[axis] != 1) order[rank++] = axis;
  }
  // Innermost first: small output strides, then small input strides. Insertion sort, stable.
  auto before = [&](int a, int b) {
    for (int k = 0; k < N; ++k)
      if (strides[k][a] != strides[k][b]) return strides[k][a] < strides[k][b];
    return a > b;
  };
  for (int i = 1; i < rank; ++i)
    for (int j = i; j > 0 && before(order[j], order[j - 1]); --j) std::swap(order[j], order[j - 1]);
  for (int i = 0; i < rank; ++i) {
    const int axis = order[i];
    bool merge = loop.rank > 0;
    for (int k = 0; k < N && merge; ++k)
      merge = strides[k][axis] == loop.stride[k][loop.rank - 1] * loop.size[loop.rank - 1];
    if (merge) {
      loop.size[loop.rank - 1] *= shape[axis];
    } else {
      loop.size[loop.rank] = shape[axis];
      for (int k = 0; k < N; ++k) loop.stride[k][loop.rank] = strides[k][axis];
      ++loop.rank;
    }
  }
  if (loop.rank == 0) {
    loop.rank = 1;
    loop.size[0] = loop.numel;  // 1, or 0 when the shape holds a zero
    for (int k = 0; k < N; ++k) loop.stride[k][0] = 1;
  }
  return loop;
}

/// Strides of `x` seen through broadcasting to `shape`.
inline Strides broadcast_strides(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x.strides();
  Strides strides = Shape::filled(shape.rank(), 0);
  const int shift = shape.rank() - x.rank();
  for (int i = 0; i < x.rank(); ++i)
    if (x.shape()[i] != 1) strides[i + shift] = x.strides()[i];
  return strides;
}

/// The loop over `y` with inputs broadcast to its shape.
template <class... In>
Loop<1 + sizeof...(In)> make_loop(const Tensor& y, const In&... in) {
  constexpr int N = 1 + sizeof...(In);
  // All row-major and of one shape: the common case, without sorting.
  if (y.is_contiguous() && ((in.is_contiguous() && in.shape() == y.shape()) && ...)) {
    Loop<N> loop;
    loop.rank = 1;
    loop.numel = loop.size[0] = y.numel();
    for (int k = 0; k < N; ++k) loop.stride[k][0] = 1;
    return loop;
  }
  return make_loop<N>(y.shape(),
                      std::array<Strides, N>{y.strides(), broadcast_strides(in, y.shape())...});
}

}  // namespace brim::backend
