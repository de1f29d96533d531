// A fake of libcublasLt.so.13. The signatures and numbers are those of NVIDIA's header.
#include <cublasLt.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "fakes/fake.h"

namespace {

using namespace brim::fake;

struct Desc {
  cublasComputeType_t compute{};
  cudaDataType_t scale{};
  int32_t trans_a = CUBLAS_OP_N, trans_b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};
struct Layout {
  cudaDataType_t type{};
  int64_t rows = 0, columns = 0, leading = 0;
  int32_t batches = 1;
  int64_t stride = 0;

  int64_t last() const { return (batches - 1) * stride + (columns - 1) * leading + rows; }
};
struct Preference {
  std::map<int, uint64_t> values;
};

Desc& of(cublasLtMatmulDesc_t d) { return *reinterpret_cast<Desc*>(d); }
Layout& of(cublasLtMatrixLayout_t d) { return *reinterpret_cast<Layout*>(d); }
Preference& of(cublasLtMatmulPreference_t d) { return *reinterpret_cast<Preference*>(d); }

Elements elements(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_32F:
      return Elements::of<float>();
    case CUDA_R_64F:
      return Elements::of<double>();
    case CUDA_R_16F:
      return Elements::of<brim::Half>();
    case CUDA_R_16BF:
      return Elements::of<brim::BFloat16>();
    default:
      return {};
  }
}

/// The algorithms: what they need, and how long they take.
constexpr uint64_t kMagic = 0x6272696d;
struct Kind {
  uint64_t workspace, alignment;
  double milliseconds;
};
constexpr Kind kKinds[] = {{0, 1, 30}, {1 << 20, 16, 10}, {0, 1, 20}, {uint64_t{1} << 40, 1, 1}};

/// Whether the description makes sense; says what does not.
bool fits(const char* call, const Desc& d, const Layout& a, const Layout& b, const Layout& c,
          const Layout& y) {
  const auto turned = [](const Layout& m, int32_t op) {
    return op == CUBLAS_OP_T ? std::pair(m.columns, m.rows) : std::pair(m.rows, m.columns);
  };
  const auto [m, k] = turned(a, d.trans_a);
  const auto [k2, n] = turned(b, d.trans_b);
  if (k != k2 || y.rows != m || y.columns != n || c.rows != m || c.columns != n)
    return wrong(call, "sizes do not fit");
  if (m < 1 || n < 1 || k < 1) return wrong(call, "a size is 0");
  for (const Layout* l : {&a, &b, &c, &y}) {
    if (l->type != y.type || !elements(l->type).load) return wrong(call, "types");
    if (l->batches != y.batches || l->batches < 1) return wrong(call, "batch counts");
    if (l->leading < l->rows) return wrong(call, "a leading dimension below the rows");
  }
  if (y.batches > 1 && y.stride < (y.columns - 1) * y.leading + y.rows)
    return wrong(call, "results overlap");
  const bool is_double = y.type == CUDA_R_64F, is_float = y.type == CUDA_R_32F;
  const bool tf32 = d.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  if (is_double ? d.compute != CUBLAS_COMPUTE_64F || d.scale != CUDA_R_64F
                : (d.compute != CUBLAS_COMPUTE_32F && !(tf32 && is_float)) || d.scale != CUDA_R_32F)
    return wrong(call, "compute or scale type");
  const bool biased = d.epilogue & CUBLASLT_EPILOGUE_BIAS;
  if (d.epilogue != CUBLASLT_EPILOGUE_DEFAULT && d.epilogue != CUBLASLT_EPILOGUE_BIAS &&
      d.epilogue != CUBLASLT_EPILOGUE_RELU_BIAS)
    return wrong(call, "an epilogue that brim does not use");
  if (biased && is_double) return wrong(call, "no epilogues for f64");
  if (biased && !is_memory(d.bias, y.rows * elements(y.type).size))
    return wrong(call, "a bias that is not there");
  return true;
}

