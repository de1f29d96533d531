// A program of a model with the memory that its runs need.
#pragma once

#include <atomic>

#include "rt/model.h"
#include "rt/step.h"

struct brim_rt_session {
  const brim_rt_model* model = nullptr;
  const brim::rt::ProgramRecord* program = nullptr;
  size_t bytes = 0;  ///< of the block that all of this lies in
  size_t arena_bytes = 0;
  brim::rt::Isa isa{};
  brim::rt::Threads threads;
  brim::rt::Operand* values = nullptr;
  brim::rt::Step* steps = nullptr;
  brim_rt_port* ports = nullptr;  ///< inputs, then outputs
  int inputs = 0, outputs = 0;
  uint32_t* port_values = nullptr;
  char* arena = nullptr;
  void* scratch = nullptr;
  size_t scratch_bytes = 0;
  std::atomic<bool> is_cancelled{false};
};
