// What differs between several runs, as the rows of a table.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "command/report_page/run.h"

namespace brim::command::page {

/// Seconds by device and cause: of the history, or else of result.json.
std::map<std::string, std::map<std::string, double>> final_accounts(const Run& run);

/// [{"key": "rate" | .. | "cause", "cause": .., "values": [..], "differences": [..], "spread":
/// ..}]: a difference is a fraction of the first run's value. The spread is (largest - smallest) /
/// mean over the runs that repeat a recipe; of several such groups the widest.
nlohmann::ordered_json comparison(const std::vector<Run>& runs);

}  // namespace brim::command::page
