// One moment of a machine and of the trainings on it: all that a view shows.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "command/top/run.h"
#include "diag/machine/machine.h"

namespace brim::top {

struct Moment {
  double time = 0;  ///< Unix seconds
  std::string hostname;
  diag::MachineReading machine;
  int64_t process_count = 0;  ///< `machine.processes` may be the busiest of them only
  std::vector<Gpu> gpus;
  std::vector<Run> runs;

  /// The first one has nothing before it that shares and rates could be of.
  bool has_rates() const { return machine.seconds > 0; }
};

/// Schema brim.top/1: docs/TOP.md.
Json to_json(const Moment& moment);
/// Nothing where the document is not of this schema. What it lacks is empty.
std::optional<Moment> moment_from_json(const Json& document);

/// Leaves the `count` busiest processes, those of runs and those on GPUs, the busiest first.
void keep_busiest(Moment& moment, size_t count);

}  // namespace brim::top
