// The steps of an engine for batches of one size, and their weights.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "deploy/engine/network.h"
#include "rt/format.h"

namespace brim::deploy {

/// The weights of a file. Those that are there are not added again.
class EngineWeights {
 public:
  /// Where the bytes are.
  uint64_t add(const void* data, size_t bytes);
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
  std::unordered_multimap<uint64_t, std::pair<uint64_t, size_t>> by_hash_;
};

struct ProgramValue {
  rt::DType dtype = rt::DType::f32;
  std::vector<int64_t> dims;
  rt::Place place = rt::Place::arena;
  uint64_t at = 0;      ///< of weights, an input or output; of the arena once it is planned
  int storage = -1;     ///< of the arena
  uint64_t offset = 0;  ///< bytes of the storage before it
};

struct ProgramStep {
  rt::OpCode op;
  std::string module;
  std::vector<uint32_t> inputs, outputs;
  std::vector<int64_t> words;
};

struct EngineProgram {
  int64_t batch = 1;  ///< samples of a run
  int64_t pass = 1;   ///< samples that go through the steps together
  uint64_t arena_bytes = 0;
  std::vector<ProgramValue> values;
  std::vector<ProgramStep> steps;
  std::vector<uint32_t> inputs, outputs;  ///< values
};

/// Hears which share of something is done.
using Progress = std::function<void(double fraction)>;

/// Of runs whose passes are the network's batch. `threads`: that layers are measured with. Throws
/// NotImplemented, which lists all operators that engines cannot hold, and the modules they are in.
EngineProgram engine_program(const EngineNetwork& network, int64_t pass, int threads,
                             EngineWeights& weights, const Progress& progress);

std::string_view name_of(rt::OpCode op);

}  // namespace brim::deploy
