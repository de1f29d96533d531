// Matrix products by cuBLASLt. Its matrices are column-major: the product asked for is
// y^T = b^T a^T, whose operands are the row-major ones as they lie in memory.
#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "backend/cuda/libraries/blas.h"
#include "backend/cuda/libraries/dynamic_library.h"
#include "backend/cuda/runtime.h"
#include "core/check.h"

namespace brim::cuda {
namespace {

/// The functions used here.
struct Library : DynamicLibrary {
  Library() : DynamicLibrary("libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR)) {}
  decltype(&cublasLtCreate) create = find("cublasLtCreate");
  decltype(&cublasLtMatmul) matmul = find("cublasLtMatmul");
  decltype(&cublasLtMatmulDescCreate) desc_create = find("cublasLtMatmulDescCreate");
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = find("cublasLtMatmulDescSetAttribute");
  decltype(&cublasLtMatrixLayoutCreate) layout_create = find("cublasLtMatrixLayoutCreate");
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set = find("cublasLtMatrixLayoutSetAttribute");
  decltype(&cublasLtMatmulPreferenceCreate) preference_create =
      find("cublasLtMatmulPreferenceCreate");
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set =
      find("cublasLtMatmulPreferenceSetAttribute");
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy =
      find("cublasLtMatmulPreferenceDestroy");
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = find("cublasLtMatmulAlgoGetHeuristic");
};

const Library& library() {
  static const Library lt;
  return lt;
}

void check(cublasStatus_t result, const char* call) {
  if (result != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    raise<DeviceError>("[cuda] cuBLASLt: {} failed with status {}", call, static_cast<int>(result));
}

cudaDataType_t type_of(DType dtype) {
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

/// The largest power of two that divides an address, up to 256.
uint32_t alignment(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data) | 256;
  return static_cast<uint32_t>(address & (~address + 1));
}

/// All that an algorithm depends on.
using Key = std::array<int64_t, 17>;
Key key_of(const BlasProduct& p) {
  return {static_cast<int64_t>(p.dtype),
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
          p.bias != nullptr};
}

constexpr size_t kWorkspace = size_t{32} << 20;  // what NVIDIA advises for Hopper

/// How a product is computed; kept for ever.
struct Recipe {
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, y = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  size_t workspace = 0;
  bool possible = false;
};

/// The library on one device.
class Blas {
 public:
  explicit Blas(int device) {
    const DeviceGuard guard(device);
    check(library().create(&handle_), "cublasLtCreate");
  }

  bool run(const Context& context, const BlasProduct& p) {
    // A recipe holds the address of the bias: one product at a time is queued.
    const std::lock_guard lock(mutex_);
    const DeviceGuard guard(context.device().index);
    auto [at, is_new] = recipes_.try_emplace(key_of(p));
    Recipe& recipe = at->second;
    if (is_new) recipe = find(p);
    if (!recipe.possible) return false;
    if (p.bias) set(recipe.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
    const Workspace room = context.workspace(std::max<size_t>(recipe.workspace, 1));
    const float one = 1, zero = 0;
    const double one64 = 1, zero64 = 0;
    const bool is_f64 = p.dtype == DType::f64;
    void* const y = const_cast<void*>(p.y.data);
    const cublasStatus_t done = library().matmul(
        handle_, recipe.product, is_f64 ? static_cast<const void*>(&one64) : &one, p.b.data,
        recipe.b, p.a.data, recipe.a, is_f64 ? static_cast<const void*>(&zero64) : &zero, y,
        recipe.y, y, recipe.y, &recipe.algorithm, room.as<void>(), recipe.workspace,
        native(context.stream));
    // An algorithm that was proposed may still be refused.
    recipe.possible = done != CUBLAS_STATUS_NOT_SUPPORTED;
    if (!recipe.possible) return false;
    check(done, "cublasLtMatmul");
    note_queued(context.device().index);
    return true;
  }

 private:
  template <class V>
  static void set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t what, const V& value) {
    check(library().desc_set(desc, what, &value, sizeof(value)), "cublasLtMatmulDescSetAttribute");
  }

  /// The layout of a matrix as cuBLASLt sees it: its contiguous rows are columns.
  static cublasLtMatrixLayout_t layout(DType dtype, const BlasMatrix& m, int64_t rows,
                                       int64_t columns, int64_t count) {
    if (m.transposed) std::swap(rows, columns);
    cublasLtMatrixLayout_t result = nullptr;
    check(library().layout_create(&result, type_of(dtype), static_cast<uint64_t>(columns),
                                  static_cast<uint64_t>(rows), m.leading),
          "cublasLtMatrixLayoutCreate");
    const auto n = static_cast<int32_t>(count);
    check(library().layout_set(result, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &n, sizeof(n)),
          "cublasLtMatrixLayoutSetAttribute");
    check(library().layout_set(result, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &m.stack,
                               sizeof(m.stack)),
          "cublasLtMatrixLayoutSetAttribute");
    return result;
  }

  Recipe find(const BlasProduct& p) const {
    Recipe r;
    const bool is_f64 = p.dtype == DType::f64;
    check(library().desc_create(&r.product, is_f64 ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                is_f64 ? CUDA_R_64F : CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    const auto operation = [](const BlasMatrix& m) {
      return static_cast<int32_t>(m.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    };
    set(r.product, CUBLASLT_MATMUL_DESC_TRANSA, operation(p.b));
    set(r.product, CUBLASLT_MATMUL_DESC_TRANSB, operation(p.a));
    if (p.bias) {
      set(r.product, CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(CUBLASLT_EPILOGUE_BIAS));
      set(r.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
    }
    r.a = layout(p.dtype, p.a, p.m, p.k, p.count);
    r.b = layout(p.dtype, p.b, p.k, p.n, p.count);
    r.y = layout(p.dtype, p.y, p.m, p.n, p.count);

    cublasLtMatmulPreference_t preference = nullptr;
    check(library().preference_create(&preference), "cublasLtMatmulPreferenceCreate");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, auto value) {
      check(library().preference_set(preference, what, &value, sizeof(value)),
            "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(kWorkspace));
    // Sums are never kept in 16 bits between their parts.
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(p.b.data));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(p.a.data));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(p.y.data));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(p.y.data));
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    const cublasStatus_t result =
        library().heuristic(handle_, r.product, r.b, r.a, r.y, r.y, preference, 1, &best, &found);
    (void)library().preference_destroy(preference);
    r.possible =
        result == CUBLAS_STATUS_SUCCESS && found > 0 && best.state == CUBLAS_STATUS_SUCCESS;
    r.algorithm = best.algo;
    r.workspace = best.workspaceSize;
    return r;
  }

  cublasLtHandle_t handle_ = nullptr;
  std::mutex mutex_;
  std::map<Key, Recipe> recipes_;
};

/// Never destroyed: the driver may be gone before static objects are.
Blas& blas_of(int device) {
  static std::mutex mutex;
  static auto* all = new std::map<int, std::unique_ptr<Blas>>;
  const std::lock_guard lock(mutex);
  auto& blas = (*all)[device];
  if (!blas) blas = std::make_unique<Blas>(device);
  return *blas;
}

}  // namespace

bool blas_product(const Context& context, const BlasProduct& product) {
  return library().is_there() && blas_of(context.device().index).run(context, product);
}

}  // namespace brim::cuda
