// Repeated work on CUDA becomes a graph: captured once for a signature, then replayed without the
// host's part. Runs on a GPU, or over the emulation (BRIM_BACKEND_PATH).
#include <gtest/gtest.h>

#include <brim/brim.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "core/runtime.h"

namespace brim {
namespace {

class CudaGraph : public testing::Test {
 protected:
  void SetUp() override {
    if (Device::count(DeviceKind::cuda) == 0) GTEST_SKIP() << "no CUDA device";
  }
  /// Queues `work` on the default stream, or replays it.
  void run(const std::vector<uint64_t>& signature, const std::function<bool(int)>& work,
           int steps = 1) {
    runtime(DeviceKind::cuda)
        .launch_as_one(Stream::current(Device::cuda()),
                       {.signature = signature, .steps = steps, .queue = work}, kept_);
  }
  /// y = x.
  void run(const Tensor& x, Tensor& y, const std::vector<uint64_t>& signature) {
    run(signature, [&](int) {
      ++queued_;
      y.copy_(x);
      return true;
    });
  }
  RepeatedStats stats() const { return runtime(DeviceKind::cuda).repeated(kept_); }
  static void set(Tensor& x, float value) {
    x.copy_(full({4}, value).to(x.device()));
    synchronize(x.device());
  }
  static std::vector<float> values(const Tensor& t) {
    return t.to(Device::cpu()).to_vector<float>();
  }
  std::shared_ptr<void> kept_;
  int queued_ = 0;
};

TEST_F(CudaGraph, IsReplayedOnNewData) {
  Tensor x = zeros({4}, {.device = Device::cuda()}), y = zeros({4}, {.device = Device::cuda()});
  for (int i = 0; i < 8; ++i) {
    set(x, static_cast<float>(i));
    run(x, y, {1});
    EXPECT_EQ(values(y), std::vector<float>(4, static_cast<float>(i))) << i;
  }
  EXPECT_EQ(queued_, 3);  // twice as it is, once to capture it
  EXPECT_EQ(stats().replayed, 6);
  EXPECT_EQ(stats().queued, 2);
  EXPECT_EQ(stats().graphs, 1);
  EXPECT_EQ(stats().nodes, 1);
}

TEST_F(CudaGraph, EachSignatureHasItsOwn) {
  Tensor a = zeros({4}, {.device = Device::cuda()}), b = ones({4}, {.device = Device::cuda()});
  Tensor y = zeros({4}, {.device = Device::cuda()});
  for (int i = 0; i < 10; ++i) {
    run(i % 2 ? b : a, y, {static_cast<uint64_t>(i % 2)});
    EXPECT_EQ(values(y), std::vector<float>(4, i % 2 ? 1.0f : 0.0f)) << i;
  }
  EXPECT_EQ(queued_, 4);
}

// `brim bench` takes turns with up to 16 batches: each has its graph.
TEST_F(CudaGraph, SixteenInputsInTurnsAreAllReplayed) {
  const Device device = Device::cuda();
  for (const int inputs : {9, 16}) {
    SCOPED_TRACE(inputs);
    kept_.reset();
    queued_ = 0;
    std::vector<Tensor> x;
    for (int i = 0; i < inputs; ++i) x.push_back(full({4}, static_cast<float>(i)).to(device));
    Tensor y = zeros({4}, {.device = device});
    for (int turn = 0; turn < 5; ++turn)
      for (int i = 0; i < inputs; ++i) {
        run(x[static_cast<size_t>(i)], y, {static_cast<uint64_t>(i)});
        EXPECT_EQ(values(y), std::vector<float>(4, static_cast<float>(i))) << turn;
      }
    EXPECT_EQ(stats().graphs, inputs);
    EXPECT_EQ(queued_, 2 * inputs);  // once as it is, once to capture it
    EXPECT_EQ(stats().replayed, 4 * inputs);
  }
}

// A seventeenth takes the place of the graph that was used longest ago.
TEST_F(CudaGraph, ASeventeenthTakesTheOldestGraphsPlace) {
  const Device device = Device::cuda();
  std::vector<Tensor> x;
  for (int i = 0; i < 17; ++i) x.push_back(full({4}, static_cast<float>(i)).to(device));
  Tensor y = zeros({4}, {.device = device});
  const auto run_input = [&](size_t i) {
    run(x[i], y, {i});
    EXPECT_EQ(values(y), std::vector<float>(4, static_cast<float>(i))) << i;
  };
  for (int turn = 0; turn < 4; ++turn)
    for (size_t i = 0; i < 16; ++i) run_input(i);
  EXPECT_EQ(stats().graphs, 16);
  run_input(0);  // number 1 is the oldest now
  for (int k = 0; k < 4; ++k) run_input(16);
  EXPECT_EQ(stats().graphs, 16);
  int before = queued_;
  for (size_t i = 0; i < 17; ++i)
    if (i != 1) run_input(i);
  EXPECT_EQ(queued_, before);
  run_input(1);
  EXPECT_GT(queued_, before);
}

TEST_F(CudaGraph, SignaturesThatNeverComeBackAreQueued) {
  Tensor x = ones({4}, {.device = Device::cuda()}), y = zeros({4}, {.device = Device::cuda()});
  for (uint64_t i = 0; i < 40; ++i) run(x, y, {i});
  EXPECT_EQ(queued_, 40);
  EXPECT_EQ(stats().graphs, 0);
  EXPECT_EQ(values(y), std::vector<float>(4, 1.0f));
}

TEST_F(CudaGraph, WorkThatCannotBeCapturedIsQueuedWithAWarning) {
  const Device device = Device::cuda();
  Tensor x = ones({4}, {.device = device});
  testing::internal::CaptureStderr();
  for (int i = 0; i < 4; ++i)
    run({}, [&](int) {
      ++queued_;
      synchronize(device);
      return true;
    });
  const std::string warning = testing::internal::GetCapturedStderr();
  EXPECT_NE(warning.find("is not captured as a graph"), std::string::npos) << warning;
  EXPECT_NE(warning.find("[cuda] waits for cuda:0 while a step is captured"), std::string::npos)
      << warning;
  EXPECT_EQ(queued_, 5);  // the capture that failed counts too
  EXPECT_NE(stats().why_not, "");
}

// A graph that could not be made may be possible later; the warning is not repeated.
TEST_F(CudaGraph, IsTriedAgainAfterAPause) {
  const Device device = Device::cuda();
  Tensor x = ones({4}, {.device = device}), y = zeros({4}, {.device = device});
  testing::internal::CaptureStderr();
  for (int i = 0; i < 400; ++i)
    run({}, [&](int) {
      ++queued_;
      if (i < 150) synchronize(device);  // the captures at calls 2 and 103
      y.add_(x);
      return true;
    });
  const std::string warning = testing::internal::GetCapturedStderr();
  EXPECT_EQ(warning.find("is not captured as a graph"),
            warning.rfind("is not captured as a graph"));
  EXPECT_NE(warning.find("after 100 launches it is tried again"), std::string::npos) << warning;
  EXPECT_EQ(values(y), std::vector<float>(4, 400.0f));
  EXPECT_EQ(stats().graphs, 1);
  EXPECT_EQ(stats().queued, 304);  // 100 and 200 calls after the failures
  EXPECT_EQ(stats().replayed, 96);
  EXPECT_EQ(stats().why_not, "");
}

// What is then found to be too little memory of the work's own is more the next time.
TEST_F(CudaGraph, MemoryCanBeHadWhileAStepIsCaptured) {
  const Device device = Device::cuda();
  Tensor x = ones({4}, {.device = device}), y = zeros({4}, {.device = device});
  Allocator::of(device).release_cached();
  for (int i = 0; i < 6; ++i)
    run({}, [&](int) {
      if (++queued_ == 3) {  // the first that is captured
        (void)Tensor::empty({int64_t{7} << 20}, f32, device);
        return false;
      }
      y.add_(x);
      return true;
    });
  EXPECT_EQ(stats().why_not, "");
  EXPECT_EQ(stats().graphs, 1);
  EXPECT_EQ(values(y), std::vector<float>(4, 6.0f));
}

// To ask whether an event has passed is refused then, too, though it is no part of the graph.
TEST_F(CudaGraph, EventsMayBeAskedWhileAStepIsCaptured) {
  const Device device = Device::cuda();
  Tensor x = ones({4}, {.device = device}), y = zeros({4}, {.device = device});
  Event before;
  before.record(Stream::current(device));
  for (int i = 0; i < 6; ++i)
    run({}, [&](int) {
      ++queued_;
      (void)before.query();
      y.add_(x);
      return true;
    });
  EXPECT_EQ(stats().why_not, "");
  EXPECT_EQ(stats().graphs, 1);
  EXPECT_EQ(values(y), std::vector<float>(4, 6.0f));
}

// CUDA refuses to free memory then: blocks that went from the cache would be lost.
TEST_F(CudaGraph, NoMemoryIsGivenBackWhileAStepIsCaptured) {
  const Device device = Device::cuda();
  Tensor x = ones({4}, {.device = device}), y = zeros({4}, {.device = device});
  Allocator& allocator = Allocator::of(device);
  allocator.release_cached();
  const int64_t live_before = allocator.stats().live;
  const auto free = [] { return runtime(DeviceKind::cuda).memory(0).free; };
  const size_t free_before = free();
  Tensor between;
  {
    const Tensor one = Tensor::empty({int64_t{1} << 20}, f32, device);
    between = Tensor::empty({int64_t{1} << 20}, f32, device);  // so that what is free is in parts
    const Tensor other = Tensor::empty({int64_t{1} << 20}, f32, device);
  }
  const MemoryStats stats_before = allocator.stats();
  allocator.set_limit(stats_before.live + stats_before.cached);
  testing::internal::CaptureStderr();
  for (int i = 0; i < 6; ++i)
    run({}, [&](int) {
      if (++queued_ >= 3) (void)Tensor::empty({int64_t{3} << 19}, f32, device);
      y.add_(x);
      return true;
    });
  const std::string warning = testing::internal::GetCapturedStderr();
  allocator.set_limit(0);
  EXPECT_NE(warning.find("is not captured as a graph: [memory]"), std::string::npos) << warning;
  EXPECT_EQ(queued_, 7);  // the capture that failed, and what was queued in its place
  EXPECT_EQ(values(y), std::vector<float>(4, 6.0f));
  between = Tensor();
  allocator.release_cached();
  EXPECT_EQ(allocator.stats().live, live_before);
  EXPECT_EQ(allocator.stats().idle, 0);
  // On a real GPU others take and give back memory meanwhile.
  if (runtime(DeviceKind::cuda).description(0).starts_with("emulated")) {
    EXPECT_EQ(free(), free_before);
  }
}

// Threads share a device's default stream: while one captures a step, another works on.
TEST_F(CudaGraph, AnotherThreadsWorkIsNoPartOfIt) {
  const Device device = Device::cuda();
  Tensor x = ones({4}, {.device = device}), y = zeros({4}, {.device = device});
  Tensor others = zeros({4}, {.device = device});
  synchronize(device);
  for (int i = 0; i < 6; ++i)
    run({}, [&](int) {
      if (++queued_ == 3)  // the one that is captured
        std::thread([&] {
          others.add_(x);
          EXPECT_EQ(values(others), std::vector<float>(4, 1.0f));
        }).join();
      y.add_(x);
      return true;
    });
  EXPECT_EQ(values(y), std::vector<float>(4, 6.0f));
  EXPECT_EQ(values(others), std::vector<float>(4, 1.0f));
  EXPECT_EQ(stats().nodes, 1);
  EXPECT_EQ(stats().replayed, 4);
  EXPECT_EQ(stats().why_not, "");
}

/// A side stream has become part of the graph: nobody may wait for it.
TEST_F(CudaGraph, AnotherThreadGivesNoPagesBackMeanwhile) {
  const Device device = Device::cuda();
  const Stream side = Stream::create(device);
  Tensor x = ones({4}, {.device = device}), y = zeros({4}, {.device = device});
  Tensor z = zeros({4}, {.device = device});
  Allocator& allocator = Allocator::of(device);
  for (int i = 0; i < 6; ++i) {
    (void)Tensor::empty({64 << 20}, u8, device);  // idle from now on
    run({1}, [&](int) {
      const Stream main = Stream::current(device);
      y.copy_(x);
      Event fork, join;
      fork.record(main);
      fork.wait(side);
      {
        const StreamGuard guard(side);
        z.copy_(x);
      }
      if (++queued_ == 3) std::thread([&] { allocator.release_cached(); }).join();
      join.record(side);
      join.wait(main);
      return true;
    });
  }
  synchronize(device);
  EXPECT_EQ(values(z), std::vector<float>(4, 1.0f));
  EXPECT_EQ(stats().graphs, 1);
  EXPECT_EQ(stats().replayed, 4);
  EXPECT_EQ(stats().why_not, "");
  allocator.release_cached();
  EXPECT_EQ(allocator.stats().idle, 0);
}

TEST_F(CudaGraph, WorkInMemoryThatIsNotItsOwnIsQueued) {
  Tensor x = ones({4}, {.device = Device::cuda()}), y = zeros({4}, {.device = Device::cuda()});
  for (int i = 0; i < 6; ++i)
    run({}, [&](int) {
      ++queued_;
      y.add_(x);
      return i >= 4;
    });
  EXPECT_EQ(values(y), std::vector<float>(4, 6.0f));
  EXPECT_EQ(stats().replayed, 2);
  EXPECT_EQ(queued_, 7);  // two captures were thrown away, one was kept
}

TEST_F(CudaGraph, HoldsSeveralSteps) {
  const Device device = Device::cuda();
  Tensor x = ones({4}, {.device = device}), y = zeros({4}, {.device = device});
  for (int i = 0; i < 5; ++i)
    run(
        {},
        [&](int step) {
          y.mul_(step == 0 ? 0.0 : 2.0);
          y.add_(x);
          return true;
        },
        3);
  EXPECT_EQ(values(y), std::vector<float>(4, 7.0f));  // ((1) 2 + 1) 2 + 1
  EXPECT_EQ(stats().replayed, 3);
  EXPECT_EQ(stats().nodes, 2);
}

TEST_F(CudaGraph, NumbersThatNoKernelReadsFromTheDeviceAreConstants) {
  Tensor y = zeros({4}, {.device = Device::cuda()});
  const RepeatedWork::Parameter number{&queued_, 1, "fill"};
  for (const uint64_t value : {1, 1, 1, 1, 1, 2, 2, 2}) {
    runtime(DeviceKind::cuda)
        .launch_as_one(Stream::current(y.device()),
                       {.parameters = {&number, 1},
                        .values = {&value, 1},
                        .queue =
                            [&](int) {
                              y.fill_(static_cast<double>(value));
                              return true;
                            }},
                       kept_);
    EXPECT_EQ(values(y), std::vector<float>(4, static_cast<float>(value)));
  }
  EXPECT_EQ(stats().graphs, 2);
  EXPECT_EQ(stats().renewed, 0);
  EXPECT_NE(stats().why_not.find("fill"), std::string::npos);
}

TEST_F(CudaGraph, ACompiledStepRunsOnIt) {
  manual_seed(1);
  const Tensor w = randn({3, 4});
  const auto body = [](const Tensor& weight) {
    return [weight](const Tensor& x) { return relu(x * weight + 1.0) * x; };
  };
  const Tensor on_cuda = w.to(Device::cuda());
  auto step = compile(body(on_cuda), {.passes = "dead_code,memory"});
  for (int i = 0; i < 6; ++i) {
    const Tensor x = randn({3, 4});
    const Tensor expected = body(w)(x);
    EXPECT_EQ(step(x.to(Device::cuda())).to(Device::cpu()).to_vector<float>(),
              expected.to_vector<float>())
        << i;
  }
}

}  // namespace
}  // namespace brim
