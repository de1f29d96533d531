// Matrix products over anything that can be addressed: y(i, j) = sum over p of a(i, p) b(j, p).
// A block computes a tile of y; tiles of a and b go through shared memory, the next ones are
// fetched while the present ones are multiplied. Where y has few tiles the sum is cut into parts,
// which are added in order: the result repeats itself, bit for bit, on every GPU.
//
// An operand:
//   Index                                 what its positions and offsets are counted in
//   const T* data
//   Row row(Index i)                      its row i
//   Column column(Index p)                its position p along the sum
//   Compute<T> at(const T* data, Row, Column)
//   bool along_sum                        neighbours in memory lie along p, not along i
// The output:
//   T* data
//   Column column(Index j)
//   void store(T* data, int64_t product, Index i, Column, Compute<T> sum)
// `data` as they are given: that of the product in the stack. All three have one Index, 32 bits
// wide wherever a product's sizes and operands allow it: it makes half the work and half the
// registers of what a thread does for each number that it fetches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/number.cuh"
#include "backend/cuda/elementwise/loop.cuh"
#include "backend/cuda/reduce/parts.cuh"

namespace brim::cuda {

/// What a block computes: kRows x kColumns of y, kDepth positions of the sum at a time. A thread
/// owns kRowPacks x kColumnPacks squares of 4 x 4.
template <int Rows, int Columns, int Depth, int RowPacks, int ColumnPacks>
struct Tile {
  static constexpr int kRows = Rows, kColumns = Columns, kDepth = Depth;
  static constexpr int kRowPacks = RowPacks, kColumnPacks = ColumnPacks;
  static constexpr int kThreadRows = Rows / (4 * RowPacks);
  static constexpr int kThreadColumns = Columns / (4 * ColumnPacks);
  static constexpr int kThreads = kThreadRows * kThreadColumns;
};
using LargeTile = Tile<128, 64, 8, 2, 1>;
using SmallTile = Tile<32, 32, 16, 1, 1>;
/// Where a product has so many large tiles, a GPU has enough to do with them. Emulated, all take
/// them whose sizes allow it, so that tests need few.
#if defined(__CUDACC__)
constexpr int64_t kLargeFrom = 256;
#else
constexpr int64_t kLargeFrom = 1;
#endif

template <class C>
struct alignas(16) Four {
  C at[4];
};

/// The sizes of a stack of products. a: (batches, m, k), b: (batches, n, k), y: (batches, m, n).
template <class C>
struct Products {
  int64_t m, n, k;
  DeviceLoop<3> batches;  // offsets of y, a and b in elements
  int64_t parts = 1;      // of each sum
  int64_t part = 0;       // positions in a part
  C* sums = nullptr;      // (parts, batches, m, n) where there are several
};

/// A thread's share of an operand's tiles, on its way from global to shared memory.
template <class Tile, int Rows, class Operand, class C>
class Share {
  static constexpr int kThreads = Tile::kThreads, kDepth = Tile::kDepth;
  static constexpr int kCount = Rows * kDepth / kThreads;
  static constexpr int kPitch = Rows + 4;  // rows of shared memory begin in different banks
  static_assert(kThreads % Rows == 0 && kThreads % kDepth == 0);
  using Index = typename Operand::Index;
  using Data = decltype(Operand::data);
  using Row = decltype(std::declval<const Operand&>().row(0));

 public:
  static constexpr int kSize = kPitch * kDepth;

  /// Rows beyond the last are read as the tile's first: their products are not stored.
  __device__ Share(const Operand& operand, int64_t offset, Index first, Index rows)
      : operand_(operand), data_(operand.data + offset) {
#pragma unroll
    for (int s = 0; s < kCount; ++s) {
      const Index i = first + row(s);
      row_[s] = operand.row(i < rows ? i : first);
    }
  }
  /// Positions from `at`; zeros from `end`.
  __device__ void fetch(Index at, Index end) {
    if (operand_.along_sum) {
      const bool any = at + depth(0) < end;
      const auto column = operand_.column(any ? at + depth(0) : at);
#pragma unroll
      for (int s = 0; s < kCount; ++s) value_[s] = any ? operand_.at(data_, row_[s], column) : C(0);
    } else {
#pragma unroll
      for (int s = 0; s < kCount; ++s) {
        const Index p = at + depth(s);
        value_[s] = p < end ? operand_.at(data_, row_[0], operand_.column(p)) : C(0);
      }
    }
  }
  __device__ void put(C* shared) const {
#pragma unroll
    for (int s = 0; s < kCount; ++s) shared[depth(s) * kPitch + row(s)] = value_[s];
  }
  /// Four rows at one position of a tile.
  static __device__ Four<C> four(const C* shared, int depth, int row) {
    return *reinterpret_cast<const Four<C>*>(shared + depth * kPitch + row);
  }

