// Text for the user whose loss may not end the work: a full disk, a pipe whose reader is gone.
#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <string>
#include <utility>

namespace brim::cli {

/// fmt::print that never throws. What `to` does not take is lost; std::ferror(to) tells that.
template <typename... Args>
void say(std::FILE* to, fmt::format_string<Args...> text, Args&&... args) noexcept {
  try {
    const std::string line = fmt::format(text, std::forward<Args>(args)...);
    std::fwrite(line.data(), 1, line.size(), to);
  } catch (...) {  // no memory for the text
  }
}

}  // namespace brim::cli
