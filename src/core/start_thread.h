// Threads that the system may refuse to start.
#pragma once

#include <system_error>

#include "core/check.h"

namespace brim {

/// What `start` returns: a std::thread, or the future of std::async. Where the system refuses the
/// thread, an Error says what to do; the standard's says only that a resource is unavailable.
template <class F>
auto start_thread(const F& start) {
  try {
    return start();
  } catch (const std::system_error& e) {
    raise<Error>(
        "[threads] the system starts no more threads: {}; raise its limit (ulimit -u, ulimit -v, "
        "the container's), or use fewer (set_num_threads, LoaderOptions::workers)",
        e.code().message());
  }
}

}  // namespace brim
