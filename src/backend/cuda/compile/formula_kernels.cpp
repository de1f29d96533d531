// See formula_kernels.h.
#include "backend/cuda/compile/formula_kernels.h"

#include <map>
#include <mutex>
#include <shared_mutex>
#include <tuple>

#include "backend/cuda/compile/formula_code.h"
#include "backend/cuda/graph/capture.h"
#include "backend/cuda/libraries/open.h"
#include "backend/cuda/runtime/runtime.h"
#include "core/cache_file.h"
#include "core/check.h"
#include "diag/span.h"

namespace brim::cuda {
namespace {

const Nvrtc& nvrtc() {
  static const auto* const library = new Nvrtc(open_nvrtc(&open_library));
  return *library;
}
CodeCache& code_cache() {
  static auto* const cache = new CodeCache(cache_path("cuda_formulas"));
  return *cache;
}

cudaError_t load(const std::string& code, const std::string& name, cudaKernel_t* kernel) {
  cudaLibrary_t library = nullptr;  // for good
  const cudaError_t result =
      cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  return result == cudaSuccess ? cudaLibraryGetKernel(kernel, library, name.c_str()) : result;
}

const void* make_kernel(const extend::FormulaText& formula, DType dtype, int device) {
  const diag::Scope scope("compile formula", diag::Cause::compile);
  const int capability = compute_capability(device);
  const DeviceGuard guard(device);
  cudaError_t result = cudaSuccess;
  for (const bool afresh : {false, true}) {
    const FormulaCode code =
        formula_code(nvrtc(), code_cache(), formula, dtype, capability, afresh);
    cudaKernel_t kernel = nullptr;
    result =
        outside_captures([&] { return load(code.bytes, formula_kernel_name(formula), &kernel); });
    if (result == cudaSuccess) return reinterpret_cast<const void*>(kernel);
    (void)cudaGetLastError();
    if (!code.was_kept) break;  // else the file may be to blame
  }
  raise<DeviceError>(
      "[{}] cuda:{} refuses the code that {} compiled from the formula: {} ({}); update the "
      "driver, or load a plugin that registers the formula (docs/OWN_OPS.md)",
      formula.name, device, nvrtc().version(), cudaGetErrorString(result),
      cudaGetErrorName(result));
}

/// By formula, dtype and compute capability.
class FormulaKernels {
 public:
  const void* get(const extend::FormulaText& formula, DType dtype, int device) {
    const Key key{&formula, dtype, compute_capability(device)};
    if (const void* kernel = find(key)) return kernel;
    const std::lock_guard one_at_a_time(compiling_);
    if (const void* kernel = find(key)) return kernel;
    const void* const kernel = make_kernel(formula, dtype, device);
    const std::unique_lock lock(mutex_);
    return kernels_[key] = kernel;
  }

 private:
  using Key = std::tuple<const extend::FormulaText*, DType, int>;

  const void* find(const Key& key) const {
    const std::shared_lock lock(mutex_);
    const auto found = kernels_.find(key);
    return found == kernels_.end() ? nullptr : found->second;
  }

  mutable std::shared_mutex mutex_;
  std::mutex compiling_;
  std::map<Key, const void*> kernels_;
};

}  // namespace

const void* formula_kernel(const Context& context, const extend::FormulaText& formula,
                           DType dtype) {
  static auto* const all = new FormulaKernels;
  return all->get(formula, dtype, context.stream.device.index);
}

}  // namespace brim::cuda