/// y = op(a) op(b), with its epilogue; column-major.
void compute(const Desc& d, const Layout& a, const void* a_data, const Layout& b,
             const void* b_data, const Layout& y, void* y_data, bool drops_nan) {
  const Elements of_type = elements(y.type);
  const bool tf32 = d.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  const int64_t k = d.trans_a == CUBLAS_OP_T ? a.rows : a.columns;
  const int64_t a_i = d.trans_a == CUBLAS_OP_T ? a.leading : 1;
  const int64_t a_p = d.trans_a == CUBLAS_OP_T ? 1 : a.leading;
  const int64_t b_p = d.trans_b == CUBLAS_OP_T ? b.leading : 1;
  const int64_t b_j = d.trans_b == CUBLAS_OP_T ? 1 : b.leading;
  for (int64_t batch = 0; batch < y.batches; ++batch)
    for (int64_t j = 0; j < y.columns; ++j)
      for (int64_t i = 0; i < y.rows; ++i) {
        double sum = 0;
        for (int64_t p = 0; p < k; ++p) {
          double left = of_type.load(a_data, batch * a.stride + i * a_i + p * a_p);
          double right = of_type.load(b_data, batch * b.stride + p * b_p + j * b_j);
          if (tf32) left = to_tf32(left), right = to_tf32(right);
          sum += left * right;
        }
        if (d.epilogue & CUBLASLT_EPILOGUE_BIAS) sum += of_type.load(d.bias, i);
        if (d.epilogue & CUBLASLT_EPILOGUE_RELU & ~CUBLASLT_EPILOGUE_BIAS)
          sum = drops_nan ? (sum > 0 ? sum : 0) : (sum < 0 ? 0 : sum);
        of_type.store(y_data, batch * y.stride + j * y.leading + i, sum);
      }
}

template <class T>
bool read(const void* buffer, size_t bytes, T& value) {
  if (!buffer || bytes != sizeof(T)) return false;
  std::memcpy(&value, buffer, sizeof(T));
  return true;
}

}  // namespace

