// Matrix products and fully connected layers: by cuBLASLt where it is there and can, else by our
// own kernels. Layers of few rows have a kernel of their own.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <brim/core/tf32.h>

#include "backend/cuda/elementwise/elementwise.cuh"
#include "backend/cuda/gemm/few_rows.cuh"
#include "backend/cuda/gemm/gemm.cuh"
#include "backend/cuda/libraries/blas.h"
#include "backend/fused/fused_linear.h"
#include "backend/kernel.h"
#include "backend/types.h"

namespace brim::cuda {
namespace {

/// An operand of any strides, in elements.
template <class T, class Index_ = int64_t>
struct Matrix {
  using Index = Index_;
  const T* data;
  Index row_stride, stride;  // of rows, and along the sum
  bool along_sum;

  Matrix(const Tensor& x, int64_t of_rows, int64_t along)
      : data(static_cast<const T*>(x.raw())),
        row_stride(of_rows),
        stride(along),
        along_sum(along <= of_rows) {}
  /// Of another Index.
  template <class Other>
  explicit Matrix(const Matrix<T, Other>& x)
      : data(x.data),
        row_stride(static_cast<Index>(x.row_stride)),
        stride(static_cast<Index>(x.stride)),
        along_sum(x.along_sum) {}

  __device__ Index row(Index i) const { return i * row_stride; }
  __device__ Index column(Index p) const { return p * stride; }
  __device__ Compute<T> at(const T* from, Index row, Index column) const {
    return widen(from[row + column]);
  }
};

/// y, with a bias for each column (may be null) and a ReLU.
template <class T, class Index = int64_t>
struct Result {
  T* data;
  Index row_stride, stride;
  const T* bias;
  int64_t bias_stride;
  bool relu;

  struct Column {
    Index offset;
    Compute<T> bias;
  };
  __device__ Column column(Index j) const {
    return {j * stride, bias ? widen(bias[j * bias_stride]) : Compute<T>(0)};
  }
  __device__ void store(T* to, int64_t, Index i, const Column& column, Compute<T> sum) const {
    if (bias) sum += column.bias;
    if (relu && sum < 0) sum = 0;  // NaN stays
    to[i * row_stride + column.offset] = narrow<T>(sum);
  }
};

/// Bias and ReLU of a product that is there already.
template <class T>
__global__ void finish_kernel(Result<T> y, int64_t rows, int64_t columns) {
  begin_kernel();
  for (int64_t at = first_index(); at < rows * columns; at += grid_size()) {
    const int64_t i = at / columns;
    const auto column = y.column(at % columns);
    y.store(y.data, 0, i, column, widen(y.data[i * y.row_stride + column.offset]));
  }
}

/// Nothing where neither the rows nor the columns are contiguous.
std::optional<BlasMatrix> for_blas(const void* data, int64_t rows, int64_t columns,
                                   int64_t row_stride, int64_t stride, int64_t stack) {
  if ((columns == 1 || stride == 1) && (rows == 1 || row_stride >= columns))
    return BlasMatrix{data, rows == 1 ? columns : row_stride, stack, false};
  if ((rows == 1 || row_stride == 1) && (columns == 1 || stride >= rows))
    return BlasMatrix{data, columns == 1 ? rows : stride, stack, true};
  return {};
}

/// Batches as stacks for the library: one axis of them is in a stack, over the others one goes.
struct Stacks {
  static constexpr int64_t kMax = 256;  // calls; more would take longer than they are worth

  explicit Stacks(const DeviceLoop<3>& batches) : loop(batches) {
    for (int i = 1; i < loop.rank; ++i)
      if (loop.size[i] > loop.size[axis]) axis = i;
    if (loop.rank > 0) count = loop.size[axis];
  }
  int64_t calls() const { return loop.numel / count; }
  int64_t stride(int operand) const { return count > 1 ? loop.stride[operand][axis] : 0; }
  /// Of the first matrix of a call's stack.
  int64_t offset(int64_t call, int operand) const {
    int64_t at = 0;
    for (int i = 0; i < loop.rank; ++i) {
      if (i == axis) continue;
      at += call % loop.size[i] * loop.stride[operand][i];
      call /= loop.size[i];
    }
    return at;
  }

