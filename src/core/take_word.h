// Taking short texts apart, such as declarations in the source.
#pragma once

#include <algorithm>
#include <string_view>

namespace brim {

inline std::string_view without_blanks_around(std::string_view s) {
  while (s.starts_with(' ')) s.remove_prefix(1);
  while (s.ends_with(' ')) s.remove_suffix(1);
  return s;
}

/// Takes what stands before `mark`, and the mark, off `rest`: all of it where there is none.
inline std::string_view take_word(std::string_view& rest, char mark) {
  const size_t end = std::min(rest.find(mark), rest.size());
  const std::string_view front = without_blanks_around(rest.substr(0, end));
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return front;
}

}  // namespace brim
