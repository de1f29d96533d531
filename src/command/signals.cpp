// The handler is reset on entry, so the second signal has its default effect; but SIGHUP comes
// twice where a terminal closes, from the shell and from the kernel.
#include "command/signals.h"

#include <csignal>

namespace brim::command {
namespace {

std::atomic<int> received{0};
static_assert(std::atomic<int>::is_always_lock_free, "the handler may not lock");

void on_signal(int number) { received.store(number, std::memory_order_relaxed); }

}  // namespace

const std::atomic<int>& watch_signals(std::initializer_list<int> others) {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGINT, SIGTERM}) sigaction(number, &action, nullptr);
  for (const int number : others) sigaction(number, &action, nullptr);
  struct sigaction before {};
  if (sigaction(SIGHUP, nullptr, &before) != 0 || before.sa_handler == SIG_IGN)
    return received;  // under nohup
  action.sa_flags = SA_RESTART;
  sigaction(SIGHUP, &action, nullptr);
  return received;
}

}  // namespace brim::command
