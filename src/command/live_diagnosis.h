// What keeps the device of a training waiting that runs, and was not started by the doctor.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "command/run_diagnosis.h"

namespace brim::command {

/// "4711": a process, as `brim top` numbers trainings.
std::optional<int64_t> process_of(std::string_view text);

struct LiveDiagnosis {
  std::string recipe;      ///< as the training names it
  RunDiagnosis stretches;  ///< in which it was watched
};

/// Asks the training of a process of this user again and again, as `brim top` does, for some
/// seconds; nothing of it is changed. Ends early where `stop` is set or the training ends.
/// `progress` may be empty. Throws Error where there is no such training, or it is over before
/// enough of it was seen. `least_share`: as DoctorOptions.
LiveDiagnosis diagnose_process(int64_t pid, double least_share, const std::atomic<int>& stop,
                               const std::function<void(double fraction)>& progress);

}  // namespace brim::command
