// What a short training shows besides its account: why causes may cost what they do.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <brim/train/doctor.h>

#include "diag/machine/machine.h"

namespace brim::train {

/// Watches the machine from when it is made.
class MachineWatch {
 public:
  MachineWatch();
  /// Since then; what is not the machine's is left out.
  Evidence evidence();

 private:
  diag::MachineReader reader_;
  std::chrono::steady_clock::time_point begin_;
};

/// Of several trainings: sums of seconds, means of the rest.
Evidence mean_of(const std::vector<Evidence>& all);

/// What `evidence` says of the cause, which takes `share` of the time.
std::vector<std::string> reasons(const Evidence& evidence, diag::Cause cause, double share);

}  // namespace brim::train
