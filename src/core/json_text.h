// JSON that comes from a file.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace brim {

/// Whether arrays and objects nest deeper than any file of brim's. nlohmann copies them
/// recursively, so a line of brackets would overflow the stack.
inline bool nests_too_deep(std::string_view text) {
  constexpr int kMaxDepth = 256;
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\')
      ++i;
    else if (c == '"')
      in_string = !in_string;
    else if (!in_string && (c == '[' || c == '{') && ++depth > kMaxDepth)
      return true;
    else if (!in_string && (c == ']' || c == '}'))
      --depth;
  }
  return false;
}

/// `text` parsed; discarded where it is no JSON or nests too deep. nlohmann takes a NUL for the end
/// of the text, so anything could follow one.
template <class Json = nlohmann::json>
Json parse_json(std::string_view text) {
  if (text.find('\0') != std::string_view::npos || nests_too_deep(text))
    return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, false);
}

}  // namespace brim
