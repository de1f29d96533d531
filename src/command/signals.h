// SIGINT, SIGTERM and SIGHUP (the terminal or the connection is gone) ask for a clean stop; a
// second SIGINT or SIGTERM ends the process at once.
#pragma once

#include <atomic>
#include <initializer_list>

namespace brim::command {

/// Installs the handlers, for `others` as well, and returns where the signal's number appears (0:
/// none yet).
const std::atomic<int>& watch_signals(std::initializer_list<int> others = {});

}  // namespace brim::command
