// Which kernels a piece of code launches.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <brim/diag/account.h>
#include <brim/diag/trace.h>
#include <nlohmann/json.hpp>

#include "backend/has_kernel.h"

namespace brim {

/// The names of what this thread launches, or computes, in f.
inline std::vector<std::string> launches(const std::function<void()>& f) {
  const diag::Trace trace;
  {
    const diag::Accountant accountant;
    f();
  }
  std::string text;
  trace.write([&](std::string_view piece) { text += piece; });
  const auto json = nlohmann::json::parse(text);
  std::vector<std::string> names;
  for (const auto& event : json["traceEvents"])
    if (event["ph"] == "X" && (event["cat"] == "dispatch" || event["cat"] == "compute"))
      if (const std::string name = event["name"]; backend::detail::find_slot(name))
        names.push_back(name);
  return names;
}

}  // namespace brim
