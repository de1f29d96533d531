// SIGINT, SIGTERM and SIGHUP (the terminal or the connection is gone) ask for a clean stop; a
// second SIGINT or SIGTERM ends the process at once.
#pragma once

#include <atomic>

namespace brim::command {

/// Installs the handlers and returns where the signal's number appears (0: none yet).
const std::atomic<int>& watch_signals();

}  // namespace brim::command
