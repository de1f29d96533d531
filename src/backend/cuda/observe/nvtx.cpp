// Spans as NVTX ranges, for Nsight Systems and other tools. NVTX is headers only; a tool puts
// itself behind them, and without one there is no domain and nothing is done.
#if BRIM_HAVE_NVTX

#include <nvtx3/nvToolsExt.h>

#include <array>

#include "diag/ranges.h"

namespace brim::cuda {
namespace {

nvtxDomainHandle_t domain = nullptr;

/// Colours by cause, as 0xAARRGGBB.
constexpr std::array<uint32_t, diag::kCauseCount> kColours = {
    0xff4caf50, 0xff9c27b0, 0xff00bcd4, 0xffff9800, 0xfff44336,
    0xff2196f3, 0xff795548, 0xff607d8b, 0xffe91e63, 0xff9e9e9e};

void push(const char* name, diag::Cause cause) {
  nvtxEventAttributes_t range{};
  range.version = NVTX_VERSION;
  range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  range.colorType = NVTX_COLOR_ARGB;
  range.color = kColours[static_cast<size_t>(cause)];
  range.messageType = NVTX_MESSAGE_TYPE_ASCII;
  range.message.ascii = name;
  nvtxDomainRangePushEx(domain, &range);
}
void pop() { nvtxDomainRangePop(domain); }

constexpr diag::RangeSink kNvtx{push, pop};

const bool asked = [] {
  domain = nvtxDomainCreateA("brim");
  if (domain) diag::show_ranges(kNvtx);
  return true;
}();

}  // namespace
}  // namespace brim::cuda

#endif
