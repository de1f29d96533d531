// What attention's kernels share: a block's tiles of scores, the products they come from and go
// into, masks and dropout.
//
// A block has a square of rows and columns, queries and keys in either order, of which a thread
// owns 4 x 4. Operands pass through shared memory a few columns at a time.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "backend/cuda/device/thread_group.cuh"
#include "backend/cuda/elementwise/elementwise.cuh"
#include "backend/cuda/gemm/gemm.cuh"
#include "backend/cuda/graph/graph_parameter.cuh"
#include "backend/options/attention_params.h"
#include "formula/philox.h"

namespace brim::cuda {

/// The rows of a head in a tensor (B, H, rows, columns), columns contiguous.
template <class T>
struct HeadRows {
  T* data;
  int64_t batch, head, row;  // strides

  explicit HeadRows(const Tensor& x)
      : data(static_cast<T*>(x.raw())),
        batch(x.strides()[0]),
        head(x.strides()[1]),
        row(x.strides()[2]) {}
  __device__ T* at(int64_t b, int64_t h) const { return data + b * batch + h * head; }
};

/// What dropout does to the weights of one call.
template <class C>
struct DropWeights {
  bool drops;
  uint32_t below;
  C kept;  // the factor of weights that are kept

  explicit DropWeights(double p)
      : drops(p > 0),
        below(formula::drop_limit(p)),
        kept(p < 1 ? static_cast<C>(1 / (1 - p)) : C(0)) {}
};

/// A call's operands, as all kernels take them.
template <class T>
struct Attention {
  using C = Compute<T>;
  int64_t batches, heads, shared_heads, queries, keys, features, value_features;
  HeadRows<const T> q, k, v;
  const void* mask;  // null: none
  bool mask_is_bool, causal;
  int64_t mask_stride[4] = {};
  C scale;
  DropWeights<C> dropout;

  Attention(const Tensor& tq, const Tensor& tk, const Tensor& tv, const Tensor& tmask,
            const backend::AttentionParams& params)
      : batches(tq.shape()[0]),
        heads(tq.shape()[1]),
        shared_heads(tk.shape()[1]),
        queries(tq.shape()[2]),
        keys(tk.shape()[2]),
        features(tq.shape()[3]),
        value_features(tv.shape()[3]),
        q(tq),
        k(tk),
        v(tv),
        mask(tmask.defined() ? tmask.raw() : nullptr),
        mask_is_bool(tmask.defined() && tmask.dtype() == DType::bool_),
        causal(params.causal),
        scale(static_cast<C>(params.scale)),
        dropout(params.dropout) {
    for (int i = 0; mask && i < 4; ++i) mask_stride[i] = tmask.strides()[i];
  }

  __device__ int64_t group() const { return heads / shared_heads; }
  /// The score of a query and a key whose product is `product`; -inf where there are no such two,
  /// or the query does not see the key.
  __device__ C score(C product, int64_t b, int64_t h, int64_t i, int64_t j) const {
    constexpr C kHidden = -std::numeric_limits<C>::infinity();
    if (i >= queries || j >= keys || (causal && j > i)) return kHidden;
    const C scaled = product * scale;
    if (!mask) return scaled;
    const int64_t at =
        b * mask_stride[0] + h * mask_stride[1] + i * mask_stride[2] + j * mask_stride[3];
    if (mask_is_bool) return static_cast<const bool*>(mask)[at] ? scaled : kHidden;
    return scaled + widen(static_cast<const T*>(mask)[at]);
  }
};

/// The factors of dropout: weights that follow each other mostly have the same block of words.
template <class C>
class DropFactors {
 public:
  __device__ DropFactors(const DropWeights<C>& dropout, const RandomKey& key)
      : dropout_(dropout), key_(key) {}
  /// That of element `i` of the draw.
  __device__ C operator()(int64_t i) {
    if (!dropout_.drops) return 1;
    if (i / 4 != block_) {
      block_ = i / 4;
      words_ = formula::random_block(key_, static_cast<uint64_t>(block_));
    }
    const int k = static_cast<int>(i % 4);  // not an index: an array that is indexed lies in memory
    const uint32_t low = k == 0 ? words_.w[0] : words_.w[1];
    const uint32_t high = k == 2 ? words_.w[2] : words_.w[3];
    return ((k < 2 ? low : high) >> 8) < dropout_.below ? C(0) : dropout_.kept;
  }

 private:
  const DropWeights<C>& dropout_;
  const RandomKey key_;
  int64_t block_ = -1;
  formula::Words words_{};
};

template <class C>
struct ScoreTile {
  static constexpr int kSize = sizeof(C) == 8 ? 32 : 64;  // rows and columns
  static constexpr int kAcross = kSize / 4;               // threads that share four rows
  static constexpr int kThreads = kAcross * kAcross;
  static constexpr int kDepth = 16;         // columns of operands in shared memory at a time
  static constexpr int kPitch = kSize + 4;  // rows of shared memory begin in different banks
  static constexpr int kOperand = kPitch * kDepth, kScores = kPitch * kSize;

  using Sums = Four<C>[4];  // a thread's

