// See formula_code.h.
#include "backend/cuda/compile/formula_code.h"

#include <brim/interface.h>
#include <fmt/core.h>

#include <utility>

#include "backend/cuda/compile/device_headers.h"
#include "core/hash.h"

namespace brim::cuda {
namespace {

#define BRIM_TEXT_OF(name) #name
#define BRIM_TEXT(name) BRIM_TEXT_OF(name)

uint64_t hash_of(std::string_view text, uint64_t seed = 0) {
  return xxh64(text.data(), text.size(), seed);
}

uint64_t headers_hash() {
  static const uint64_t hash = [] {
    uint64_t h = 0;
    for (const DeviceHeader& header : device_headers()) h = hash_of(header.text, h);
    return h;
  }();
  return hash;
}

/// All that the code depends on.
std::string key_of(const Nvrtc& nvrtc, const DeviceProgram& program, const CodeTarget& target) {
  std::string options;
  for (const char* option : Nvrtc::kOptions) options.append(" ").append(option);
  return fmt::format("{} {:016x} {:016x} {} {}{}", BRIM_TEXT(BRIM_INTERFACE), headers_hash(),
                     hash_of(program.text), nvrtc.version(), target.arch, options);
}

}  // namespace

FormulaCode formula_code(const Nvrtc& nvrtc, CodeCache& cache, const extend::FormulaText& formula,
                         DType dtype, int capability, bool afresh) {
  const CodeTarget target = nvrtc.target(formula.name, capability);
  const DeviceProgram program = formula_program(formula, dtype);
  const std::string key = key_of(nvrtc, program, target);
  // A formula that is compiled again, by another brim or NVRTC, takes its old code's place.
  const std::string name = fmt::format("{:016x}.code", hash_of(program.text, hash_of(target.arch)));
  if (!afresh)
    if (auto code = cache.find(name, key)) return {*std::move(code), true};
  FormulaCode code{nvrtc.compile(program, target), false};
  cache.keep(name, key, code.bytes);
  return code;
}

}  // namespace brim::cuda
