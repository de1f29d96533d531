// The patterns of rewrites (backend/rewrite.h), read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace brim::plan {

/// An operand of a launch and what it is called in the pattern.
struct PatternOperand {
  std::string operand, name;
  bool transposed = false;       ///< `.T`
  bool may_be_left_out = false;  ///< `?`
  bool left_out = false;         ///< `-`
};

struct PatternLaunch {
  enum class Kind : uint8_t {
    required,
    optional,  ///< `?`
    bridged,   ///< `~`: without it, its first name is its last one
    witness    ///< `@`: stays
  };
  Kind kind = Kind::required;
  std::string label;
  std::vector<std::string> kernels;  ///< either of these
  bool element = false;              ///< `[]`
  std::vector<PatternOperand> operands;
  size_t part = 0;
};

struct Pattern {
  std::vector<PatternLaunch> launches;
  size_t parts = 1;
};

/// Throws Error naming the line that cannot be read.
Pattern read_pattern(std::string_view text);

}  // namespace brim::plan
