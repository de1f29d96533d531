// Matrix products by cuBLASLt. Its matrices are column-major: the product asked for is
// y^T = b^T a^T, whose operands are the row-major ones as they lie in memory.
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/libraries/blas.h"
#include "backend/cuda/libraries/cublas_lt_library.h"
#include "backend/cuda/libraries/measure.h"
#include "backend/cuda/libraries/open.h"
#include "backend/cuda/runtime.h"

namespace brim::cuda {
namespace {

using blas::check;
using blas::Layout;
using blas::library;
using blas::MatmulDesc;
using blas::Preference;

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

cublasComputeType_t compute_type(const BlasProduct& p) {
  if (p.dtype == DType::f64) return CUBLAS_COMPUTE_64F;
  // The default for f32 multiplies in full f32.
  return p.dtype == DType::f32 && p.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

/// The largest power of two that divides an address, up to 16: what the widest access needs, and
/// no more, so that where a tensor happens to lie does not decide on its algorithm.
uint32_t alignment(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data) | 16;
  return static_cast<uint32_t>(address & (~address + 1));
}

/// All that an algorithm depends on.
using Key = std::array<int64_t, 19>;
Key key_of(const BlasProduct& p) {
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
std::string problem_of(const BlasProduct& p) {
  std::string text =
      fmt::format("matmul {}{}", name(p.dtype), p.dtype == DType::f32 && p.tf32 ? " tf32" : "");
  for (const int64_t number : key_of(p)) text += fmt::format(" {}", number);
  return text;
}

/// Multiply-adds.
double work_of(const BlasProduct& p) {
  return static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) *
         static_cast<double>(p.count);
}

constexpr size_t kWorkspace = size_t{32} << 20;  // what NVIDIA advises for Hopper
constexpr int kProposals = 8;

/// An algorithm, and how to find it again in another run.
struct Algorithm {
  cublasLtMatmulAlgo_t algo{};
  size_t workspace = 0;

  std::string name() const {
    uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
    for (const uint64_t word : algo.data)
      for (int shift = 0; shift < 64; shift += 8)
        hash = (hash ^ (word >> shift & 0xff)) * 0x100000001b3;
    return fmt::format("{:016x}", hash);
  }
};

/// How a product is computed.
struct Recipe {
  MatmulDesc product;
  Layout a, b, y;
  Algorithm algorithm;
  BlasDone done = BlasDone::nothing;  // by this recipe
  bool relu = false;                  // in the epilogue
};

/// The library on one device.
class Blas {
 public:
  explicit Blas(int device)
      : choices_(choices_of(device, fmt::format("cuBLASLt {}", library().version()))) {
    const DeviceGuard guard(device);
    check(library().create(&handle_), "cublasLtCreate");
  }

  BlasDone run(const Context& context, const BlasProduct& p, const std::function<void()>& own) {
    // A recipe holds the address of the bias: one product at a time is queued.
    const std::lock_guard lock(mutex_);
    const DeviceGuard guard(context.device().index);
    Recipe* recipe = recipes_.find(key_of(p));
    if (!recipe) recipe = &recipes_.add(key_of(p), find(context, p, own));
    if (recipe->done == BlasDone::nothing) return BlasDone::nothing;
    check(queue(context, p, *recipe, recipe->algorithm, p.bias), "cublasLtMatmul");
    note_queued(context.device().index);
    return recipe->done;
  }

  /// Whether the product was met before, so that it may be queued into a graph.
  bool knows(const BlasProduct& p) {
    const std::lock_guard lock(mutex_);
    return recipes_.find(key_of(p)) != nullptr;
  }

 private:
  template <class V>
  static void set(const MatmulDesc& desc, cublasLtMatmulDescAttributes_t what, const V& value) {
    check(library().desc_set(desc.get(), what, &value, sizeof(value)),
          "cublasLtMatmulDescSetAttribute");
  }

