#include "command/top/fields.h"

#include <algorithm>
#include <cmath>

namespace brim::top {
namespace {

constexpr size_t kMaxText = 256, kMaxNumbers = 64;
constexpr double kMaxNumber = 1e18;  // an int64_t can hold it

std::optional<double> finite(const Json& value) {
  if (!value.is_number()) return {};
  const double n = value.get<double>();
  return std::abs(n) <= kMaxNumber ? std::optional(n) : std::nullopt;
}

/// Not within a character of UTF-8.
std::string beginning(const std::string& value) {
  if (value.size() <= kMaxText) return value;
  size_t end = kMaxText;
  while (end > 0 && (static_cast<uint8_t>(value[end]) & 0xc0) == 0x80) --end;
  return value.substr(0, end);
}

}  // namespace

const Json& member(const Json& object, const char* key) {
  static const Json null;
  if (!object.is_object()) return null;
  const auto found = object.find(key);
  return found == object.end() ? null : *found;
}

std::optional<double> number(const Json& object, const char* key) {
  return finite(member(object, key));
}

std::optional<int64_t> integer(const Json& object, const char* key) {
  const auto n = number(object, key);
  return n ? std::optional(static_cast<int64_t>(*n)) : std::nullopt;
}

std::string text(const Json& object, const char* key) {
  const Json& value = member(object, key);
  return value.is_string() ? beginning(value.get_ref<const std::string&>()) : "";
}

std::vector<std::string> texts(const Json& array, size_t limit) {
  std::vector<std::string> result;
  if (!array.is_array()) return result;
  for (const Json& element : array)
    if (element.is_string() && result.size() < limit)
      result.push_back(beginning(element.get_ref<const std::string&>()));
  return result;
}

bool is_true(const Json& object, const char* key) { return member(object, key) == true; }

std::vector<const Json*> objects(const Json& array, size_t limit) {
  std::vector<const Json*> result;
  if (!array.is_array()) return result;
  for (const Json& element : array)
    if (element.is_object() && result.size() < limit) result.push_back(&element);
  return result;
}

Named numbers(const Json& object) {
  Named result;
  if (!object.is_object()) return result;
  for (const auto& [name, value] : object.items())
    if (const auto n = finite(value); n && result.size() < kMaxNumbers)
      result.emplace_back(beginning(name), *n);
  return result;
}

Json to_json(const Named& numbers) {
  Json object = Json::object();
  for (const auto& [name, value] : numbers) object[name] = value;
  return object;
}

bool is_of(const Json& document, std::string_view schema) {
  return text(document, "schema") == schema;
}

}  // namespace brim::top
