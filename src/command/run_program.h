// Another program, run until it ends.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace brim::command {

/// Its exit code, or 128 and the signal that ended it. A terminal's Ctrl-C reaches it by itself; a
/// signal to this process alone is passed on. `variable`: of its environment, name and value.
/// `prints_to_errors`: its standard output goes to that of errors. Throws Error where it cannot be
/// started.
int run_program(std::vector<std::string> words, const std::pair<std::string, std::string>& variable,
                bool prints_to_errors);

}  // namespace brim::command
