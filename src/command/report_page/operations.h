// Kernels and the plan of result.json, for the page.
#pragma once

#include <nlohmann/json.hpp>

namespace brim::command::page {

/// {"device", "seconds", "roof", "rows": [{"op", "shapes", "calls", ..}, ..]} of a result; null
/// where it has none.
nlohmann::ordered_json operations_of(const nlohmann::json& result);

/// {"arena_bytes", "launches": [name, ..], "live": [bytes at each launch, ..], "temporaries":
/// [[shape, dtype, offset, bytes, first, last], ..]} of a result, the largest temporaries where
/// there are many; null where it has no plan, or one that contradicts itself.
nlohmann::ordered_json plan_of(const nlohmann::json& result);

}  // namespace brim::command::page