size_t cublasLtGetVersion() { return wanted("old") ? 120900 : 130100; }
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_EXECUTION_FAILED ? "the fake was told to fail" : "bad argument";
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (machine->is_capturing()) {
    (void)wrong("cublasLtCreate", "in a capture");
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  if (wanted("cublasLtCreate")) return CUBLAS_STATUS_NOT_INITIALIZED;
  note("create");
  *handle = reinterpret_cast<cublasLtHandle_t>(&machine);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  *desc = reinterpret_cast<cublasLtMatmulDesc_t>(new Desc{compute, scale});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete &of(desc);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t what,
                                              const void* buffer, size_t bytes) {
  Desc& d = of(desc);
  bool ok = false;
  if (what == CUBLASLT_MATMUL_DESC_TRANSA) ok = read(buffer, bytes, d.trans_a);
  if (what == CUBLASLT_MATMUL_DESC_TRANSB) ok = read(buffer, bytes, d.trans_b);
  if (what == CUBLASLT_MATMUL_DESC_EPILOGUE) ok = read(buffer, bytes, d.epilogue);
  if (what == CUBLASLT_MATMUL_DESC_BIAS_POINTER) ok = read(buffer, bytes, d.bias);
  return ok ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t leading) {
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(
      new Layout{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), leading});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete &of(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t what,
                                                const void* buffer, size_t bytes) {
  Layout& l = of(layout);
  bool ok = false;
  if (what == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) ok = read(buffer, bytes, l.batches);
  if (what == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) ok = read(buffer, bytes, l.stride);
  return ok ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete &of(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t what,
                                                    const void* buffer, size_t bytes) {
  uint64_t& value = of(preference).values[what];
  uint32_t narrow = 0;
  const bool ok = what == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? read(buffer, bytes, value)
                                                                   : read(buffer, bytes, narrow);
  if (narrow) value = narrow;
  return ok ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t y,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* count) {
  const char* const call = "cublasLtMatmulAlgoGetHeuristic";
  *count = 0;
  if (wanted("no-algorithm")) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (wanted("heuristic-fails")) return CUBLAS_STATUS_INTERNAL_ERROR;
  if (!handle || !fits(call, of(desc), of(a), of(b), of(c), of(y)))
    return CUBLAS_STATUS_INVALID_VALUE;
  auto& prefer = of(preference).values;
  if (prefer[CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK] !=
      CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) {
    (void)wrong(call, "sums may be kept in 16 bits");
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  note("heuristic");
  uint64_t aligned = 256;
  for (const auto which :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    if (prefer.contains(which)) aligned = std::min(aligned, prefer[which]);
  for (uint64_t i = 0; i < std::size(kKinds) && *count < most; ++i) {
    const Kind& kind = kKinds[i];
    if (kind.alignment > aligned) continue;
    cublasLtMatmulHeuristicResult_t& r = results[(*count)++];
    r = {};
    r.algo.data[0] = kMagic;
    r.algo.data[1] = i;
    r.workspaceSize = kind.workspace;
    r.state = kind.workspace > prefer[CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES]
                  ? CUBLAS_STATUS_NOT_SUPPORTED
                  : CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* y,
                              cublasLtMatrixLayout_t y_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, size_t bytes, cudaStream_t stream) {
  const char* const call = "cublasLtMatmul";
  if (wanted(call)) return CUBLAS_STATUS_EXECUTION_FAILED;
  const auto invalid = [&](const char* why) {
    (void)wrong(call, why);
    return CUBLAS_STATUS_INVALID_VALUE;
  };
  const Desc d = of(desc);
  const Layout la = of(a_layout), lb = of(b_layout), ly = of(y_layout);
  if (!handle || !stream || !fits(call, d, la, lb, of(c_layout), ly))
    return invalid("no handle, stream or sense");
  const bool is_double = d.scale == CUDA_R_64F;
  const double one =
      is_double ? *static_cast<const double*>(alpha) : *static_cast<const float*>(alpha);
  const double zero =
      is_double ? *static_cast<const double*>(beta) : *static_cast<const float*>(beta);
  if (one != 1 || zero != 0 || c != y) return invalid("alpha, beta or c");
  if (!algo || algo->data[0] != kMagic) return invalid("an algorithm of nobody");
  if (algo->data[1] == 1 &&
      (wanted("1-fails") || (wanted("1-fails-in-graphs") && machine->is_captured(stream))))
    return CUBLAS_STATUS_EXECUTION_FAILED;
  const Kind& kind = kKinds[algo->data[1]];
  if (bytes < kind.workspace || bytes > size_t{32} << 20) return invalid("size of the workspace");
  if (bytes > 0 &&
      (!is_memory(workspace, static_cast<int64_t>(bytes)) || !is_aligned(workspace, 16)))
    return invalid("workspace");
  const int64_t size = elements(ly.type).size;
  for (const auto& [data, layout] :
       {std::pair(a, &la), std::pair(b, &lb), std::pair<const void*, const Layout*>(y, &ly)}) {
    if (!is_memory(data, layout->last() * size)) return invalid("a matrix leaves its memory");
    if (!is_aligned(data, static_cast<int64_t>(kind.alignment)) || !is_aligned(data, size))
      return invalid("alignment");
  }
  note("matmul compute " + std::to_string(d.compute) + " type " + std::to_string(ly.type) +
       " epilogue " + std::to_string(d.epilogue) + " algorithm " + std::to_string(algo->data[1]) +
       " batches " + std::to_string(ly.batches));
  machine->spend(stream, kind.milliseconds - 50);  // a launch costs 50
  const bool drops_nan = wanted("relu-drops-nan");
  machine->submit(stream, [=] { compute(d, la, a, lb, b, ly, y, drops_nan); });
  return CUBLAS_STATUS_SUCCESS;
}
