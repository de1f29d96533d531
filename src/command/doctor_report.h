// What the doctor has found and done, as text and as JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include <brim/train/doctor.h>

#include "command/live_diagnosis.h"
#include "command/program_diagnosis.h"
#include "command/run_diagnosis.h"
#include "command/train_request.h"

namespace brim::command {

/// "tutorial-cnn: batch 4 of shapes10 on sim:0 in fp32"
std::string examined_line(const TrainRequest& request);

/// "  4 loader workers: 1.52 times as fast (1.48 to 1.56), 3 pairs: kept"
std::string trial_line(const train::Trial& trial);

/// What the device waits for, and what input costs.
void print_diagnosis(const train::Diagnosis& diagnosis, std::string_view device);

/// What was kept, what is left to wait for, and the command to train with.
void print_cure(const TrainRequest& request, const train::Cure& cure);

/// The recipe with what was kept, as a file.
std::string recipe_text(const TrainRequest& request, const train::Cure& cure);

void print_run(const std::string& folder, const RunDiagnosis& found);
void print_process(int64_t pid, const LiveDiagnosis& found);
void print_program(const std::vector<std::string>& words, const ProgramDiagnosis& found);

/// Schema brim.doctor/1: docs/DOCTOR.md.
nlohmann::ordered_json run_json(const std::string& folder, const RunDiagnosis& found);
nlohmann::ordered_json process_json(int64_t pid, const LiveDiagnosis& found);
nlohmann::ordered_json program_json(const std::vector<std::string>& words,
                                    const ProgramDiagnosis& found);
nlohmann::ordered_json doctor_json(const TrainRequest& request, const train::Cure& cure,
                                   bool fixed);

}  // namespace brim::command
