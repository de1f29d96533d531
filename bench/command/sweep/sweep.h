// `brim bench sweep`: every public op that computes beside PyTorch, measured by
// bench/sweep_torch.py, which asks `brim bench sweep --serve` for brim's side.
#pragma once

#include <string>
#include <vector>

namespace brim::command {

struct SweepArguments {
  std::vector<std::string> ops;                 ///< none: all
  std::string python;                           ///< "": $BRIM_PYTHON, then python3
  std::string sizes, dtypes, layouts, threads;  ///< comma-separated; "": the script's own
  std::string json;
  int rounds = 0;      ///< 0: the script's own number
  double seconds = 0;  ///< the same
  double below = 0;    ///< the same
  bool serve = false;
};

/// Puts the script in this process's place; see exec_script(). With `serve` it serves instead, and
/// returns at the end of the input; `list` as the only op prints the ops. Throws UsageError for
/// what no case has.
int run_sweep(const SweepArguments& arguments);

}  // namespace brim::command
