// What went wrong, as a line for the caller.
#pragma once

#include <cstdarg>
#include <cstdio>

#include <brim_rt.h>

namespace brim::rt {

/// Fills in the caller's error, where there is one.
class Failure {
 public:
  explicit Failure(brim_rt_error* error) : error_(error) {}

  /// Returns `code`.
  [[gnu::format(printf, 3, 4)]] int operator()(brim_rt_code code, const char* format, ...) const {
    if (!error_) return code;
    error_->code = code;
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(error_->message, sizeof error_->message, format, arguments);
    va_end(arguments);
    return code;
  }

 private:
  brim_rt_error* error_;
};

}  // namespace brim::rt
