// A search for a smaller network: measures the dense one and its layers, and makes the points on
// the way to what is wanted, by training and integers.
#pragma once

#include <brim/core/device.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "command/compression_run.h"
#include "command/shrink_path.h"

namespace brim::command {

/// In --out: of the search.
inline constexpr const char* kSearchFolder = "shrink";

struct ShrinkArguments : CompressionArguments {
  std::string latency, size, pattern = "vector:8", svg;
  std::optional<double> accuracy;
  std::vector<std::string> keep;
  int64_t at_batch = 1, finetune = 5, points = 0, samples = 256;
  double teach = 0.5;
  bool resume = false, overwrite = false;
};

/// From the beginning, or from where it was stopped. Returns the exit status.
int run_search(const ShrinkArguments& o, const ShrinkTarget& target, Device device);

}  // namespace brim::command