  DeviceLoop<3> loop;
  int axis = 0;
  int64_t count = 1;
};

/// Whether the library has done the product; `own` queues it by our own kernels.
template <class T>
bool multiply_by_blas(const Context& context, const Matrix<T>& a, const Matrix<T>& b,
                      const Result<T>& y, int64_t m, int64_t n, int64_t k,
                      const DeviceLoop<3>& batches, const Work& own) {
  if (m == 0 || n == 0 || k == 0 || batches.numel == 0) return false;
  const Stacks stacks(batches);
  if (stacks.calls() > Stacks::kMax) return false;
  auto left = for_blas(a.data, m, k, a.row_stride, a.stride, stacks.stride(1));
  auto right = for_blas(b.data, k, n, b.stride, b.row_stride, stacks.stride(2));
  auto result = for_blas(y.data, m, n, y.row_stride, y.stride, stacks.stride(0));
  if (!left || !right || !result) return false;
  const bool bias_fits = y.bias && y.bias_stride == 1 && !std::is_same_v<T, double> &&
                         !result->transposed && is_aligned(y.bias, 16);
  BlasProduct product{dtype_of<T>, Tf32::allowed(), m, n, k, stacks.count, *left, *right, *result};
  if (result->transposed) {  // y^T = b^T a^T
    std::swap(product.m, product.n);
    std::swap(product.a, product.b);
    for (BlasMatrix* matrix : {&product.a, &product.b, &product.y})
      matrix->transposed = !matrix->transposed;
  }
  if (bias_fits) product.bias = y.bias, product.relu = y.relu;
  BlasDone done = BlasDone::nothing;
  const BlasProduct first = product;
  for (int64_t call = 0; call < stacks.calls(); ++call) {
    const auto shift = [&](const void* data, int operand) {
      return static_cast<const T*>(data) + stacks.offset(call, operand);
    };
    product.y.data = shift(first.y.data, 0);
    product.a.data = shift(first.a.data, result->transposed ? 2 : 1);
    product.b.data = shift(first.b.data, result->transposed ? 1 : 2);
    // Where one call is only a part of it, the two do not compare.
    done = blas_product(context, product, stacks.calls() == 1 ? own : nullptr);
    if (done == BlasDone::nothing) return false;
  }
  Result<T> rest = y;
  if (bias_fits) rest.bias = nullptr;
  if (bias_fits && done == BlasDone::all) rest.relu = false;
  if (rest.bias || rest.relu) launch(context, &finish_kernel<T>, grid_for(m * n), rest, m, n);
  return true;
}

/// y(i, j) = sum over p of a(i, p) b(j, p), for each of `batches`, by our own kernels.
template <class T>
void own_multiply(const Context& context, const Matrix<T>& a, const Matrix<T>& b,
                  const Result<T>& y, int64_t m, int64_t n, int64_t k,
                  const DeviceLoop<3>& batches) {
  if (!fits_32_bits({m, k}, {a.row_stride, a.stride}) ||
      !fits_32_bits({n, k}, {b.row_stride, b.stride}) ||
      !fits_32_bits({m, n}, {y.row_stride, y.stride}))
    return gemm<Compute<T>>(context, a, b, y, m, n, k, batches);
  using Short = Matrix<T, int32_t>;
  const Result<T, int32_t> out{y.data,
                               static_cast<int32_t>(y.row_stride),
                               static_cast<int32_t>(y.stride),
                               y.bias,
                               y.bias_stride,
                               y.relu};
  gemm<Compute<T>>(context, Short(a), Short(b), out, m, n, k, batches);
}

/// As above, by the library where it can.
template <class T>
void multiply(const Context& context, const Matrix<T>& a, const Matrix<T>& b, const Result<T>& y,
              int64_t m, int64_t n, int64_t k, const DeviceLoop<3>& batches) {
  const auto own = [&](const Context& at) { own_multiply(at, a, b, y, m, n, k, batches); };
  if (!multiply_by_blas(context, a, b, y, m, n, k, batches, own)) own(context);
}

/// a: (B.., M, K), b: (B.., K, N), y: (B.., M, N), of any strides.
template <class T>
void matmul(const Context& context, const Tensor& a, const Tensor& b, Tensor& y) {
  const int r = y.rank();
  const Shape& shape = y.shape();
  Shape batch;
  std::array<Strides, 3> strides;
  for (int i = 0; i < r - 2; ++i) {
    batch.push_back(shape[i]);
    strides[0].push_back(y.strides()[i]);
    strides[1].push_back(a.strides()[i]);
    strides[2].push_back(b.strides()[i]);
  }
  const Result<T> out{
      static_cast<T*>(y.raw()), y.strides()[r - 2], y.strides()[r - 1], nullptr, 0, false};
  multiply<T>(context, Matrix<T>(a, a.strides()[r - 2], a.strides()[r - 1]),
              Matrix<T>(b, b.strides()[r - 1], b.strides()[r - 2]), out, shape[r - 2], shape[r - 1],
              a.shape()[r - 1], DeviceLoop<3>(backend::make_loop<3>(batch, strides)));
}

/// x: (N, I), weight: (O, I), bias: (O) or undefined, y: (N, O).
template <class T, bool kRelu>
void linear(const Context& context, const Tensor& x, const Tensor& weight, const Tensor& bias,
            Tensor& y) {
  const int64_t rows = x.shape()[0], inputs = x.shape()[1], outputs = y.shape()[1];
  if (backend::few_rows_are_fast(rows, inputs, outputs) && y.numel() > 0 && y.is_contiguous() &&
      (inputs == 1 || (x.strides()[1] == 1 && weight.strides()[1] == 1)) &&
      (!bias.defined() || bias.is_contiguous()))
    return queue_few_rows<T>(
        context,
        {static_cast<const T*>(x.raw()), static_cast<const T*>(weight.raw()),
         bias.defined() ? static_cast<const T*>(bias.raw()) : nullptr, static_cast<T*>(y.raw()),
         rows, inputs, outputs, x.strides()[0], weight.strides()[0], kRelu});
  const Result<T> out{static_cast<T*>(y.raw()),
                      y.strides()[0],
                      y.strides()[1],
                      bias.defined() ? static_cast<const T*>(bias.raw()) : nullptr,
                      bias.defined() ? bias.strides()[0] : 0,
                      kRelu};
  multiply<T>(context, Matrix<T>(x, x.strides()[0], x.strides()[1]),
              Matrix<T>(weight, weight.strides()[0], weight.strides()[1]), out, y.shape()[0],
              y.shape()[1], x.shape()[1], DeviceLoop<3>(backend::make_loop<3>({}, {})));
}

const bool registered =
    backend::for_each_type(backend::Floats{}, []<class T>(std::type_identity<T>) {
      constexpr DeviceKind cuda = DeviceKind::cuda;
      backend::register_kernel("matmul", cuda, dtype_of<T>, &matmul<T>);
      backend::register_kernel("linear", cuda, dtype_of<T>, &linear<T, false>);
      backend::register_kernel("linear_relu", cuda, dtype_of<T>, &linear<T, true>);
    });

}  // namespace
}  // namespace brim::cuda
