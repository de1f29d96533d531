// `brim bench compare`: brim beside PyTorch. The measuring is done by bench/compare_torch.py, in a
// Python that has PyTorch; here both are found.
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

/// Puts the script in this process's place, so it returns only by throwing: FileError if the script
/// or the Python is not there.
[[noreturn]] void run_compare(const CompareArguments& arguments);

}  // namespace brim::command