  static __device__ int row() { return static_cast<int>(threadIdx.x) / kAcross * 4; }
  static __device__ int column() { return static_cast<int>(threadIdx.x) % kAcross * 4; }
};

/// Some rows of an operand.
template <class T>
struct TileRows {
  const T* data;
  int64_t stride, first, end;
};

/// sums(i, j) += row i of `a` times row j of `b`, both of `columns`. Rows beyond the end are zeros.
/// `shared` holds two operands; no thread may still read it, and none does afterwards.
template <class T, class C>
__device__ void add_row_products(Four<C> (&sums)[4], const TileRows<T>& a, const TileRows<T>& b,
                                 int64_t columns, C* shared) {
  using Tile = ScoreTile<C>;
  C *left = shared, *right = shared + Tile::kOperand;
  const int t = static_cast<int>(threadIdx.x), depth = t % Tile::kDepth;
  const int row = Tile::row(), column = Tile::column();
  for (int64_t first = 0; first < columns; first += Tile::kDepth) {
    const bool inside = first + depth < columns;
    for (int r = t / Tile::kDepth; r < Tile::kSize; r += Tile::kThreads / Tile::kDepth) {
      const auto read = [&](const TileRows<T>& x) {
        return inside && x.first + r < x.end
                   ? widen(x.data[(x.first + r) * x.stride + first + depth])
                   : C(0);
      };
      left[depth * Tile::kPitch + r] = read(a);
      right[depth * Tile::kPitch + r] = read(b);
    }
    __syncthreads();
#pragma unroll
    for (int d = 0; d < Tile::kDepth; ++d) {
      const auto x = *reinterpret_cast<const Four<C>*>(left + d * Tile::kPitch + row);
      const auto y = *reinterpret_cast<const Four<C>*>(right + d * Tile::kPitch + column);
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[i].at[j] += x.at[i] * y.at[j];
    }
    __syncthreads();
  }
}

/// sums(i, j) += the sum over p of weights(p, i) x(p, first + j): `weights` lie in shared memory,
/// kPitch apart, and are there for all threads. `shared` holds an operand, as above.
template <class T, class C>
__device__ void add_weighted_rows(Four<C> (&sums)[4], const C* weights, const TileRows<T>& x,
                                  int64_t first, int64_t columns, C* shared) {
  using Tile = ScoreTile<C>;
  const int t = static_cast<int>(threadIdx.x), at = t % Tile::kSize;
  const int row = Tile::row(), column = Tile::column();
  for (int p = 0; p < Tile::kSize && x.first + p < x.end; p += Tile::kDepth) {
    for (int r = t / Tile::kSize; r < Tile::kDepth; r += Tile::kThreads / Tile::kSize) {
      const int64_t from = x.first + p + r;
      shared[r * Tile::kPitch + at] =
          from < x.end && first + at < columns ? widen(x.data[from * x.stride + first + at]) : C(0);
    }
    __syncthreads();
#pragma unroll
    for (int d = 0; d < Tile::kDepth; ++d) {
      const auto w = *reinterpret_cast<const Four<C>*>(weights + (p + d) * Tile::kPitch + row);
      const auto y = *reinterpret_cast<const Four<C>*>(shared + d * Tile::kPitch + column);
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[i].at[j] += w.at[i] * y.at[j];
    }
    __syncthreads();
  }
}

/// A thread's sums into rows `first_row`, ... of `to`, columns `first`, ... of `columns`.
template <class T, class C, class Factor>
__device__ void write_rows(T* to, int64_t stride, int64_t first_row, int64_t rows, int64_t first,
                           int64_t columns, const Four<C> (&sums)[4], const Factor& factor) {
  using Tile = ScoreTile<C>;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int64_t row = first_row + Tile::row() + i;
    if (row >= rows) continue;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int64_t column = first + Tile::column() + j;
      if (column < columns) to[row * stride + column] = narrow<T>(sums[i].at[j] * factor(i));
    }
  }
}

/// The blocks of a kernel: tiles of rows x heads of all batches x tiles of an output's columns.
template <class C>
struct TileGrid {
  int64_t tiles, heads, columns;

  TileGrid(int64_t rows, int64_t all_heads, int64_t width)
      : tiles(ceil_div(rows)), heads(all_heads), columns(ceil_div(width)) {}
  static int64_t ceil_div(int64_t size) {
    return (size + ScoreTile<C>::kSize - 1) / ScoreTile<C>::kSize;
  }
  int64_t count() const { return tiles * heads * columns; }
  Grid grid() const {
    return {dim3(static_cast<unsigned>(std::min<int64_t>(count(), INT32_MAX))),
            dim3(ScoreTile<C>::kThreads)};
  }
  /// Calls f(first row, head of all batches, first column) for the tiles of this block.
  template <class F>
  __device__ void each(const F& f) const {
    const int64_t total = tiles * heads * columns;
    for (int64_t at = blockIdx.x; at < total; at += gridDim.x)
      f(at / columns % tiles * ScoreTile<C>::kSize, at / columns / tiles,
        at % columns * ScoreTile<C>::kSize);
  }
};

}  // namespace brim::cuda
