// What `brim train` prints of a run, and writes to --json.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include <brim/diag/monitor.h>
#include <brim/train/trainer.h>

#include "command/run_phases.h"
#include "command/train_request.h"

namespace brim::command {

/// What is counted a second: "img" or "samples".
const char* counted(const train::Trainer& trainer);
/// What is trained on what, before the first step.
void print_start(const TrainRequest& request, const train::Trainer& trainer);
/// What came of it and where the time went. `trained`: to the end; `failed`: something after it
/// did.
void print_result(const TrainRequest& request, const train::Trainer& trainer,
                  const train::TrainResult& result, bool trained, bool failed);
/// Joules of the training by device, and for each sample: what was drawn between two readings,
/// taken for all of its time; of several processes this one's, and none for a sample. Null where no
/// sensor tells.
nlohmann::ordered_json energy_json(const TrainRequest& request, const train::TrainResult& result,
                                   const std::optional<diag::MonitorSummary>& sensors);
/// "energy: 12 J on cpu, 345 J on cuda:0; 0.0357 J a sample"
std::string energy_line(const nlohmann::ordered_json& energy);

nlohmann::ordered_json result_json(const TrainRequest& request, const train::Trainer& trainer,
                                   const train::TrainResult& result, double startup_ms,
                                   const RunPhases& phases,
                                   const std::optional<diag::MonitorSummary>& sensors);

/// Where the run stands after a stop, and what to type to go on.
std::string resume_hint(const TrainArguments& arguments, const train::Trainer& trainer,
                        const train::TrainResult& result);
/// For the end of an error's line: the checkpoint that is kept, and how to go on from it.
std::string kept_hint(const TrainArguments& arguments);

}  // namespace brim::command
