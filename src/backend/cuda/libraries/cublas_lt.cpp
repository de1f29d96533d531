// Matrix products by cuBLASLt.
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/libraries/blas.h"
#include "backend/cuda/libraries/cublas_lt_operation.h"
#include "backend/cuda/libraries/measure.h"
#include "backend/cuda/libraries/open.h"
#include "backend/cuda/runtime/runtime.h"

namespace brim::cuda {
namespace {

using namespace blas;

constexpr size_t kWorkspace = size_t{32} << 20;  // what NVIDIA advises for Hopper
constexpr int kProposals = 8;

/// The library on one device.
class Blas {
 public:
  explicit Blas(int device) : choices_(choices_of(device, blas_version())) {
    const DeviceGuard guard(device);
    const cublasStatus_t created = library().create(&handle_);
    if (created == CUBLAS_STATUS_SUCCESS) return;
    handle_ = nullptr;
    raise_if_lost("cublasLtCreate");
    library().warn_cannot_begin("matrix products",
                                std::string("cublasLtCreate: ") + library().status_string(created));
  }
  /// Not where the library could not begin, of which it has warned.
  bool has_begun() const { return handle_ != nullptr; }

  BlasDone run(const Context& context, const BlasProduct& p, const Work& own) {
    // An operation holds the address of the bias: one product at a time is queued.
    const std::lock_guard lock(mutex_);
    const DeviceGuard guard(context.device().index);
    Operation* operation = known_.find(key_of(p));
    if (!operation)
      operation = &known_.add(
          key_of(p), found_or(Operation(), text_of(p), [&] { return find(context, p, own); }));
    if (operation->done == BlasDone::nothing || operation->no_room.lasts())
      return BlasDone::nothing;
    try {
      check(queue(context, p, *operation, operation->algorithm, p.bias), "cublasLtMatmul");
    } catch (const OutOfMemory& e) {
      if (operation->algorithm.workspace == 0) throw;
      operation->no_room.begins("cuBLASLt", fmt::format("{} x {} x {}", p.m, p.k, p.n), e);
      return BlasDone::nothing;
    }
    note_queued(context.device().index);
    return operation->done;
  }

  /// Whether the product was met before, so that it may be queued into a graph.
  bool knows(const BlasProduct& p) {
    const std::lock_guard lock(mutex_);
    return known_.find(key_of(p)) != nullptr;
  }

 private:
  /// The library's proposals, best first.
  std::vector<Algorithm> proposals(const BlasProduct& p, const Operation& r) const {
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

  Operation find(const Context& context, const BlasProduct& p, const Work& own) {
    Operation r = describe(p);
    const std::vector<Algorithm> all = proposals(p, r);
    std::vector<Candidate> candidates;
    int tried = 0, queued = 0;  // proposals
    for (const Algorithm& algorithm : all)
      candidates.push_back({algorithm.name(), [&, this](const Context& at) {
                              ++tried;
                              const cublasStatus_t s = queue(at, p, r, algorithm, p.bias);
                              if (s == CUBLAS_STATUS_NOT_SUPPORTED) return false;
                              check(s, "cublasLtMatmul");
                              ++queued;
                              return true;
                            }});
    if (own && work_of(p) < kMaxForOwn)
      candidates.push_back({"own", [&](const Context& at) {
                              own(at);
                              return true;
                            }});
    const int best = choose(choices_, problem_of(p), candidates, context.stream);
    if (best < 0 || all.empty() || (tried > 0 && queued == 0)) no_algorithm(p);
    if (best < 0 || best >= static_cast<int>(all.size())) return {};
    r.algorithm = all[static_cast<size_t>(best)];
    r.done = BlasDone::all;
    if (!p.relu || lets_nan_through(context, p, r)) return r;
    BlasProduct without = p;
    without.relu = false;
    Operation rest = find(context, without, own);
    if (rest.done == BlasDone::all) rest.done = BlasDone::without_relu;
    return rest;
  }

  /// Whether the ReLU of the operation's epilogue keeps NaN, which nothing documents: with a bias
  /// of NaN all results must be.
  bool lets_nan_through(const Context& context, const BlasProduct& p, const Operation& r) const {
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
    warn(fmt::format("[{}] cuBLASLt has no algorithm for {}: brim's own kernel computes it",
                     op_name(), text_of(p)));
  }
  static std::string text_of(const BlasProduct& p) {
    return fmt::format("{} x {} x {} ({} of them) in {}", p.m, p.k, p.n, p.count, name(p.dtype));
  }

  cublasStatus_t queue(const Context& context, const BlasProduct& p, const Operation& r,
                       const Algorithm& algorithm, const void* bias) const {
    if (p.bias) set(r.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    const Workspace scratch = context.workspace(std::max<size_t>(algorithm.workspace, 1));
    const float one = 1, zero = 0;
    const double one64 = 1, zero64 = 0;
    const bool is_f64 = p.dtype == DType::f64;
    void* const y = const_cast<void*>(p.y.data);
    return library().matmul(handle_, r.product.get(),
                            is_f64 ? static_cast<const void*>(&one64) : &one, p.b.data, r.b.get(),
                            p.a.data, r.a.get(), is_f64 ? static_cast<const void*>(&zero64) : &zero,
                            y, r.y.get(), y, r.y.get(), &algorithm.algo, scratch.as<void>(),
                            algorithm.workspace, native(context.stream));
  }

  cublasLtHandle_t handle_ = nullptr;
  ChoiceFile& choices_;
  std::mutex mutex_;
  ProblemCache<Key, Operation> known_;
};

/// The library on a device. nullptr where it was not used yet and may not be begun now, and where
/// it cannot begin. Never destroyed: the driver may be gone before static objects are.
Blas* blas_of(int device, bool may_begin) {
  static std::mutex mutex;
  static auto* all = new std::map<int, std::unique_ptr<Blas>>;
  const std::lock_guard lock(mutex);
  auto& blas = (*all)[device];
  if (!blas && may_begin) blas = std::make_unique<Blas>(device);
  return blas && blas->has_begun() ? blas.get() : nullptr;
}

}  // namespace

BlasDone blas_product(const Context& context, const BlasProduct& p, const Work& own) {
  if (work_of(p) < static_cast<double>(small_work())) return BlasDone::nothing;
  if (p.count > INT32_MAX) return BlasDone::nothing;  // cuBLASLt counts them in int32_t
  if (!library().is_there("matrix products")) return BlasDone::nothing;
  const bool captured = is_captured(context.stream);
  Blas* const blas = blas_of(context.device().index, !captured);
  if (captured && (!blas || !blas->knows(p))) {
    warn_of_capture();
    return BlasDone::nothing;
  }
  return blas ? blas->run(context, p, own) : BlasDone::nothing;
}

std::string blas_problem() { return library().problem(); }
std::string blas_version() {
  return library().problem().empty() ? fmt::format("cuBLASLt {}", library().version())
                                     : "no cuBLASLt";
}

}  // namespace brim::cuda
