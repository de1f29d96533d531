// A program of a model with the memory that its runs need.
#pragma once

#include <atomic>

#include "rt/model.h"
#include "rt/step.h"

namespace brim::rt {

/// What one pass at a time needs of its own.
struct Lane {
  Operand* values = nullptr;
  Step* steps = nullptr;
  uint64_t value_count = 0, step_count = 0;
  const uint32_t* ids = nullptr;
  const int64_t* words = nullptr;
  char* arena = nullptr;
  void* scratch = nullptr;
  brim_rt_error error{};
};

}  // namespace brim::rt

/// A run is passes of some samples each. Where there are several, each thread takes whole ones
/// through all steps, in a lane of its own; else the threads share the work of each step.
struct brim_rt_session {
  const brim_rt_model* model = nullptr;
  const brim::rt::ProgramRecord* program = nullptr;
  size_t bytes = 0;  ///< of the block that all of this but scratch memory lies in
  brim::rt::Isa isa{};
  brim::rt::Threads threads, one_thread;
  brim::rt::Lane* lanes = nullptr;
  int lane_count = 0;
  brim_rt_port* ports = nullptr;  ///< inputs, then outputs
  uint32_t* port_values = nullptr;
  int inputs = 0, outputs = 0;
  char* scratch = nullptr;
  size_t scratch_bytes = 0;  ///< of all lanes
  std::atomic<bool> is_cancelled{false};
  std::atomic<int64_t> next_pass{0};

  int64_t passes() const { return program->batch / program->pass; }
  /// Threads within a step.
  const brim::rt::Threads& step_threads() const { return lane_count > 1 ? one_thread : threads; }
};
