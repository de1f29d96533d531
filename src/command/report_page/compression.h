// What `brim prune`, `quantize` and `shrink` made of a network, as their result.json says it.
#pragma once

#include <nlohmann/json.hpp>

namespace brim::command::page {

/// Evaluations in their order ("stages": what, loss, metrics, difference, seconds of a pass,
/// bytes; of many "points" those that matter), "layers" (name, shape, what each "became": int8,
/// zeros, error, fewer_channels, shape, why; the first of "all_layers") and "times" (batch, before,
/// after). Null for the result of another command.
nlohmann::ordered_json compression_of(const nlohmann::json& result);

}  // namespace brim::command::page
