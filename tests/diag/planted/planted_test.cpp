// See planted.h. The table of docs/ACCOUNT.md, row by row.
#include "diag/planted/planted.h"

#include <brim/io/pth.h>
#include <brim/io/safetensors.h>
#include <brim/nn/linear.h>
#include <brim/train/checkpoint.h>

#include "sanitized.h"
#include "temporary_folder.h"

namespace brim::diag::planted {
namespace {

// --- user code between steps, whatever came before it

TEST_P(Planted, UserCode) {
  Tensor x = numbers();
  double planted = 0;
  const Account a = account_of([&] {
    for (int i = 0; i < 5; ++i) {
      step(x);
      planted += timed([] { sleep(0.02 * scale()); });
    }
    step(x);
  });
  expect_row(a, Cause::user, planted);
}

TEST_P(Planted, UserCodeAfterAnItem) {
  Tensor x = numbers();
  double planted = 0;
  const Account a = account_of([&] {
    for (int i = 0; i < 5; ++i) {
      step(x);
      (void)x[0].item();
      planted += timed([] { sleep(0.02 * scale()); });
    }
    step(x);
  });
  expect_row(a, Cause::user, planted);
}

TEST_P(Planted, UserCodeAfterASlowItem) {
  use_profile("kernel_us = 6000");
  Tensor x = numbers();
  double planted = 0;
  const Account a = account_of([&] {
    step(x);
    (void)x[0].item();
    planted = timed([] { sleep(0.1 * scale()); });
    step(x);
  });
  expect_row(a, Cause::user, planted);
}

TEST_P(Planted, UserCodeAfterAnAllocation) {
  Tensor x = numbers();
  double planted = 0;
  const Account a = account_of([&] {
    step(x);
    synchronize(device());
    const Tensor large = Tensor::empty({int64_t{16} << 20}, f32, device());
    planted = timed([] { sleep(0.1 * scale()); });
    step(x);
  });
  expect_row(a, Cause::user, planted);
}

// --- the host

TEST_P(Planted, KernelsOfTheHost) {
  const Tensor m = ones({256, 256});
  Tensor x = numbers();
  double planted = 0;
  const Account a = account_of([&] {
    step(x);
    const Tensor here = x.to(Device::cpu());
    planted = timed([&] {
      const auto begin = Clock::now();
      while (seconds_since(begin) < 0.08 * scale()) (void)matmul(m, m);
    });
    step(x);
  });
  expect_row(a, host_kernels(), planted);
}

TEST_P(Planted, OpsInALoopOfOnesOwnAreDispatchAndNotUserCode) {
  const Tensor x = ones({4});
  if (!on_cpu()) GTEST_SKIP() << "of the thread, whose account is the CPU's";
  if (BRIM_SANITIZED) GTEST_SKIP() << "ops take longer than what counts as user code";
  double planted = 0;
  const Account a = account_of([&] {
    planted = timed([&] {
      for (int i = 0; i < 100'000; ++i) (void)(x + x);
    });
  });
  expect_row(a, Cause::dispatch, planted - at(a, Cause::compute) - at(a, Cause::stolen));
  EXPECT_LT(at(a, Cause::user), tolerance(planted)) << a.table();
  EXPECT_GT(at(a, Cause::dispatch), 1e-3) << a.table();
}

TEST_P(Planted, ReadingAndMakingTensorsOfTheHostsNumbers) {
  const int64_t count = static_cast<int64_t>(8e6 * scale());
  const std::vector<float> values(static_cast<size_t>(count), 1);
  double made = 0, read = 0;
  std::vector<float> back;
  Tensor x;
  const Account a = account_of([&] {
    made = timed([&] { x = Tensor::from(values, {count}, device()); });
    read = timed([&] { back = x.to_vector<float>(); });
  });
  EXPECT_EQ(back.size(), values.size());
  expect_whole(a);
  EXPECT_LT(at(a, Cause::user), tolerance(made + read)) << a.table();
  if (on_cpu()) expect_row(a, Cause::host_read, read);
}

TEST_P(Planted, NestedAccountants) {
  const Tensor m = ones({256, 256});
  Tensor x = numbers();
  const auto multiply = [&] {
    const auto begin = Clock::now();
    while (seconds_since(begin) < 0.03 * scale()) (void)matmul(m, m);
  };
  double planted = 0, user = 0;
  const Account a = account_of([&] {
    step(x);
    for (const bool names_device : {false, true}) {
      const Accountant inner(names_device ? std::vector{device()} : std::vector<Device>());
      planted += timed(multiply);
      user += timed([] { sleep(0.02 * scale()); });
      step(x);
      synchronize(device());
    }
    planted += timed(multiply);
    user += timed([] { sleep(0.02 * scale()); });
    step(x);
  });
  expect_row(a, host_kernels(), planted);
  expect_row(a, Cause::user, user);
}

// --- files

TEST_P(Planted, WritingAndReadingWeights) {
  use_profile("host_link_gb_s = 0.5");  // reads of the device are a part of it
  const tests::TemporaryFolder folder;
  const int64_t count = static_cast<int64_t>(2e6 * scale());
  const io::TensorMap weights{{"w", ones({count}, {.device = device()})}};
  Tensor x = numbers();
  for (const bool pth : {false, true}) {
    const std::string path = folder / (pth ? "w.pth" : "w.safetensors");
    double written = 0, read = 0, user = 0;
    const Account a = account_of([&] {
      written =
          timed([&] { pth ? io::save_pth(path, weights) : io::save_safetensors(path, weights); });
      user += timed([] { sleep(0.02); });
      step(x);
      synchronize(device());
      read = timed([&] {
        (void)(pth ? io::load_pth(path, device()) : io::load_safetensors(path, device()));
        synchronize(device());
      });
      user += timed([] { sleep(0.02); });
      step(x);
    });
    expect_row(a, Cause::file_write, written);
    // Behind the last copy that was queued inside, the test itself waits.
    const double rest = at(a, Cause::synchronize) + at(a, Cause::stolen);
    EXPECT_LE(at(a, Cause::file_read), read + surplus(read)) << a.table();
    EXPECT_GE(at(a, Cause::file_read) + rest, read - tolerance(read)) << a.table();
    expect_row(a, Cause::user, user);
  }
}

TEST_P(Planted, CheckpointsWithWhatTheyReadOfTheDevice) {
  use_profile("host_link_gb_s = 0.2");
  const tests::TemporaryFolder folder;
  nn::Linear layer({.in = 1000, .out = static_cast<int64_t>(1000 * scale()), .device = device()});
  train::Checkpoint checkpoint(folder / "run");
  checkpoint.add("model", layer);
  Tensor x = numbers();
  double planted = 0;
  const Account a = account_of([&] {
    planted = timed([&] { (void)checkpoint.save({.steps = 1}); });
    step(x);
  });
  if (on_sim()) {
    EXPECT_GE(planted, 0.019 * scale());  // 4 MB over the link
  }
  expect_row(a, Cause::checkpoint, planted);
}

// --- waiting for the device, as the thread sees it

TEST_P(Planted, TheThreadsOwnWaits) {
  if (!on_sim()) GTEST_SKIP() << "the pace is planted";
  use_profile("kernel_us = 20000");
  Tensor x = numbers();
  synchronize(device());
  const Accountant accountant({device()});
  step(x);
  const double read = timed([&] { (void)x[0].item(); });
  step(x);
  const double synchronized = timed([&] { synchronize(device()); });
  const Account a = accountant.read();
  expect_row(a, Cause::host_read, read);
  expect_row(a, Cause::synchronize, synchronized);
}

TEST_P(Planted, AFullQueue) {
  if (!on_sim()) GTEST_SKIP() << "the pace is planted";
  use_profile("kernel_us = 100");
  Tensor x = numbers();
  synchronize(device());
  const Accountant accountant({device()});
  const double queued = timed([&] {
    for (int i = 0; i < 2000; ++i) step(x);
  });
  const Account a = accountant.read();
  synchronize(device());
  EXPECT_GE(queued, 0.09);
  expect_whole(a);
  EXPECT_GE(at(a, Cause::full_queue) + at(a, Cause::dispatch) + at(a, Cause::stolen),
            queued - tolerance(queued))
      << a.table();
  EXPECT_GE(at(a, Cause::full_queue), is_exact() ? 0.08 : 0.02) << a.table();
}

// --- the device's own work

TEST_P(Planted, KernelsAndCopiesOfTheDevice) {
  if (!on_sim()) GTEST_SKIP() << "the pace is planted";
  use_profile("kernel_us = 5000\nhost_link_gb_s = 0.4");
  Tensor x = numbers();
  const int64_t bytes = 4 << 20, count = bytes / 4;
  Tensor here = Tensor::empty_pinned({count}, f32, DeviceKind::sim);
  here.fill_(1);
  Tensor there = Tensor::empty({count}, f32, device());
  const int times = static_cast<int>(4 * scale());
  const Account a = account_of([&] {
    for (int i = 0; i < times; ++i) step(x);
    for (int i = 0; i < times; ++i) there.copy_(here);
    for (int i = 0; i < times; ++i) here.copy_(there);
  });
  const double copies = times * static_cast<double>(bytes) / 0.4e9;
  expect_row(a, Cause::compute, times * 5e-3);
  expect_row(a, Cause::copy_to_device, copies);
  expect_row(a, Cause::copy_to_host, copies);
}

// Copies that nothing hides are the device's work and no idleness (as nsys-ai#599 took them to be).
TEST_P(Planted, ACopyIsNoIdleness) {
  if (!on_sim()) GTEST_SKIP() << "the pace is planted";
  use_profile("host_link_gb_s = 0.1");
  const int64_t bytes = 4 << 20;
  Tensor here = Tensor::empty_pinned({bytes / 4}, f32, DeviceKind::sim);
  here.fill_(1);
  Tensor there = Tensor::empty({bytes / 4}, f32, device());
  const Account a = account_of([&] {
    for (int i = 0; i < 3; ++i) {
      there.copy_(here);
      step(there);
    }
  });
  const double copies = 3 * static_cast<double>(bytes) / 0.1e9;
  expect_row(a, Cause::copy_to_device, copies);
  for (const Cause cause : {Cause::input, Cause::other, Cause::user, Cause::dispatch})
    EXPECT_LT(at(a, cause), 0.25 * copies) << name(cause) << "\n" << a.table();
  EXPECT_GT(a.fraction(Cause::copy_to_device) + a.fraction(Cause::stolen), 0.5) << a.table();
}

TEST_P(Planted, StagingOfPageableMemory) {
  if (!on_sim()) GTEST_SKIP() << "the pace is planted";
  const std::vector<float> values(static_cast<size_t>(4e6 * scale()), 1);
  const Tensor here = Tensor::from(values, {static_cast<int64_t>(values.size())});
  double planted = 0;
  const Account a = account_of([&] {
    for (int i = 0; i < 3; ++i) planted += timed([&] { (void)here.to(device()); });
  });
  expect_whole(a);
  const double rows = at(a, Cause::staging) + at(a, Cause::copy_to_device) +
                      at(a, Cause::allocator) + at(a, Cause::synchronize) + at(a, Cause::stolen);
  EXPECT_GE(rows, planted - tolerance(planted)) << a.table();
  EXPECT_GE(at(a, Cause::staging), (is_exact() ? 0.2 : 0.05) * planted) << a.table();
  EXPECT_LT(at(a, Cause::dispatch), tolerance(planted)) << a.table();
}

TEST_P(Planted, AStragglerAndTraffic) {
  if (!on_sim()) GTEST_SKIP() << "the pace is planted";
  use_profile("kernel_us = 30000\npeer_link_gb_s = 0.2");
  const Device other = Device::sim(1);
  Tensor x = ones({1 << 20}, {.device = other}), y = numbers();
  synchronize(other);
  const Account a = account_of([&] {
    x.add_(x);                           // 30 ms on the other one
    const Tensor here = x.to(device());  // then 4 MiB between them
    step(y);
    synchronize(device());
  });
  synchronize(other);
  expect_row(a, Cause::peer, 30e-3);
  expect_row(a, Cause::communication, 4.0 * (1 << 20) / 0.2e9);
}

TEST_P(Planted, AnotherStreamOfTheDeviceIsNoPeer) {
  if (!on_sim()) GTEST_SKIP() << "the pace is planted";
  use_profile("kernel_us = 10000");
  Tensor x = numbers(), y = numbers();
  const Stream side = Stream::create(device());
  synchronize(device());
  const Account a = account_of([&] {
    Event done;
    {
      const StreamGuard guard(side);
      step(x);
      done.record(side);
    }
    done.wait(Stream::current(device()));
    step(y);
    side.synchronize();
  });
  expect_row(a, Cause::compute, 20e-3);
  EXPECT_EQ(at(a, Cause::peer) + at(a, Cause::communication), 0) << a.table();
}

// --- memory

TEST_P(Planted, MemoryThatIsGivenBackAndAskedForAgain) {
  if (!is_exact()) GTEST_SKIP() << "two times are compared";
  if (!on_cpu()) GTEST_SKIP() << "devices have no pages";
  const int times = static_cast<int>(4 * scale());
  const auto work = [&](bool keeps) {
    for (int i = 0; i < times; ++i) {
      Tensor::empty({int64_t{48} << 20}).fill_(1);
      if (!keeps) Allocator::of(device()).release_cached();
    }
  };
  work(true);
  const double cached = timed([&] { work(true); });
  double churn = 0;
  const Account a = account_of([&] { churn = timed([&] { work(false); }); });
  expect_row(a, Cause::allocator, churn - cached);
}

INSTANTIATE_TEST_SUITE_P(On, Planted, ::testing::Values("cpu", "sim", "cuda"), name_of);

}  // namespace
}  // namespace brim::diag::planted
