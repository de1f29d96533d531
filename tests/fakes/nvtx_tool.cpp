// A tool that puts itself behind NVTX (NVTX_INJECTION64_PATH), for tests: writes a line for each
// range of the domain "brim" to the file BRIM_NVTX_LOG names: "push NAME" or "pop".
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

FILE* log_file() {
  static FILE* const file = std::fopen(std::getenv("BRIM_NVTX_LOG"), "a");
  return file;
}

nvtxDomainHandle_t NVTX_API create_domain(const char* name) {
  static int domain = 0;
  return std::strcmp(name, "brim") == 0 ? reinterpret_cast<nvtxDomainHandle_t>(&domain) : nullptr;
}
int NVTX_API push(nvtxDomainHandle_t, const nvtxEventAttributes_t* range) {
  if (log_file()) std::fprintf(log_file(), "push %s\n", range->message.ascii);
  return 0;
}
int NVTX_API pop(nvtxDomainHandle_t) {
  if (log_file()) std::fputs("pop\n", log_file());
  return 0;
}

}  // namespace

extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size))
    return 0;
  const auto set = [&](unsigned id, auto* function) {
    *table[id] = reinterpret_cast<NvtxFunctionPointer>(function);
  };
  set(NVTX_CBID_CORE2_DomainCreateA, create_domain);
  set(NVTX_CBID_CORE2_DomainRangePushEx, push);
  set(NVTX_CBID_CORE2_DomainRangePop, pop);
  return 1;
}
