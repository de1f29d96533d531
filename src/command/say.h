// Text for the user whose loss may not end the work: a full disk, a pipe whose reader is gone.
#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/printable.h"

namespace brim::command {

/// Text of several lines that brim made, of names that are printable.
struct Lines {
  std::string text;
};

/// An argument of say() as it is shown. Names come from files.
template <class T>
decltype(auto) shown(const T& argument) {
  if constexpr (std::is_same_v<T, Lines>)
    return printable(argument.text, "\n");
  else if constexpr (std::is_convertible_v<const T&, std::string_view>)
    return printable(argument);
  else
    return argument;
}

/// fmt::print that never throws, with text among the arguments made printable. What `to` does not
/// take is lost; std::ferror(to) tells that.
template <typename... Args>
void say(std::FILE* to, fmt::format_string<decltype(shown(std::declval<const Args&>()))...> text,
         const Args&... args) noexcept {
  try {
    const std::string line = fmt::format(text, shown(args)...);
    std::fwrite(line.data(), 1, line.size(), to);
  } catch (...) {  // no memory for the text
  }
}

}  // namespace brim::command
