// Fields of JSON documents that others wrote: what is missing, or of another type, is not told.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace brim::top {

using Json = nlohmann::ordered_json;

/// Finite and at most 1e18 in magnitude.
std::optional<double> number(const Json& object, const char* key);
/// The number without its fraction.
std::optional<int64_t> integer(const Json& object, const char* key);
/// The first 256 bytes; "" where it is not told.
std::string text(const Json& object, const char* key);
/// The array's elements that are texts, at most `limit`; of anything else none.
std::vector<std::string> texts(const Json& array, size_t limit);
bool is_true(const Json& object, const char* key);
/// The value, or null.
const Json& member(const Json& object, const char* key);
/// The array's elements that are objects, at most `limit`; of anything else none.
std::vector<const Json*> objects(const Json& array, size_t limit);

/// Numbers with names, such as seconds by cause, in their order.
using Named = std::vector<std::pair<std::string, double>>;
/// The object's numbers that are finite, at most 64.
Named numbers(const Json& object);
Json to_json(const Named& numbers);

template <class T>
Json known(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

/// Whether the document says that it is of this schema, "brim.run/1".
bool is_of(const Json& document, std::string_view schema);

}  // namespace brim::top
