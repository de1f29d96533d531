// The valid name that a mistyped one probably meant, for error messages.
#pragma once

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace brim {

/// Number of letters to insert, delete or replace to turn `a` into `b` (Levenshtein).
inline size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

/// The candidate with the least edit distance to `name`; empty when there are none.
template <class Names>
std::string nearest_name(std::string_view name, const Names& candidates) {
  std::string best;
  size_t least = std::string::npos;
  for (const auto& candidate : candidates) {
    const size_t distance = edit_distance(name, candidate);
    if (distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

/// "; did you mean 'epochs'?" where a candidate is near enough to be meant, else the list of them.
inline std::string suggestion(std::string_view name, const std::vector<std::string>& candidates) {
  if (candidates.empty()) return "";
  // A name from a file may be of any length; nothing this long is a slip of the hand.
  const std::string best = name.size() <= 64 ? nearest_name(name, candidates) : "";
  if (!best.empty() && edit_distance(name, best) <= std::max<size_t>(2, name.size() / 3))
    return "; did you mean '" + best + "'?";
  std::string known;
  for (const std::string& candidate : candidates) known += (known.empty() ? "" : ", ") + candidate;
  return "; known are " + known;
}

}  // namespace brim
