// BRIM_CHECK(condition, ErrorType, "[op] what, where; what to do", args...): throws when the
// condition is false. The message is formatted only then.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

#include <brim/core/error.h>

namespace brim {

template <class E, class... Args>
[[noreturn, gnu::noinline, gnu::cold]] void raise(fmt::format_string<Args...> format,
                                                  Args&&... args) {
  throw E(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace brim

#define BRIM_CHECK(condition, ErrorType, ...)        \
  do {                                               \
    if (!(condition)) [[unlikely]]                   \
      ::brim::raise<::brim::ErrorType>(__VA_ARGS__); \
  } while (false)
