// What a training knows twice, by ways that share nothing, held against each other.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include <brim/diag/monitor.h>
#include <brim/train/trainer.h>

namespace brim::command {

/// {"cuda:0": [{"what", "one", "other", "residual", "reason"}, ..]}: the wall time of the account
/// and a steady clock; the device's work by the account and by its own clock; the joules of its
/// counter and of its power over time. Null where there is no second way; `reason` says why then,
/// and where they differ what the likely cause is.
nlohmann::ordered_json reconciliation_json(const train::TrainResult& result,
                                           const std::optional<diag::MonitorSummary>& sensors);
/// A line for each entry whose residual is above 0.5 %.
std::vector<std::string> reconciliation_lines(const nlohmann::ordered_json& reconciliation);

}  // namespace brim::command
