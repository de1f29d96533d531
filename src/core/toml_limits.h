// What is checked of a TOML document before toml++ sees it: it comes from anywhere.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace brim {

/// Why `text` is not to be parsed; empty if it may be. toml++ 3.3 recurses over the parts of dotted
/// keys without a limit; wherever dots stand, no key has more parts than they allow.
inline std::string beyond_toml_limits(std::string_view text, size_t max_bytes) {
  constexpr int64_t kMaxDots = 1000;
  if (text.size() > max_bytes)
    return fmt::format("{} bytes, more than the limit of {}", text.size(), max_bytes);
  const int64_t dots = std::count(text.begin(), text.end(), '.');
  return dots > kMaxDots ? fmt::format("{} dots, more than the limit of {}", dots, kMaxDots) : "";
}

}  // namespace brim