  /// The layout of a matrix as cuBLASLt sees it: its contiguous rows are columns.
  static Layout layout(DType dtype, const BlasMatrix& m, int64_t rows, int64_t columns,
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

  /// All of a recipe but the algorithm.
  static Recipe describe(const BlasProduct& p) {
    Recipe r;
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

  /// The library's proposals, best first.
  std::vector<Algorithm> proposals(const BlasProduct& p, const Recipe& r) const {
    cublasLtMatmulPreference_t made = nullptr;
    check(library().preference_create(&made), "cublasLtMatmulPreferenceCreate");
    const Preference preference(made);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, auto value) {
      check(library().preference_set(made, what, &value, sizeof(value)),
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
    std::array<cublasLtMatmulHeuristicResult_t, kProposals> found{};
    int count = 0;
    const cublasStatus_t result =
        library().heuristic(handle_, r.product.get(), r.b.get(), r.a.get(), r.y.get(), r.y.get(),
                            made, kProposals, found.data(), &count);
    // Both mean that it cannot do it; the caller warns.
    if (result == CUBLAS_STATUS_NOT_SUPPORTED || result == CUBLAS_STATUS_INVALID_VALUE) return {};
    check(result, "cublasLtMatmulAlgoGetHeuristic");
    std::vector<Algorithm> all;
    for (const auto& proposal : std::span(found).first(static_cast<size_t>(count)))
      if (proposal.state == CUBLAS_STATUS_SUCCESS && proposal.workspaceSize <= kWorkspace)
        all.push_back({proposal.algo, proposal.workspaceSize});
    return all;
  }

  Recipe find(const Context& context, const BlasProduct& p, const std::function<void()>& own) {
    Recipe r = describe(p);
    const std::vector<Algorithm> all = proposals(p, r);
    std::vector<Candidate> candidates;
    for (const Algorithm& algorithm : all)
      candidates.push_back({algorithm.name(), [&, this] {
                              const cublasStatus_t s = queue(context, p, r, algorithm, p.bias);
                              if (s == CUBLAS_STATUS_NOT_SUPPORTED) return false;
                              check(s, "cublasLtMatmul");
                              return true;
                            }});
    if (own && work_of(p) < kMostForOwn)
      candidates.push_back({"own", [&] {
                              own();
                              return true;
                            }});
    const int best = choose(choices_, problem_of(p), candidates, context.stream);
    if (best < 0 || all.empty()) no_algorithm(p);
    if (best < 0 || best >= static_cast<int>(all.size())) return {};
    r.algorithm = all[static_cast<size_t>(best)];
    r.done = BlasDone::all;
    if (!p.relu || lets_nan_through(context, p, r)) return r;
    BlasProduct without = p;
    without.relu = false;
    Recipe rest = find(context, without, own);
    if (rest.done == BlasDone::all) rest.done = BlasDone::without_relu;
    return rest;
  }

  /// Whether the ReLU of the recipe's epilogue keeps NaN, which nothing documents: with a bias of
  /// NaN all results must be.
  bool lets_nan_through(const Context& context, const BlasProduct& p, const Recipe& r) const {
    const size_t bytes = static_cast<size_t>(p.n) * size_of(p.dtype);
    const Workspace bias = context.workspace(bytes);
    const cudaStream_t stream = native(context.stream);
    BRIM_CUDA(cudaMemsetAsync(bias.as<void>(), 0xff, bytes, stream));  // NaN in every dtype
    check(queue(context, p, r, r.algorithm, bias.as<void>()), "cublasLtMatmul");
    uint32_t first = 0;  // of y
    BRIM_CUDA(cudaMemcpyAsync(&first, p.y.data, size_of(p.dtype), cudaMemcpyDeviceToHost, stream));
    BRIM_CUDA(cudaStreamSynchronize(stream));
    const uint32_t infinity = p.dtype == DType::f32   ? 0x7f800000
                              : p.dtype == DType::f16 ? 0x7c00
                                                      : 0x7f80;
    return (first & (p.dtype == DType::f32 ? 0x7fffffff : 0x7fff)) > infinity;
  }

  static void no_algorithm(const BlasProduct& p) {
    warn(
        fmt::format("[{}] cuBLASLt has no algorithm for {} x {} x {} ({} of them) in {}: brim's "
                    "own kernel computes it",
                    op_name(), p.m, p.k, p.n, p.count, name(p.dtype)));
  }

  cublasStatus_t queue(const Context& context, const BlasProduct& p, const Recipe& r,
                       const Algorithm& algorithm, const void* bias) const {
    if (p.bias) set(r.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    const Workspace room = context.workspace(std::max<size_t>(algorithm.workspace, 1));
    const float one = 1, zero = 0;
    const double one64 = 1, zero64 = 0;
    const bool is_f64 = p.dtype == DType::f64;
    void* const y = const_cast<void*>(p.y.data);
    return library().matmul(handle_, r.product.get(),
                            is_f64 ? static_cast<const void*>(&one64) : &one, p.b.data, r.b.get(),
                            p.a.data, r.a.get(), is_f64 ? static_cast<const void*>(&zero64) : &zero,
                            y, r.y.get(), y, r.y.get(), &algorithm.algo, room.as<void>(),
                            algorithm.workspace, native(context.stream));
  }

  cublasLtHandle_t handle_ = nullptr;
  ChoiceFile& choices_;
  std::mutex mutex_;
  Recipes<Key, Recipe> recipes_;
};

/// The library on a device. nullptr where it was not used yet and may not be begun now. Never
/// destroyed: the driver may be gone before static objects are.
Blas* blas_of(int device, bool may_begin) {
  static std::mutex mutex;
  static auto* all = new std::map<int, std::unique_ptr<Blas>>;
  const std::lock_guard lock(mutex);
  auto& blas = (*all)[device];
  if (!blas && may_begin) blas = std::make_unique<Blas>(device);
  return blas.get();
}

}  // namespace

BlasDone blas_product(const Context& context, const BlasProduct& p,
                      const std::function<void()>& own) {
  if (work_of(p) < static_cast<double>(small_work())) return BlasDone::nothing;
  if (!library().is_there("matrix products")) return BlasDone::nothing;
  const bool captured = is_captured(context.stream);
  Blas* const blas = blas_of(context.device().index, !captured);
  if (captured && (!blas || !blas->knows(p))) {
    warn_of_capture();
    return BlasDone::nothing;
  }
  return blas->run(context, p, own);
}

std::string blas_problem() { return library().problem(); }

}  // namespace brim::cuda
