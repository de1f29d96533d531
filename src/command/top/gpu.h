// A GPU's reading, and what it is as JSON.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "command/top/fields.h"
#include "diag/gpu_sensor.h"

namespace brim::top {

struct Gpu {
  std::string device;  ///< "cuda:0"
  std::string uuid;    ///< of the card, which other processes may see by another number
  diag::GpuReading reading;
  std::vector<diag::GpuProcess> processes;
  double age = 0;       ///< seconds since it was read
  bool answers = true;  ///< false: the reading is old, and nothing newer came
};

/// {"device": .., "age": .., "answers": .., "utilisation": .., ...}
Json to_json(const Gpu& gpu);
Gpu gpu_from_json(const Json& object);

/// The readings of a run's "gpus": {"cuda:0": {..}}.
std::vector<Gpu> gpus_by_name(const Json& object);
Json by_name(const std::vector<Gpu>& gpus);

}  // namespace brim::top
