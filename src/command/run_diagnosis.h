// What kept a training's device waiting, by the history in its folder.
#pragma once

#include <string>

#include <brim/train/doctor.h>

namespace brim::command {

struct RunDiagnosis {
  std::string device;          ///< the first one
  train::Diagnosis diagnosis;  ///< `runs`: the stretches between reports that it is of
  double seconds = 0;          ///< of all of them
};

/// Whether `path` is the folder of a training, which may still run.
bool is_run(const std::string& path);

/// Throws FileError where the folder cannot be read or its history holds too little, saying what is
/// needed. `least_share`: as DoctorOptions.
RunDiagnosis diagnose_run(const std::string& folder, double least_share);

}  // namespace brim::command
