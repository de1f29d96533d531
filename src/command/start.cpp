// The kernel tells the start only to 10 ms, so the CPU time used before main stands for that part.
#include "command/start.h"

#include <ctime>

#include <chrono>
#include <utility>

namespace brim::command {
namespace {

std::chrono::steady_clock::time_point main_began;
double before_main_ms = 0;
bool was_marked = false;

}  // namespace

void mark_start() {
  main_began = std::chrono::steady_clock::now();
  before_main_ms = 0;
  if (std::exchange(was_marked, true)) return;
  timespec used{};
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0)
    before_main_ms =
        static_cast<double>(used.tv_sec) * 1e3 + static_cast<double>(used.tv_nsec) * 1e-6;
}

double milliseconds_since_start() {
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - main_began;
  return before_main_ms + elapsed.count();
}

}  // namespace brim::command
