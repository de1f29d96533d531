// See environment.h.
#include "core/environment.h"

#include <charconv>
#include <cstdlib>

#include <brim/core/error.h>

#include "core/check.h"
#include "core/printable.h"

namespace brim {

std::string environment(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value ? value : "";
}

bool environment_switch(const char* name) {
  const std::string value = environment(name);
  BRIM_CHECK(value.empty() || value == "0" || value == "1", ValueError,
             "[environment] {}='{}' is no switch; use 1 or 0", name, value);
  return value == "1";
}

int64_t environment_number(const char* name, int64_t otherwise) {
  const std::string value = environment(name);
  if (value.empty()) return otherwise;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  BRIM_CHECK(error == std::errc() && end == value.data() + value.size() && number >= 0, ValueError,
             "[environment] {}='{}' is no number; use 0 or more", name, value);
  return number;
}

}  // namespace brim
