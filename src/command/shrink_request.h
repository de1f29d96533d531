// What `brim shrink` is asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "command/compression_run.h"
#include "command/shrink_state.h"

namespace brim::command {

struct ShrinkArguments : CompressionArguments {
  std::string latency, size, svg;
  std::vector<std::string> patterns;
  std::optional<double> accuracy;
  std::vector<std::string> keep;
  int64_t at_batch = 1, finetune = 5, points = 0, samples = 256;
  double teach = 0.5;
  bool resume = false, overwrite = false;
};

/// What layers may lose besides bits.
struct ShrinkPatterns {
  bool channels = true;
  int64_t vector = 8;  ///< outputs that share one
  bool prunes_vectors = true;

  /// Of options as they are typed: "channels", "vector:16", or "none" alone; none of them: both.
  /// Throws UsageError.
  static ShrinkPatterns parse(const std::vector<std::string>& patterns);
};

/// What is wanted; at least one of them.
struct ShrinkTarget {
  std::optional<double> seconds;         ///< that a pass takes at most
  std::optional<int64_t> bytes;          ///< that the file has at most
  std::optional<double> loss_of_metric;  ///< at most, as a fraction

  /// Of options as they are typed: "3ms", "500k", points. Throws UsageError.
  static ShrinkTarget parse(const std::string& latency, const std::string& size,
                            std::optional<double> accuracy);
  /// Whether only the accuracy says how small the network may get.
  bool is_open() const { return !seconds && !bytes; }
  bool is_met_by(const ShrunkPoint& point, const ShrunkPoint& dense) const;
  /// What is taken, as a multiple of the limits: the worse one.
  double share_of_limits(double taken_s, int64_t taken_bytes) const;
};

}  // namespace brim::command
