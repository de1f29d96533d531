// What a mistyped word of the command line probably meant.
#pragma once

#include <string>
#include <vector>

#include "core/nearest.h"

namespace brim::command {

/// "; did you mean 'softmax-128x1000'?" also for "softmx", which is near its beginning only.
inline std::string hint(const std::string& word, const std::vector<std::string>& names) {
  std::string text = suggestion(word, names);
  if (word.size() < 4 || text.starts_with("; did you mean")) return text;
  size_t least = word.size() / 3 + 1;
  for (const std::string& name : names) {
    if (name.size() <= word.size()) continue;
    const size_t distance = edit_distance(word, name.substr(0, word.size()));
    if (distance >= least) continue;
    least = distance;
    text = "; did you mean '" + name + "'?";
  }
  return text;
}

}  // namespace brim::command
