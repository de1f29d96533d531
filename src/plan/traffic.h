// How much memory launches read and write. On a device that is full, bytes decide the time of all
// launches but large products.
#pragma once

#include <cstdint>

#include "plan/program.h"
#include "plan/recorder.h"

namespace brim::plan {

/// Bytes that a launch reads and writes, by its kernel's declaration: of each tensor among its
/// operands the elements, once for reading and once for writing. What is broadcast counts as it
/// lies in memory; an operand that is given twice counts once. How often a kernel reads an operand
/// does not count.
int64_t bytes_of(const Launch& launch);

struct Traffic {
  int64_t launches = 0;
  int64_t bytes = 0;
};
Traffic traffic_of(const Program& program);
/// Of `step` as it runs eagerly: recorded, not run, with the launches that its ops make then.
/// Throws what record() throws.
Traffic eager_traffic(const Step& step, std::span<const Tensor> inputs);

}  // namespace brim::plan
