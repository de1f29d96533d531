// JSON that comes from a file.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace brim {

/// `text` parsed; discarded where it is no JSON. nlohmann takes a NUL for the end of the text, so
/// anything could follow one.
template <class Json = nlohmann::json>
Json parse_json(std::string_view text) {
  if (text.find('\0') != std::string_view::npos) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, false);
}

}  // namespace brim
