// matmul on the CPU: products of strided matrices through gemm.
#include <optional>

#include "backend/cpu/elementwise/loop.h"
#include "backend/cpu/elementwise/through_f32.h"
#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/gemm/gemm_bf16.h"
#include "backend/cpu/runtime/scratch.h"
#include "backend/kernel.h"

namespace brim::cpu {
namespace {

template <class T>
const T* address(const Tensor& x) {
  return static_cast<const T*>(x.raw());
}

/// Calls product(m, n, k, a, b, y, ldy) for each matrix of y, whose strides are any of which one of
/// the last two is 1. Stacks are shared among threads, unless they are to go `in_turn`.
template <class T, class F>
void for_each_product(const Tensor& a, const Tensor& b, Tensor& y, bool in_turn, const F& product) {
  const int r = y.rank();
  const int64_t m = y.shape()[r - 2], n = y.shape()[r - 1], k = a.shape()[r - 1];
  const int64_t row = y.strides()[r - 2], column = y.strides()[r - 1];
  const auto matrix = [r](const Tensor& x, int64_t at) {
    return Matrix<T>{address<T>(x) + at, x.strides()[r - 2], x.strides()[r - 1]};
  };
  const auto one = [&](const Matrix<T>& left, const Matrix<T>& right, T* to) {
    if (column == 1 || n == 1) {
      product(m, n, k, left, right, to, row);
    } else {  // y^T = b^T a^T
      const auto transposed = [](const Matrix<T>& x) { return Matrix<T>{x.data, x.col, x.row}; };
      product(n, m, k, transposed(right), transposed(left), to, column);
    }
  };
  T* const to = static_cast<T*>(y.raw());
  if (r == 2) return one(matrix(a, 0), matrix(b, 0), to);
  if (m == 0 || n == 0) return;
  // The stack: one product per position of the leading axes.
  Shape batch;
  std::array<Strides, 3> strides;
  for (int i = 0; i < r - 2; ++i) {
    batch.push_back(y.shape()[i]);
    strides[0].push_back(y.strides()[i]);
    strides[1].push_back(a.strides()[i]);
    strides[2].push_back(b.strides()[i]);
  }
  const Loop<3> loop = make_loop<3>(batch, strides);
  const auto products = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto at = loop.offsets(i);
      one(matrix(a, at[1]), matrix(b, at[2]), to + at[0]);
    }
  };
  if (in_turn) return products(0, loop.numel);
  const int64_t grain = std::max<int64_t>(1, (int64_t{1} << 20) / std::max<int64_t>(1, m * n * k));
  parallel_for(loop.numel, grain, products);
}

template <class T>
void matmul(const Context&, const Tensor& a, const Tensor& b, Tensor& y) {
  for_each_product<T>(
      a, b, y, false,
      [](int64_t m, int64_t n, int64_t k, const Matrix<T>& left, const Matrix<T>& right, T* to,
         int64_t ld) { gemm(m, n, k, left, right, false, to, ld); });
}

void matmul_bf16(const Context& context, const Tensor& a, const Tensor& b, Tensor& y) {
  const int r = y.rank();
  const int64_t m = y.shape()[r - 2], n = y.shape()[r - 1], k = a.shape()[r - 1];
  if (!multiplies_bf16())
    return ThroughF32<&matmul<float>, Outputs::written>::run(context, a, b, y);
  const int64_t sums = bf16_sums(m, n, k);
  // Threads share the products of a stack, each with sums of its own, or where there are too few
  // of them, the parts of one product after the other.
  const int64_t products = sums > 0 ? y.numel() / sums : 0;
  const bool in_turn = sums > 0 && products < 2 * num_threads();
  std::optional<PartScratch> scratch;
  if (sums > 0)
    scratch.emplace(context, in_turn ? 1 : products, 1, static_cast<size_t>(sums) * sizeof(float));
  for_each_product<BFloat16>(
      a, b, y, in_turn,
      [&](int64_t rows, int64_t columns, int64_t depth, const Matrix<BFloat16>& left,
          const Matrix<BFloat16>& right, BFloat16* to, int64_t ld) {
        if (!scratch) return gemm_bf16(rows, columns, depth, left, right, to, ld, nullptr);
        const PartScratch::Slot slot(*scratch);
        gemm_bf16(rows, columns, depth, left, right, to, ld, slot.as<float>());
      });
}

const bool registered =
    backend::register_kernel("matmul", DeviceKind::cpu, DType::f32, &matmul<float>) &&
    backend::register_kernel("matmul", DeviceKind::cpu, DType::f64, &matmul<double>) &&
    backend::register_kernel("matmul", DeviceKind::cpu, DType::f16,
                             &ThroughF32<&matmul<float>, Outputs::written>::run) &&
    backend::register_kernel("matmul", DeviceKind::cpu, DType::bf16, &matmul_bf16);

}  // namespace
}  // namespace brim::cpu
