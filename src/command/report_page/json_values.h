// Values out of JSON that anybody may have written: what has another type is not there.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace brim::command::page {

/// What lies at "devices/0/memory", or null.
const nlohmann::json* find(const nlohmann::json& json, std::string_view path);

std::optional<double> finite_number(const nlohmann::json* value);
std::optional<double> number_at(const nlohmann::json& json, std::string_view path);
/// Printable and short; "" for what is no text.
std::string text_at(const nlohmann::json& json, std::string_view path);

/// A name or a line from a file, printable and short.
std::string label_of(std::string_view text);

/// `json` with printable, short texts, and bounded in depth and size.
nlohmann::ordered_json cleaned(const nlohmann::json& json, int depth = 0);

/// Six digits, which is what a chart can show.
double rounded_for_chart(double value);

}  // namespace brim::command::page
