// brim's side of the sweep, case by case: bench/compare/sweep/server.py asks, in turns with
// PyTorch.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/command/sweep/ops.h"

namespace brim::command {

/// Answers requests, each one JSON object in one line:
///
///     {"list": true} -> {"ops": [{"op": "add", "family": "binary", "layouts": [..], "dtypes":
///     [..]}]}
///     {"op": "add", "layout": "dense", "dtype": "f32", "elements": 10000, "threads": 1,
///      "seconds": 0.03} -> {"us": 2.1, "cpu_us": 2.1, "results": ["f32 (10000)"]}
///
/// The operands are kept for requests of the same case that follow. What fails is answered by
/// {"error": "why"}.
class SweepServer {
 public:
  SweepServer();
  std::string answer(const std::string& line);

 private:
  nlohmann::ordered_json list() const;
  nlohmann::ordered_json time(const nlohmann::json& request);

  std::vector<SweepOp> ops_;
  std::string current_;  // the case of what follows
  SweepRun run_;
  std::vector<std::string> results_;
};

}  // namespace brim::command
