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
  RunDiagnosis seen;       ///< of the windows in which it was watched
  bool has_ended = false;  ///< while it was
};

/// Asks the training of a process of this user again and again, as `brim top` does, for ten windows
/// of a second or a step; nothing of it is changed. Ends early where the training does, or `stop`
/// is set; nothing where that was before enough was seen. `progress` may be empty. Throws Error
/// where there is no such training, it ends too early, or does no step for two minutes.
/// `least_share`: as DoctorOptions.
std::optional<LiveDiagnosis> diagnose_process(int64_t pid, double least_share,
                                              const std::atomic<int>& stop,
                                              const std::function<void(double fraction)>& progress);

}  // namespace brim::command
