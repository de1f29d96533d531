// The account of a device's time in the JSON of `brim train`.
#pragma once

#include <nlohmann/json.hpp>

namespace brim::tests {

/// Of the shares of all causes.
inline double sum_of(const nlohmann::json& account) {
  double sum = 0;
  for (const auto& [cause, share] : account.items()) sum += share.get<double>();
  return sum;
}

}  // namespace brim::tests
