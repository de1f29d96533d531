// What `brim shrink` shows of a search.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "command/shrink_state.h"

namespace brim::command {

/// A line for each layer: how long it takes in each form, alone, and what that takes off the
/// outputs.
std::string layer_lines(const ShrinkState& state, int64_t at_batch);
/// A line for each group of channels and each network without some of them; "": there are none.
std::string width_lines(const ShrinkState& state, int64_t at_batch);
/// A line for each point. `metric`: its name, or "".
std::string frontier_lines(const ShrinkState& state, const std::string& metric, int64_t at_batch,
                           std::optional<size_t> chosen);
/// An SVG document of the points.
std::string frontier_drawing(const ShrinkState& state, const std::string& metric, int64_t at_batch,
                             std::optional<size_t> chosen);

}  // namespace brim::command
