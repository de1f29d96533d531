// Things by name, which programs add to from any thread.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/nearest.h"

namespace brim {

template <class T>
class Registry {
 public:
  /// For messages: "models", "network".
  Registry(const char* module, const char* noun) : module_(module), noun_(noun) {}

  /// Throws ValueError when the name is empty or taken.
  bool add(const std::string& name, T value) {
    const std::lock_guard lock(mutex_);
    BRIM_CHECK(!name.empty(), ValueError, "[{}] a {} needs a name", module_, noun_);
    const bool added = values_.emplace(name, std::move(value)).second;
    BRIM_CHECK(added, ValueError, "[{}] there is a {} '{}' already", module_, noun_, name);
    return true;
  }

  std::vector<std::string> names() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [name, value] : values_) names.push_back(name);
    return names;
  }

  bool has(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    return values_.contains(name);
  }

  /// Throws ValueError naming the nearest valid name.
  T get(const std::string& name) const {
    const std::vector<std::string> known = names();
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(name);
    BRIM_CHECK(found != values_.end(), ValueError,
               "[{}] there is no {} '{}'; did you mean '{}'? Known: {}", module_, noun_, name,
               nearest_name(name, known), fmt::join(known, ", "));
    return found->second;
  }

 private:
  const char *module_, *noun_;
  mutable std::mutex mutex_;
  std::map<std::string, T> values_;
};

}  // namespace brim
