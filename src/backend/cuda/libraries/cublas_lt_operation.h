// How cuBLASLt is told of a product: layouts, precision, epilogue, and what the choice of an
// algorithm depends on. Its matrices are column-major: the product asked for is y^T = b^T a^T,
// whose operands are the row-major ones as they lie in memory.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "backend/cuda/libraries/blas.h"
#include "backend/cuda/libraries/cublas_lt_library.h"
#include "backend/cuda/libraries/measure.h"
#include "core/hash.h"

namespace brim::cuda::blas {

inline cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return CUDA_R_64F;
    case DType::f16:
      return CUDA_R_16F;
    case DType::bf16:
      return CUDA_R_16BF;
    default:
      return CUDA_R_32F;
  }
}

inline cublasComputeType_t compute_type(const BlasProduct& p) {
  if (p.dtype == DType::f64) return CUBLAS_COMPUTE_64F;
  // The default for f32 multiplies in full f32.
  return p.dtype == DType::f32 && p.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

/// The largest power of two that divides an address, up to 16: what the widest access needs, and
/// no more, so that where a tensor happens to lie does not decide on its algorithm.
inline uint32_t alignment(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data) | 16;
  return static_cast<uint32_t>(address & (~address + 1));
}

/// All that an algorithm depends on.
using Key = std::array<int64_t, 19>;
inline Key key_of(const BlasProduct& p) {
  return {static_cast<int64_t>(p.dtype),
          static_cast<int64_t>(compute_type(p)),
          p.m,
          p.n,
          p.k,
          p.count,
          p.a.leading,
          p.a.stack,
          p.a.transposed,
          p.b.leading,
          p.b.stack,
          p.b.transposed,
          p.y.leading,
          p.y.stack,
          alignment(p.a.data),
          alignment(p.b.data),
          alignment(p.y.data),
          p.bias ? alignment(p.bias) : 0,
          p.relu};
}

/// The key as text, for the file of choices.
inline std::string problem_of(const BlasProduct& p) {
  std::string text =
      fmt::format("matmul {}{}", name(p.dtype), p.dtype == DType::f32 && p.tf32 ? " tf32" : "");
  for (const int64_t number : key_of(p)) text += fmt::format(" {}", number);
  return text;
}

/// Multiply-adds.
inline double work_of(const BlasProduct& p) {
  return static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) *
         static_cast<double>(p.count);
}

/// An algorithm, and how to find it again in another run.
struct Algorithm {
  cublasLtMatmulAlgo_t algo{};
  size_t workspace = 0;

  std::string name() const { return fmt::format("{:016x}", xxh64(algo.data, sizeof(algo.data))); }
};

/// How a product is computed.
struct Operation {
  MatmulDesc product;
  Layout a, b, y;
  Algorithm algorithm;
  BlasDone done = BlasDone::nothing;  // by this operation
  bool relu = false;                  // in the epilogue
  NoRoom no_room;
};

template <class V>
void set(const MatmulDesc& desc, cublasLtMatmulDescAttributes_t what, const V& value) {
  check(library().desc_set(desc.get(), what, &value, sizeof(value)),
        "cublasLtMatmulDescSetAttribute");
}

/// The layout of a matrix as cuBLASLt sees it: its contiguous rows are columns.
inline Layout layout(DType dtype, const BlasMatrix& m, int64_t rows, int64_t columns,
                     int64_t count) {
  if (m.transposed) std::swap(rows, columns);
  cublasLtMatrixLayout_t made = nullptr;
  check(library().layout_create(&made, type_of(dtype), static_cast<uint64_t>(columns),
                                static_cast<uint64_t>(rows), m.leading),
        "cublasLtMatrixLayoutCreate");
  Layout result(made);
  const auto n = static_cast<int32_t>(count);
  check(library().layout_set(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &n, sizeof(n)),
        "cublasLtMatrixLayoutSetAttribute");
  check(library().layout_set(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &m.stack,
                             sizeof(m.stack)),
        "cublasLtMatrixLayoutSetAttribute");
  return result;
}

/// All of an operation but the algorithm.
inline Operation describe(const BlasProduct& p) {
  Operation r;
  cublasLtMatmulDesc_t made = nullptr;
  check(library().desc_create(&made, compute_type(p),
                              p.dtype == DType::f64 ? CUDA_R_64F : CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  r.product.reset(made);
  const auto operation = [](const BlasMatrix& m) {
    return static_cast<int32_t>(m.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  };
  set(r.product, CUBLASLT_MATMUL_DESC_TRANSA, operation(p.b));
  set(r.product, CUBLASLT_MATMUL_DESC_TRANSB, operation(p.a));
  if (p.bias) {
    const auto epilogue = p.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
    set(r.product, CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(epilogue));
    set(r.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  }
  r.relu = p.relu;
  r.a = layout(p.dtype, p.a, p.m, p.k, p.count);
  r.b = layout(p.dtype, p.b, p.k, p.n, p.count);
  r.y = layout(p.dtype, p.y, p.m, p.n, p.count);
  return r;
}

}  // namespace brim::cuda::blas
