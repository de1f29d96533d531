// All that the page shows, as one JSON object for its script.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "command/report_page/run.h"

namespace brim::command::page {

/// Thinned so that a page stays below 1 MB, however many lines the charts have together.
nlohmann::ordered_json model_of(const std::vector<Run>& runs);

}  // namespace brim::command::page