 private:
  __device__ int row(int s) const {
    const int t = static_cast<int>(threadIdx.x);
    return operand_.along_sum ? t / kDepth + s * (kThreads / kDepth) : t % Rows;
  }
  __device__ int depth(int s) const {
    const int t = static_cast<int>(threadIdx.x);
    return operand_.along_sum ? t % kDepth : t / Rows + s * (kThreads / Rows);
  }

  const Operand& operand_;
  const Data data_;
  Row row_[kCount];
  C value_[kCount];
};

template <class Tile, class C, class A, class B, class Out>
__global__ void __launch_bounds__(Tile::kThreads,
                                  (sizeof(C) + sizeof(typename A::Index) <= 8 ? 512 : 256) /
                                      Tile::kThreads)
    gemm_kernel(A a, B b, Out out, Products<C> products) {
  begin_kernel();
  using ShareA = Share<Tile, Tile::kRows, A, C>;
  using ShareB = Share<Tile, Tile::kColumns, B, C>;
  using Index = typename A::Index;
  using Unsigned = std::make_unsigned_t<Index>;
  static_assert(std::is_same_v<Index, typename B::Index>);
  constexpr int kRowPacks = Tile::kRowPacks, kColumnPacks = Tile::kColumnPacks;
  alignas(16) __shared__ C shared_a[2][ShareA::kSize];
  alignas(16) __shared__ C shared_b[2][ShareB::kSize];
  const int t = static_cast<int>(threadIdx.x);
  const int row = t / Tile::kThreadColumns * 4, column = t % Tile::kThreadColumns * 4;

  const Index m = static_cast<Index>(products.m), n = static_cast<Index>(products.n);
  const Unsigned across = static_cast<Unsigned>((n + Tile::kColumns - 1) / Tile::kColumns);
  const Unsigned down = static_cast<Unsigned>((m + Tile::kRows - 1) / Tile::kRows);
  const Unsigned parts = static_cast<Unsigned>(products.parts), total = across * down * parts;
  const int64_t batches = products.batches.numel;
  int64_t batch = blockIdx.y;
  for (Unsigned tile = blockIdx.x; batch < batches;) {
    const Index first_column = static_cast<Index>(tile % across * Tile::kColumns);
    const Index first_row = static_cast<Index>(tile / across % down * Tile::kRows);
    const int64_t part = tile / (across * down);
    int64_t offset[3];
    products.batches.offsets(batch, offset);
    ShareA share_a(a, offset[1], first_row, m);
    ShareB share_b(b, offset[2], first_column, n);

    Four<C> sum[4 * kRowPacks][kColumnPacks] = {};
    const Index begin = static_cast<Index>(part * products.part);
    const Index end =
        static_cast<Index>(std::min(part * products.part + products.part, products.k));
    if (begin < end) {
      share_a.fetch(begin, end), share_b.fetch(begin, end);
      share_a.put(shared_a[0]), share_b.put(shared_b[0]);
    }
    __syncthreads();
    int buffer = 0;
    for (Index at = begin; at < end; at += Tile::kDepth, buffer ^= 1) {
      const bool more = at + Tile::kDepth < end;
      if (more) share_a.fetch(at + Tile::kDepth, end), share_b.fetch(at + Tile::kDepth, end);
#pragma unroll
      for (int d = 0; d < Tile::kDepth; ++d) {
        Four<C> left[kRowPacks], right[kColumnPacks];
        for (int i = 0; i < kRowPacks; ++i)
          left[i] = ShareA::four(shared_a[buffer], d, i * 4 * Tile::kThreadRows + row);
        for (int j = 0; j < kColumnPacks; ++j)
          right[j] = ShareB::four(shared_b[buffer], d, j * 4 * Tile::kThreadColumns + column);
#pragma unroll
        for (int i = 0; i < 4 * kRowPacks; ++i)
#pragma unroll
          for (int j = 0; j < 4 * kColumnPacks; ++j)
            sum[i][j / 4].at[j % 4] += left[i / 4].at[i % 4] * right[j / 4].at[j % 4];
      }
      if (more) share_a.put(shared_a[buffer ^ 1]), share_b.put(shared_b[buffer ^ 1]);
      __syncthreads();
    }

    const auto to_y = out.data + offset[0];
    const int64_t at_part = (part * batches + batch) * products.m * n;
#pragma unroll
    for (int c = 0; c < 4 * kColumnPacks; ++c) {
      const Index j = first_column + c / 4 * 4 * Tile::kThreadColumns + column + c % 4;
      if (j >= n) continue;
      const auto to = out.column(j);
#pragma unroll
      for (int r = 0; r < 4 * kRowPacks; ++r) {
        const Index i = first_row + r / 4 * 4 * Tile::kThreadRows + row + r % 4;
        if (i >= m) continue;
        const C value = sum[r][c / 4].at[c % 4];
        if (parts == 1)
          out.store(to_y, batch, i, to, value);
        else
          products.sums[at_part + static_cast<int64_t>(i) * n + j] = value;
      }
    }
    tile += gridDim.x;  // at most as many as there are tiles and parts
    if (tile >= total) tile = blockIdx.x, batch += gridDim.y;
  }
}

/// Stores a sum whose parts were added; the sums of a stack lie one after the other.
template <class C, class Out, class Index>
struct StoreSum {
  Out out;
  DeviceLoop<3> batches;
  int64_t matrix, columns;

