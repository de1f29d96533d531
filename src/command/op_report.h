// Which kernels a training's time went to, and its plan, for people and for files.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <brim/diag/op_profile.h>
#include <brim/plan/compile.h>

#include "command/device_roof.h"

namespace brim::command {

/// What the roof allows for so many operations and bytes, over what they took. NaN where that is
/// not known.
double share_of_roof(const diag::OpTime& op, const DeviceRoof& roof);

/// The dearest: [{"op", "dtype", "shapes", "calls", "seconds", "operations", "bytes"}, ..]. With a
/// roof that is known "share_of_roof", too.
nlohmann::ordered_json ops_json(const std::vector<diag::OpTime>& ops, size_t most,
                                const DeviceRoof& roof = {});
/// "dearest kernels: conv2d_relu_pool 31 %, ..."; "" without any.
std::string dearest_line(const std::vector<diag::OpTime>& ops);

/// {"arena_bytes", "launches": [[name, operations, bytes], ..], "temporaries":
/// [[shape, dtype, offset, bytes, first, last, in_place], ..]}; null without a plan, or for one of
/// more than 5,000 launches or temporaries.
nlohmann::ordered_json timeline_json(const PlanTimeline& timeline);

}  // namespace brim::command
