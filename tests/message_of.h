// What an error says.
#pragma once

#include <string>

#include <brim/core/error.h>

namespace brim::tests {

/// What `f` throws as an E, as text; "no error" where it throws nothing. Anything else passes
/// through.
template <class E = Error, class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace brim::tests