  __device__ void operator()(int64_t at, C sum) const {
    const int64_t batch = at / matrix;
    int64_t offset[3];
    batches.offsets(batch, offset);
    const int64_t i = at % matrix / columns, j = at % columns;
    out.store(out.data + offset[0], batch, static_cast<Index>(i), out.column(static_cast<Index>(j)),
              sum);
  }
};

template <class Tile, class C, class A, class B, class Out>
void gemm_tiles(const Context& context, const A& a, const B& b, const Out& out,
                Products<C> products) {
  const auto ceil_div = [](int64_t x, int64_t by) { return (x + by - 1) / by; };
  const int64_t tiles = ceil_div(products.m, Tile::kRows) * ceil_div(products.n, Tile::kColumns) *
                        products.batches.numel;
  // Parts of 128 positions at least, as many as give a large GPU two blocks per multiprocessor.
  constexpr int64_t kBlocks = 264, kPart = 128;
  const int64_t parts =
      std::clamp<int64_t>(kBlocks / tiles, 1, std::max<int64_t>(1, products.k / kPart));
  if (products.k > 0) {
    products.part = ceil_div(ceil_div(products.k, parts), Tile::kDepth) * Tile::kDepth;
    products.parts = ceil_div(products.k, products.part);
  }
  const int64_t numbers = products.batches.numel * products.m * products.n;
  std::optional<Workspace> sums;
  if (products.parts > 1) {
    sums.emplace(static_cast<size_t>(products.parts * numbers) * sizeof(C), context.stream,
                 context.scratch);
    products.sums = sums->as<C>();
  }
  const int64_t blocks = tiles / products.batches.numel * products.parts;
  const Grid grid{dim3(static_cast<unsigned>(std::min<int64_t>(blocks, INT32_MAX)),
                       static_cast<unsigned>(std::min(products.batches.numel, kMaxBlocks))),
                  dim3(Tile::kThreads)};
  launch_blocks(context, &gemm_kernel<Tile, C, A, B, Out>, grid, a, b, out, products);
  using Index = typename A::Index;
  if (products.parts > 1)
    add_parts(context, static_cast<const C*>(products.sums), products.parts, numbers,
              StoreSum<C, Out, Index>{out, products.batches, products.m * products.n, products.n});
}

/// y(i, j) = sum over p of a(i, p) b(j, p), for i < m, j < n, p < k, once for each of `batches`,
/// whose operands are y, a and b. Sums of no terms are 0.
template <class C, class A, class B, class Out>
void gemm(const Context& context, const A& a, const B& b, const Out& out, int64_t m, int64_t n,
          int64_t k, const DeviceLoop<3>& batches) {
  if (m == 0 || n == 0 || batches.numel == 0) return;
  const Products<C> products{.m = m, .n = n, .k = k, .batches = batches};
  // What takes 64 bits is rare: it has no large tile.
  if constexpr (std::is_same_v<typename A::Index, int32_t>) {
    const int64_t large = m / LargeTile::kRows * (n / LargeTile::kColumns) * batches.numel;
    if (large >= kLargeFrom) return gemm_tiles<LargeTile, C>(context, a, b, out, products);
  }
  gemm_tiles<SmallTile, C>(context, a, b, out, products);
}

}  // namespace brim::cuda
