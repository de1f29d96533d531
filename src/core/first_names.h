// Names in messages, which must stay readable where there are many.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <string>

namespace brim {

/// The first ten, and how many there are: "a, b, c, d, e, f, g, h, i, j and 52 more, 62 in all".
inline std::string first_names(std::span<const std::string> names) {
  constexpr size_t kShown = 10;
  const size_t shown = std::min(names.size(), kShown);
  std::string text = fmt::format("{}", fmt::join(names.first(shown), ", "));
  if (shown < names.size())
    text += fmt::format(" and {} more, {} in all", names.size() - shown, names.size());
  return text;
}

}  // namespace brim
