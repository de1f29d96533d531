// Heartbeats between ranks that leave one after the other.
#include "dist/watch.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "core/clock.h"

namespace brim::dist {
namespace {

/// The heartbeats of two ranks, connected with each other.
std::pair<std::unique_ptr<Watch>, std::unique_ptr<Watch>> pair_of_watches(double timeout) {
  int ends[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  std::vector<Socket> of_first(2), of_second(2);
  of_first[1] = Socket(ends[0]);
  of_second[0] = Socket(ends[1]);
  const std::vector<std::string> names = {"rank 0", "rank 1"};
  return {std::make_unique<Watch>(std::move(of_first), names, timeout),
          std::make_unique<Watch>(std::move(of_second), names, timeout)};
}

bool all_leave_soon(Watch& watch) {
  for (const double end = steady_seconds() + 30; steady_seconds() < end;) {
    if (watch.have_all_left()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

TEST(Watch, OneThatHasLeftHearsTheOthersUntilTheyLeave) {
  constexpr double kTimeout = 1.1;
  const auto [first, second] = pair_of_watches(kTimeout);
  first->take_leave();
  ASSERT_TRUE(all_leave_soon(*second));
  std::this_thread::sleep_for(std::chrono::duration<double>(2 * kTimeout));
  EXPECT_EQ(first->fault(), "");
  EXPECT_FALSE(first->have_all_left());
  second->take_leave();
  EXPECT_TRUE(all_leave_soon(*first));
  EXPECT_EQ(first->fault(), "");
  EXPECT_EQ(second->fault(), "");
}

TEST(Watch, OneThatHasLeftHearsOfAFailure) {
  const auto [first, second] = pair_of_watches(30);
  first->take_leave();
  ASSERT_TRUE(all_leave_soon(*second));
  second->fail("out of memory");
  ASSERT_TRUE(all_leave_soon(*first));
  EXPECT_EQ(first->fault(), "rank 1 has given up: out of memory");
}

}  // namespace
}  // namespace brim::dist
