#include "command/memory_limit.h"

#include <brim/core/allocator.h>

#include "command/command.h"
#include "command/format.h"
#include "core/check.h"
#include "core/runtime.h"

namespace brim::command {

void set_memory_limit(Device device, const std::string& text) {
  if (text.empty() || text == "auto") return;
  const int64_t bytes = parse_bytes(text, "--memory-limit");
  check_available(device);
  const auto total = static_cast<int64_t>(runtime(device.kind).memory(device.index).total);
  if (bytes > total)
    raise<UsageError>("--memory-limit {}: {} has {}", text, device.str(), format_bytes(total));
  Allocator::of(device).set_limit(bytes);
}

void set_host_limit(DeviceKind kind, const std::string& text) {
  if (!text.empty()) set_pinned_limit(kind, parse_bytes(text, "--host-limit"));
}

}  // namespace brim::command
