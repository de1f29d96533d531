// matmul on the CPU: products of strided matrices through gemm.
#include "backend/cpu/elementwise/loop.h"
#include "backend/cpu/elementwise/through_f32.h"
#include "backend/cpu/gemm/gemm.h"
#include "backend/kernel.h"

namespace brim::cpu {
namespace {

template <class T>
const T* address(const Tensor& x) {
  return static_cast<const T*>(x.raw());
}

/// y of any strides, of which one of the last two is 1.
template <class T>
void matmul(const Context&, const Tensor& a, const Tensor& b, Tensor& y) {
  const int r = y.rank();
  const int64_t m = y.shape()[r - 2], n = y.shape()[r - 1], k = a.shape()[r - 1];
  const int64_t row = y.strides()[r - 2], column = y.strides()[r - 1];
  const auto matrix = [r](const Tensor& x, int64_t at) {
    return Matrix<T>{address<T>(x) + at, x.strides()[r - 2], x.strides()[r - 1]};
  };
  const auto product = [&](const Matrix<T>& left, const Matrix<T>& right, T* to) {
    if (column == 1 || n == 1) {
      gemm(m, n, k, left, right, false, to, row);
    } else {  // y^T = b^T a^T
      const auto transposed = [](const Matrix<T>& x) { return Matrix<T>{x.data, x.col, x.row}; };
      gemm(n, m, k, transposed(right), transposed(left), false, to, column);
    }
  };
  T* const to = static_cast<T*>(y.raw());
  if (r == 2) return product(matrix(a, 0), matrix(b, 0), to);
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
  const int64_t grain = std::max<int64_t>(1, (int64_t{1} << 20) / std::max<int64_t>(1, m * n * k));
  parallel_for(loop.numel, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto at = loop.offsets(i);
      product(matrix(a, at[1]), matrix(b, at[2]), to + at[0]);
    }
  });
}

const bool registered =
    backend::register_kernel("matmul", DeviceKind::cpu, DType::f32, &matmul<float>) &&
    backend::register_kernel("matmul", DeviceKind::cpu, DType::f64, &matmul<double>) &&
    register_through_f32<&matmul<float>>("matmul");

}  // namespace
}  // namespace brim::cpu
