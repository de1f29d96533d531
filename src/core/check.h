// BRIM_CHECK(condition, ErrorType, "[op] what, where; what to do", args...): throws when the
// condition is false. The message is formatted only then.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

#include <brim/core/error.h>

namespace brim {

template <class E>
[[noreturn, gnu::noinline, gnu::cold, gnu::visibility("hidden")]] void raise_formatted(
    fmt::string_view format, fmt::format_args args) {
  throw E(fmt::vformat(format, args));
}

/// There are hundreds of these: each only says where its arguments lie.
template <class E, class... Args>
[[noreturn, gnu::noinline, gnu::cold, gnu::visibility("hidden")]] void raise(
    fmt::format_string<Args...> format, Args&&... args) {
  raise_formatted<E>(format, fmt::make_format_args(args...));
}

}  // namespace brim

#define BRIM_CHECK(condition, ErrorType, ...)        \
  do {                                               \
    if (!(condition)) [[unlikely]]                   \
      ::brim::raise<::brim::ErrorType>(__VA_ARGS__); \
  } while (false)
