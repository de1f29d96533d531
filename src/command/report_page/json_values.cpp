#include "command/report_page/json_values.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "io/text.h"

namespace brim::command::page {
namespace {

constexpr size_t kMaxText = 200, kMaxEntries = 1000;
constexpr int kMaxDepth = 6;
/// Beyond it arithmetic on what was read could overflow, and nothing that is measured is as large.
constexpr double kLargest = 1e30;

}  // namespace

const nlohmann::json* find(const nlohmann::json& json, std::string_view path) {
  const nlohmann::json* at = &json;
  while (at && !path.empty()) {
    const size_t slash = path.find('/');
    const std::string key(path.substr(0, slash));
    path = slash == std::string_view::npos ? "" : path.substr(slash + 1);
    const nlohmann::json* next = nullptr;
    if (at->is_object()) {
      if (const auto found = at->find(key); found != at->end()) next = &*found;
    } else if (at->is_array()) {
      size_t index = 0;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
      if (error == std::errc() && end == key.data() + key.size() && index < at->size())
        next = &(*at)[index];
    }
    at = next;
  }
  return at;
}

std::optional<double> finite_number(const nlohmann::json* value) {
  if (!value || !value->is_number()) return std::nullopt;
  const double number = value->get<double>();
  if (!std::isfinite(number) || std::abs(number) > kLargest) return std::nullopt;
  return number;
}

std::optional<double> number_at(const nlohmann::json& json, std::string_view path) {
  return finite_number(find(json, path));
}

std::string label_of(std::string_view text) { return io::shortened(text, kMaxText); }

std::string text_at(const nlohmann::json& json, std::string_view path) {
  const nlohmann::json* value = find(json, path);
  return value && value->is_string() ? label_of(value->get_ref<const std::string&>()) : "";
}

nlohmann::ordered_json cleaned(const nlohmann::json& json, int depth) {
  if (json.is_string()) return label_of(json.get_ref<const std::string&>());
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number()) {
    const std::optional<double> number = finite_number(&json);
    if (!number) return nullptr;
    if (json.is_number_unsigned()) return json.get<uint64_t>();
    if (json.is_number_integer()) return json.get<int64_t>();
    return *number;
  }
  if (depth == kMaxDepth || !json.is_structured()) return nullptr;
  auto result =
      json.is_object() ? nlohmann::ordered_json::object() : nlohmann::ordered_json::array();
  for (const auto& [key, value] : json.items()) {
    if (result.size() == kMaxEntries) break;
    if (json.is_object())
      result[label_of(key)] = cleaned(value, depth + 1);
    else
      result.push_back(cleaned(value, depth + 1));
  }
  return result;
}

double rounded_for_chart(double value) {
  return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr);
}

}  // namespace brim::command::page
