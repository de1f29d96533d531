// The page: the template with its style, scripts and data in place.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace brim::command::page {

/// JSON as the content of a script element: nothing in it ends the element or a line of a script.
std::string json_for_script(const nlohmann::ordered_json& json);

std::string escaped_for_html(std::string_view text);

/// `template_text` with every {{NAME}} replaced once, by what `value_of` gives for it. What was put
/// in is not looked at again.
std::string filled(std::string_view template_text,
                   const std::function<std::string(std::string_view)>& value_of);

/// `language`: "en" or "ko".
std::string html_page(const nlohmann::ordered_json& model, const std::string& language);

}  // namespace brim::command::page
