// The scripts of bench/ that measure PyTorch run in a Python that has it; here both are found.
#pragma once

#include <string>
#include <vector>

namespace brim::command {

/// Puts a script of bench/ in this process's place, with `--brim PATH` in front of `arguments`; so
/// it returns only by throwing: FileError if the script or the Python is not there. `python`: "" is
/// $BRIM_PYTHON, then python3.
[[noreturn]] void exec_script(const std::string& python, const std::string& script,
                              const std::vector<std::string>& arguments);

}  // namespace brim::command
