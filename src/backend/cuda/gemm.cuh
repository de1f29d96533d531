// Matrix products over anything that can be addressed: y(i, j) = sum over p of a(i, p) b(j, p).
// A block computes a tile of y; tiles of a and b go through shared memory, the next ones are
// fetched while the present ones are multiplied. Where y has few tiles the sum is cut into parts,
// which are added in order: the result repeats itself, bit for bit, on every GPU.
//
// An operand:
//   Row row(int64_t offset, int64_t i)    its row i; offset: of the product in a stack, in elements
//   Column column(int64_t p)              its position p along the sum
//   Compute<T> at(Row, Column)
//   bool along_sum                        neighbours in memory lie along p, not along i
// The output:
//   Column column(int64_t j)
//   void store(int64_t product, int64_t offset, int64_t i, Column, Compute<T> sum)
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "backend/cuda/launch.cuh"
#include "backend/cuda/loop.cuh"
#include "backend/cuda/number.cuh"

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
using LargeTile = Tile<128, 128, 8, 2, 2>;
using SmallTile = Tile<32, 32, 16, 1, 1>;

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

 public:
  static constexpr int kSize = kPitch * kDepth;

  __device__ Share(const Operand& operand, int64_t offset, int64_t first, int64_t rows)
      : operand_(operand) {
    for (int s = 0; s < kCount; ++s) {
      inside_[s] = first + row(s) < rows;
      row_[s] = operand.row(offset, inside_[s] ? first + row(s) : first);
    }
  }
  /// Positions from `at`; zeros from `end`.
  __device__ void fetch(int64_t at, int64_t end) {
    if (operand_.along_sum) {
      const bool any = at + depth(0) < end;
      const auto column = operand_.column(any ? at + depth(0) : at);
#pragma unroll
      for (int s = 0; s < kCount; ++s)
        value_[s] = any && inside_[s] ? operand_.at(row_[s], column) : C(0);
    } else {
#pragma unroll
      for (int s = 0; s < kCount; ++s) {
        const int64_t p = at + depth(s);
        value_[s] = p < end && inside_[s] ? operand_.at(row_[s], operand_.column(p)) : C(0);
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

  using Row = decltype(std::declval<const Operand&>().row(0, 0));
  const Operand& operand_;
  Row row_[kCount];
  bool inside_[kCount];
  C value_[kCount];
};

template <class Tile, class C, class A, class B, class Out>
__global__ void __launch_bounds__(Tile::kThreads, (sizeof(C) <= 4 ? 512 : 256) / Tile::kThreads)
    gemm_kernel(A a, B b, Out out, Products<C> products) {
  using ShareA = Share<Tile, Tile::kRows, A, C>;
  using ShareB = Share<Tile, Tile::kColumns, B, C>;
  constexpr int kRowPacks = Tile::kRowPacks, kColumnPacks = Tile::kColumnPacks;
  alignas(16) __shared__ C shared_a[2][ShareA::kSize];
  alignas(16) __shared__ C shared_b[2][ShareB::kSize];
  const int t = static_cast<int>(threadIdx.x);
  const int row = t / Tile::kThreadColumns * 4, column = t % Tile::kThreadColumns * 4;

  const int64_t across = (products.n + Tile::kColumns - 1) / Tile::kColumns;
  const int64_t down = (products.m + Tile::kRows - 1) / Tile::kRows;
  const int64_t total = across * down * products.parts * products.batches.numel;
  for (int64_t tile = blockIdx.x; tile < total; tile += gridDim.x) {
    const int64_t first_column = tile % across * Tile::kColumns;
    const int64_t first_row = tile / across % down * Tile::kRows;
    const int64_t part = tile / (across * down) % products.parts;
    const int64_t batch = tile / (across * down * products.parts);
    int64_t offset[3];
    products.batches.offsets(batch, offset);
    ShareA share_a(a, offset[1], first_row, products.m);
    ShareB share_b(b, offset[2], first_column, products.n);

    Four<C> sum[4 * kRowPacks][kColumnPacks] = {};
    const int64_t begin = part * products.part;
    const int64_t end = begin + products.part < products.k ? begin + products.part : products.k;
    if (begin < end) {
      share_a.fetch(begin, end), share_b.fetch(begin, end);
      share_a.put(shared_a[0]), share_b.put(shared_b[0]);
    }
    __syncthreads();
    int buffer = 0;
    for (int64_t at = begin; at < end; at += Tile::kDepth, buffer ^= 1) {
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

#pragma unroll
    for (int c = 0; c < 4 * kColumnPacks; ++c) {
      const int64_t j = first_column + c / 4 * 4 * Tile::kThreadColumns + column + c % 4;
      if (j >= products.n) continue;
      const auto to = out.column(j);
#pragma unroll
      for (int r = 0; r < 4 * kRowPacks; ++r) {
        const int64_t i = first_row + r / 4 * 4 * Tile::kThreadRows + row + r % 4;
        if (i >= products.m) continue;
        const C value = sum[r][c / 4].at[c % 4];
        if (products.parts == 1)
          out.store(batch, offset[0], i, to, value);
        else
          products
              .sums[((part * products.batches.numel + batch) * products.m + i) * products.n + j] =
              value;
      }
    }
  }
}

/// Adds the parts of each sum, first to last.
template <class C, class Out>
__global__ void add_parts_kernel(Out out, Products<C> products) {
  const int64_t matrix = products.m * products.n, count = products.batches.numel * matrix;
  for (int64_t at = first_index(); at < count; at += grid_size()) {
    C sum = products.sums[at];
    for (int64_t part = 1; part < products.parts; ++part) sum += products.sums[part * count + at];
    int64_t offset[3];
    products.batches.offsets(at / matrix, offset);
    out.store(at / matrix, offset[0], at % matrix / products.n, out.column(at % products.n), sum);
  }
}

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
  const Grid grid{dim3(static_cast<unsigned>(std::min<int64_t>(tiles * products.parts, INT32_MAX))),
                  dim3(Tile::kThreads)};
  launch_blocks(context, &gemm_kernel<Tile, C, A, B, Out>, grid, a, b, out, products);
  if (products.parts > 1)
    launch(context, &add_parts_kernel<C, Out>, grid_for(numbers), out, products);
}

/// y(i, j) = sum over p of a(i, p) b(j, p), for i < m, j < n, p < k, once for each of `batches`,
/// whose operands are y, a and b. Sums of no terms are 0.
template <class C, class A, class B, class Out>
void gemm(const Context& context, const A& a, const B& b, const Out& out, int64_t m, int64_t n,
          int64_t k, const DeviceLoop<3>& batches) {
  if (m == 0 || n == 0 || batches.numel == 0) return;
  const Products<C> products{.m = m, .n = n, .k = k, .batches = batches};
  const int64_t large = m / LargeTile::kRows * (n / LargeTile::kColumns) * batches.numel;
  if (large >= 128)
    gemm_tiles<LargeTile, C>(context, a, b, out, products);
  else
    gemm_tiles<SmallTile, C>(context, a, b, out, products);
}

}  // namespace brim::cuda
