// `brim bench compare`: brim beside PyTorch, measured by bench/compare_torch.py.
#pragma once

#include <string>
#include <vector>

namespace brim::command {

struct CompareArguments {
  std::vector<std::string> cases;  ///< none: all
  std::string python;              ///< "": $BRIM_PYTHON, then python3
  std::vector<std::string> parts;  ///< of the comparison; none: all
  std::string json, svg;
  int threads = 0;  ///< 0: as many as there are
  int rounds = 0;   ///< 0: the script's own number
  double seconds = 0;
};

/// Puts the script in this process's place; see exec_script().
[[noreturn]] void run_compare(const CompareArguments& arguments);

}  // namespace brim::command
