// Checks that optimizers share.
#pragma once

#include <vector>

#include "core/check.h"

namespace brim::optim {

inline void check_not_negative(const char* kind, const char* option, double value) {
  BRIM_CHECK(value >= 0, ValueError, "[{}] {} is {}; it must be 0 or more", kind, option, value);
}

/// For decay rates of running means.
inline void check_rate(const char* kind, const char* option, double value) {
  BRIM_CHECK(value >= 0 && value < 1, ValueError, "[{}] {} is {}; it must be in [0, 1)", kind,
             option, value);
}

/// Runs `append`; when it throws, takes the last of `options` back.
template <class O, class F>
void restore_on_error(std::vector<O>& options, F&& append) {
  try {
    append();
  } catch (...) {
    options.pop_back();
    throw;
  }
}

}  // namespace brim::optim
