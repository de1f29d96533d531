// What a program's own training loop waits for, and where it does so in its source.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <brim/train/doctor.h>

namespace brim::command {

/// A call in which the program waits for its device.
struct Wait {
  std::string op;  ///< "host_read"
  diag::Cause cause = diag::Cause::host_read;
  int64_t count = 0;
  double seconds = 0;
  /// Of the calls that it stands in, innermost first: "train.cpp:42 in main()".
  std::vector<std::string> stack;
};

struct ProgramDiagnosis {
  std::string device;
  /// `runs`: stretches of the loop; its causes have the calls that wait, and what helps.
  train::Diagnosis diagnosis;
  double seconds = 0;  ///< of the loop
  int64_t batches = 0;
  std::vector<Wait> waits;  ///< the longest first
  int exit_code = 0;        ///< of the program
};

/// Runs the program until it ends and tells what its loop did meanwhile. Throws Error where it
/// cannot be started, and where it took no batches from a loader of brim's, or too few.
/// `prints_to_errors`: what it prints goes to standard error, for output is for machines.
ProgramDiagnosis diagnose_program(const std::vector<std::string>& words, double least_share,
                                  bool prints_to_errors);

}  // namespace brim::command
