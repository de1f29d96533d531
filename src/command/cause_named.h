// A cause by the name that diag::name() gives it.
#pragma once

#include <optional>
#include <string_view>

#include <brim/diag/account.h>

namespace brim::command {

inline std::optional<diag::Cause> cause_named(std::string_view text) {
  for (int i = 0; i < diag::kCauseCount; ++i)
    if (diag::name(static_cast<diag::Cause>(i)) == text) return static_cast<diag::Cause>(i);
  return {};
}

}  // namespace brim::command
