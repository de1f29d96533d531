// The samples that a network is most wrong about, with their pictures, for the page.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace brim::command::page {

/// [{"sample", "class", "predicted", "probability", "picture"}, ..] of a result, at most 16. The
/// picture is a PNG file out of the run's folder in base64, or null where there is none of at most
/// 64 KiB.
nlohmann::ordered_json most_wrong_of(const nlohmann::json& result, const std::string& folder);

std::string base64(std::string_view bytes);

}  // namespace brim::command::page
