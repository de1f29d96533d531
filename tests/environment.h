// A variable of the environment while a test runs.
#pragma once

#include <stdlib.h>  // setenv is POSIX

#include <optional>
#include <string>
#include <utility>

namespace brim::tests {

/// Sets the variable; at its end the variable is as it was before. Other threads may not read the
/// environment meanwhile.
class Environment {
 public:
  Environment(std::string name, const std::string& value) : name_(std::move(name)) {
    if (const char* before = getenv(name_.c_str())) before_ = before;
    set(value);
  }
  ~Environment() {
    if (before_)
      set(*before_);
    else
      unsetenv(name_.c_str());
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  void set(const std::string& value) { setenv(name_.c_str(), value.c_str(), 1); }

 private:
  std::string name_;
  std::optional<std::string> before_;
};

}  // namespace brim::tests
