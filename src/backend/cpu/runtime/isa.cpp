// BRIM_CPU_ISA is read before any kernel is registered: registration is when each chooses its
// instruction set.
#include "backend/cpu/runtime/isa.h"

#include <fmt/ranges.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string_view>
#if BRIM_HAVE_DNNL
#include <oneapi/dnnl/dnnl.hpp>
#endif

#include "backend/cpu/gemm/gemm_bf16.h"
#include "core/check.h"

namespace brim::cpu {
namespace {

constexpr const char* kBaseline = "baseline";

std::string name_of(int64_t target) {
  if (target == HWY_SCALAR || target == HWY_EMU128) return "scalar";
#if HWY_ARCH_X86
  if (target == HWY_AVX3) return "avx512";
#endif
  std::string name = hwy::TargetName(target);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

#if BRIM_HAVE_DNNL
/// Its least is SSE4.1, which all its kernels that are written for x86-64 need.
void limit_dnnl([[maybe_unused]] int64_t target) {
#if HWY_ARCH_X86
  if (target >= HWY_AVX2)
    dnnl::set_max_cpu_isa(target == HWY_AVX2 ? dnnl::cpu_isa::avx2 : dnnl::cpu_isa::sse41);
#endif
}
#else
void limit_dnnl(int64_t) {}
#endif

struct Choice {
  std::vector<std::string> available;
  std::string isa, error;

  Choice() {
    // Lower bits are better instruction sets; the fallback is always there.
    std::vector<int64_t> targets;
    const int64_t all = HWY_TARGETS & (hwy::SupportedTargets() | HWY_STATIC_TARGET);
    for (int64_t rest = all; rest != 0; rest &= rest - 1) targets.push_back(rest & -rest);
    for (const int64_t target : targets) available.push_back(name_of(target));
    isa = available.front();
    const char* wanted = std::getenv("BRIM_CPU_ISA");  // NOLINT(concurrency-mt-unsafe)
    if (!wanted || !*wanted) return;
    const auto found = wanted == std::string_view(kBaseline)
                           ? available.end() - 1
                           : std::find(available.begin(), available.end(), wanted);
    if (found == available.end()) {
      error = fmt::format(
          "[cpu] BRIM_CPU_ISA is '{}', which this CPU or this build lacks; unset it, or choose one "
          "of: "
          "{}, {}",
          wanted, fmt::join(available, ", "), kBaseline);
      return;
    }
    isa = *found;
    const int64_t target = targets[static_cast<size_t>(found - available.begin())];
    hwy::DisableTargets(target - 1);
    limit_dnnl(target);
  }
};

const Choice& choice() {
  static const Choice made;
  return made;
}

/// Before the initialisers of other files, which register kernels.
[[gnu::constructor(101)]] void choose() { (void)choice(); }

}  // namespace

const std::vector<std::string>& available_isas() { return choice().available; }
const std::string& isa() { return choice().isa; }
std::string arithmetic(bool with_bf16) {
  return with_bf16 && multiplies_bf16() ? isa() + "+bf16" : isa();
}
const std::string& isa_error() { return choice().error; }
void check_isa() {
  if (!isa_error().empty()) throw ValueError(isa_error());
}

}  // namespace brim::cpu
