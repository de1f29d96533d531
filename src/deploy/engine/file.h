// An engine's file, put together.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "deploy/engine/program.h"

namespace brim::deploy {

/// Elements of an input or output for the samples of the proof.
using ProofTensor = std::string;

struct EngineFile {
  std::vector<EngineProgram> programs;
  const EngineWeights* weights = nullptr;
  std::vector<std::string> inputs, outputs, labels;
  std::map<std::string, std::string> metadata;
  int64_t proof_samples = 0;
  double tolerance = 0;
  std::vector<ProofTensor> proof;  ///< of inputs, then of outputs
};

/// The bytes of the file; rt/format.h says how they lie.
std::string bytes_of(const EngineFile& file);

}  // namespace brim::deploy
