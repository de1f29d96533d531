// Accountants as nobody should use them: right sums, bounded memory, no crash.
#include <brim/diag/account.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include <brim/core/error.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>

#include "backend/sim/sim_fixture.h"
#include "diag/host_timeline.h"
#include "diag/span.h"

namespace brim::diag {
namespace {

bool is_whole(const Account& a) {
  for (const double s : a.seconds)
    if (!(s >= 0)) return false;
  return std::abs(std::accumulate(a.seconds.begin(), a.seconds.end(), 0.0) - a.wall) < 1e-6;
}

class AccountMisuse : public SimTest {
 protected:
  const Device sim = Device::sim(0);
  void work() {
    const Tensor x = ones({16}, {.device = sim});
    (void)(x + x);
    synchronize(sim);
  }
};

TEST_F(AccountMisuse, SpansThatEndByAnException) {
  const Accountant accountant({sim});
  for (int i = 0; i < 3; ++i) {
    try {
      const Scope outer("checkpoint", Cause::checkpoint);
      const Span inner("kernel", Cause::compute);
      throw std::runtime_error("inside");
    } catch (const std::runtime_error&) {
    }
    EXPECT_EQ(active_meter->open, Cause::user);
    EXPECT_EQ(active_meter->scope, Cause::other);
  }
  const Account a = accountant.read();
  EXPECT_TRUE(is_whole(a)) << a.table();
  EXPECT_GT(a.fraction(Cause::checkpoint) + a.fraction(Cause::stolen), 0);
  EXPECT_EQ(a.fraction(Cause::compute), 0);
}

TEST_F(AccountMisuse, MillionsOfSpans) {
  const Accountant accountant({sim});
  work();
  for (int i = 0; i < 3'000'000; ++i) {
    const Span outer("step", Cause::dispatch);
    const Span inner("kernel", Cause::compute);
  }
  work();
  const Account thread = accountant.read(), device = accountant.read(sim);
  EXPECT_TRUE(is_whole(thread)) << thread.table();
  EXPECT_TRUE(is_whole(device)) << device.table();
  EXPECT_GT(thread.fraction(Cause::dispatch) + thread.fraction(Cause::stolen), 0.4);
  // The oldest of them are forgotten, and are no other's.
  EXPECT_GT(device.fraction(Cause::other), 0.4) << device.table();
}

TEST_F(AccountMisuse, ReadByAnotherThread) {
  const Accountant accountant({sim});
  std::thread([&] {
    for (const Device device : {Device::cpu(), sim}) EXPECT_THROW(accountant.read(device), Error);
    EXPECT_THROW(accountant.read(), Error);
  }).join();
  EXPECT_TRUE(is_whole(accountant.read()));
}

TEST_F(AccountMisuse, DestroyedByAnotherThread) {
  std::thread([&] {
    auto accountant = std::make_unique<Accountant>(std::vector{sim});
    work();
    std::thread([&] { accountant.reset(); }).join();
    work();  // its spans go where nobody looks
    const Accountant next({sim});
    work();
    EXPECT_TRUE(is_whole(next.read()));
    EXPECT_TRUE(is_whole(next.read(sim)));
    EXPECT_GT(next.read(sim).fraction(Cause::compute), 0);
  }).join();
  const Accountant mine({sim});
  work();
  EXPECT_TRUE(is_whole(mine.read(sim)));
}

TEST_F(AccountMisuse, AForkedChildHasAnAccountOfItsOwnTime) {
  const Accountant accountant;
  const pid_t child = fork();
  if (child == 0) {
    { const Span span("kernel", Cause::compute); }
    const Account a = accountant.read();
    _exit(is_whole(a) && a.fraction(Cause::compute) + a.fraction(Cause::stolen) > 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(is_whole(accountant.read()));
}

TEST_F(AccountMisuse, ManyThreadsMeasureOneDevice) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 20; ++k) {
        const Accountant outer({sim});
        work();
        const Accountant inner({sim});
        work();
        EXPECT_TRUE(is_whole(inner.read()));
        EXPECT_TRUE(is_whole(inner.read(sim)));
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace brim::diag
