// Virtual accelerators: memory of their own, real asynchrony, errors that come later, peer copies,
// and results equal to the CPU's.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>

#include <brim/brim.h>
#include <brim/core/sim.h>

#include "backend/conv_relu.h"
#include "backend/sim/sim_fixture.h"
#include "core/runtime.h"

namespace brim {
namespace {

using Sim = SimTest;

std::vector<float> on_host(const Tensor& t) { return t.to_vector<float>(); }

TEST_F(Sim, DevicesAreCounted) {
  EXPECT_EQ(Device::count("sim"), kDevices);
  EXPECT_TRUE(Device::sim(kDevices - 1).available());
  EXPECT_FALSE(Device::sim(kDevices).available());
  EXPECT_NE(runtime(DeviceKind::sim).description(0).find("virtual accelerator"), std::string::npos);
}

TEST_F(Sim, ImpossibleOptionsChangeNothing) {
  const SimOptions before = sim_options();
  EXPECT_THROW(set_sim_options({.devices = -1}), ValueError);
  EXPECT_THROW(set_sim_options({.devices = 1000}), ValueError);
  EXPECT_THROW(set_sim_options({.devices = kDevices, .memory = -5}), ValueError);
  EXPECT_THROW(set_sim_options({.devices = kDevices, .slowdown = 0}), ValueError);
  EXPECT_THROW(set_sim_options({.devices = kDevices, .profile = "h2000"}), FileError);
  (void)ones({2}, {.device = Device::sim(1)});
  EXPECT_THROW(set_sim_options({.devices = 1}), ValueError);  // sim:1 is in use
  EXPECT_EQ(sim_options().devices, before.devices);
}

TEST_F(Sim, ConvRelu) { tests::expect_conv_relu_like_cpus(Device::sim(0)); }

TEST_F(Sim, ResultsEqualTheCpusBitForBit) {
  manual_seed(3);
  const Tensor x = randn({4, 3, 17, 17}), w = randn({5, 3, 3, 3}), a = randn({33, 65}),
               b = randn({65, 9});
  const Device d = Device::sim(0);
  EXPECT_EQ(on_host(conv2d(x.to(d), w.to(d), {}, {.padding = 1})),
            on_host(conv2d(x, w, {}, {.padding = 1})));
  EXPECT_EQ(on_host(matmul(a.to(d), b.to(d))), on_host(matmul(a, b)));
  EXPECT_EQ(on_host(softmax(a.to(d), 1)), on_host(softmax(a, 1)));
  EXPECT_EQ(on_host(sum(a.to(d), {0})), on_host(sum(a, {0})));
}

TEST_F(Sim, TrainingEqualsTheCpusBitForBit) {
  const auto train = [](Device device) {
    manual_seed(7);
    nn::Sequential net;
    net.push<nn::Linear>({.in = 20, .out = 30})
        .push<nn::ReLU>()
        .push<nn::Dropout>({.p = 0.3})
        .push<nn::Linear>({.in = 30, .out = 4});
    net.to(device);
    optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
    for (int step = 0; step < 20; ++step) {
      const Tensor x = randn({8, 20}).to(device);
      sgd.zero_grad();
      mean(net(x) * net(x)).backward();
      sgd.step();
    }
    std::vector<float> all;
    for (const Tensor& p : net.parameters())
      for (const float v : on_host(p.detach())) all.push_back(v);
    return all;
  };
  EXPECT_EQ(train(Device::cpu()), train(Device::sim(1)));
}

TEST_F(Sim, RandomNumbersAreTheSameOnEveryDevice) {
  manual_seed(5);
  const Tensor a = randn({100});
  manual_seed(5);
  const Tensor b = randn({100}, {.device = Device::sim(0)});
  EXPECT_EQ(on_host(a), on_host(b));
}

TEST_F(Sim, TheHostCannotReadItsMemory) {
  const Tensor x = ones({16}, {.device = Device::sim(0)});
  try {
    (void)x.data<float>();
    FAIL() << "no error";
  } catch (const DeviceError& e) {
    EXPECT_NE(std::string(e.what()).find("sim:0"), std::string::npos) << e.what();
  }
#if !defined(__SANITIZE_THREAD__)
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        const Tensor y = ones({16}, {.device = Device::sim(0)});
        volatile float v = *static_cast<float*>(y.raw());
        (void)v;
      },
      "");
#endif
}

TEST_F(Sim, NothingIsCopiedBehindTheUsersBack) {
  const Tensor a = ones({2}, {.device = Device::sim(0)}), b = ones({2}, {.device = Device::sim(1)});
  try {
    (void)(a + b);
    FAIL() << "no error";
  } catch (const DeviceError& e) {
    const std::string what = e.what();
    EXPECT_NE(what.find("sim:0"), std::string::npos) << what;
    EXPECT_NE(what.find("sim:1"), std::string::npos) << what;
  }
  EXPECT_TRUE(a.to(Device::sim(0)).is_same(a));
  EXPECT_FALSE(a.copy_to(Device::sim(0)).is_same(a));
  EXPECT_EQ(on_host(a + b.to(Device::sim(0))), (std::vector<float>{2, 2}));
}

TEST_F(Sim, CopiesKeepTheMemoryFormat) {
  const Tensor plain = arange(0, 24).to(f32).reshape({2, 3, 2, 2});
  for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc, MemoryFormat::chwn}) {
    const Tensor x = plain.to(format), there = x.to(Device::sim(0));
    EXPECT_EQ(there.strides(), x.strides());
    EXPECT_EQ(there.to(Device::cpu()).strides(), x.strides());
    EXPECT_EQ(on_host(there), on_host(plain));
    Tensor target = zeros({2, 3, 2, 2}, {.device = Device::sim(0)}).to(format);
    target.copy_(plain);
    EXPECT_EQ(target.strides(), x.strides());
    EXPECT_EQ(on_host(target), on_host(plain));
    const Tensor part = x.slice(3, 0, 1);  // with gaps: packed on the way
    EXPECT_TRUE(part.to(Device::sim(0)).is_contiguous());
    EXPECT_EQ(on_host(part.to(Device::sim(0))), on_host(part));
  }
}

TEST_F(Sim, WorkIsQueuedAndNotWaitedFor) {
  const Stream stream = Stream::current(Device::sim(0));
  Gate gate(stream);
  const Tensor x = ones({4}, {.device = Device::sim(0)});
  Event done;
  done.record(stream);
  EXPECT_FALSE(done.query());
  gate.open();
  done.synchronize();
  EXPECT_TRUE(done.query());
  EXPECT_EQ(on_host(x), std::vector<float>(4, 1));
}

TEST_F(Sim, HostMemoryMayChangeAsSoonAsACopyReturns) {
  const Device d = Device::sim(0);
  std::vector<float> values(1000, 1);
  Gate gate(Stream::current(d));  // keeps the stream from starting the copy
  const Tensor x = Tensor::from(values, {1000}, d);
  std::fill(values.begin(), values.end(), 2.0F);
  Tensor source = full({1000}, 3.0);
  const Tensor y = source.to(d);
  source.fill_(4);
  gate.open();
  EXPECT_EQ(on_host(x), std::vector<float>(1000, 1));
  EXPECT_EQ(on_host(y), std::vector<float>(1000, 3));
}

TEST_F(Sim, AnErrorComesWithTheNextSynchronisation) {
  const Device d = Device::sim(0);
  const Tensor x = ones({3, 2}, {.device = d});
  const Tensor bad = Tensor::from<int64_t>({0, 7}, {2}, d);
  const Tensor y = index_select(x, 0, bad);  // queued: nobody has looked yet
  try {
    synchronize(d);
    FAIL() << "no error";
  } catch (const IndexError& e) {
    EXPECT_NE(std::string(e.what()).find("[index_select]"), std::string::npos) << e.what();
  }
  synchronize(d);  // once is enough
  EXPECT_EQ(on_host(x + x), std::vector<float>(6, 2));
  (void)index_select(x, 0, bad);
  EXPECT_THROW((void)x.to_vector<float>(), IndexError);  // a host read is a synchronisation, too
}

TEST_F(Sim, AnErrorReachesWhoeverWaitsForTheWork) {
  const Device a = Device::sim(0), b = Device::sim(1);
  const Tensor x = ones({3, 2}, {.device = a});
  const Tensor bad = Tensor::from<int64_t>({0, 7}, {2}, a);
  const Tensor y = index_select(x, 0, bad).to(b);
  EXPECT_THROW((void)y.to_vector<float>(), IndexError);
  EXPECT_THROW(synchronize(a), IndexError);
  EXPECT_EQ(on_host(x.to(b)), std::vector<float>(6, 1));  // both go on
  (void)index_select(x, 0, bad);
  Event event;
  event.record(Stream::current(a));
  EXPECT_THROW(event.synchronize(), IndexError);
}

TEST_F(Sim, AFailedStreamStillWaits) {
  const Device a = Device::sim(0), b = Device::sim(1);
  const Tensor x = ones({3, 2}, {.device = a});
  (void)index_select(x, 0, Tensor::from<int64_t>({7}, {1}, a));
  Gate gate(Stream::current(b));
  const Tensor y = x.to(b);  // behind the gate, and a waits for it
  Event after;
  after.record(Stream::current(a));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(after.query());
  gate.open();
  EXPECT_THROW(synchronize(a), IndexError);
}

TEST_F(Sim, TimedEventsTellHowLongWorkTook) {
  const Stream stream = Stream::current(Device::sim(0));
  Event begin({.timed = true}), end({.timed = true});
  begin.record(stream);
  begin.synchronize();
  Gate gate(stream);
  end.record(stream);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  gate.open();
  EXPECT_GE(begin.elapsed_ms(end), 5);
  EXPECT_LE(end.elapsed_ms(begin), -5);
}

TEST_F(Sim, ThousandsOfStreamsShareSomeThreads) {
  for (int i = 0; i < 1000; ++i) {
    const Stream stream = Stream::create(Device::sim(3));
    EXPECT_GE(stream.id, 1);
    EXPECT_LE(stream.id, 32);
    const StreamGuard guard(stream);
    if (i % 100 == 0) {
      EXPECT_EQ(on_host(ones({2}, {.device = Device::sim(3)}))[1], 1);
    }
  }
}

#if !defined(__SANITIZE_THREAD__)
TEST_F(Sim, TheProcessEndsWhileWorkIsQueued) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const Tensor x = rand({8, 32, 28, 28}, {.device = Device::sim(0)});
        const Tensor w = rand({32, 32, 3, 3}, {.device = Device::sim(0)});
        for (int i = 0; i < 200; ++i) (void)conv2d(x, w, {}, {.stride = 2});
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}
#endif

TEST_F(Sim, PeersWaitForEachOther) {
  const Device a = Device::sim(0), b = Device::sim(1);
  for (int round = 0; round < 20; ++round) {
    Tensor x = full({20000}, round, {.device = a});
    x = x * x;
    const Tensor y = x.to(b);
    x.fill_(-1);  // queued behind the copy, though on another device
    Tensor z = y + y;
    z = z.to(a);
    const float want = 2.0F * static_cast<float>(round * round);
    EXPECT_EQ(on_host(z), std::vector<float>(20000, want));
    EXPECT_EQ(on_host(x), std::vector<float>(20000, -1));
  }
}

TEST_F(Sim, CopiesOfViewsAndOtherDtypes) {
  const Device a = Device::sim(0), b = Device::sim(1);
  const Tensor x = arange(12).to(f32).reshape({3, 4}).to(a);
  EXPECT_EQ(on_host(x.t().to(b)), on_host(x.t().to(Device::cpu())));
  Tensor y = zeros({4, 3}, {.dtype = f64, .device = b});
  y.copy_(x.t());
  EXPECT_EQ(y.to(f32).to_vector<float>(), on_host(x.t()));
  EXPECT_EQ(ones({0, 3}).to(a).to(b).to(Device::cpu()).shape(), (Shape{0, 3}));
}

TEST_F(Sim, GradientsCrossDevices) {
  const Tensor x = ones({3}).set_requires_grad();
  const Tensor y = (x * 2.0).to(Device::sim(0)) * 3.0;
  sum(y.to(Device::sim(1)) * 5.0).backward();
  EXPECT_EQ(x.grad().device(), Device::cpu());
  EXPECT_EQ(on_host(x.grad()), std::vector<float>(3, 30));
}

TEST_F(Sim, MemoryEndsAndSaysHow) {
  const Device d = Device::sim(kSmall);
  const auto floats = [&](int64_t bytes) { return zeros({bytes / 4}, {.device = d}); };
  std::vector<Tensor> kept;
  for (int i = 0; i < 6; ++i) kept.push_back(floats(1 << 20));
  try {
    (void)floats(4 << 20);
    FAIL() << "no error";
  } catch (const OutOfMemory& e) {
    EXPECT_EQ(e.requested, 4 << 20);
    EXPECT_EQ(e.free, 2 << 20);
    const std::string what = e.what();
    for (const char* part : {"sim:", "4194304", "largest live tensors", "1048576"})
      EXPECT_NE(what.find(part), std::string::npos) << what;
  }
  kept.resize(2);
  EXPECT_EQ(floats(4 << 20).numel(), 1 << 20);  // cached blocks make room
  EXPECT_EQ(on_host(kept[1]), std::vector<float>(1 << 18, 0));
  const DeviceMemory memory = runtime(DeviceKind::sim).memory(kSmall);
  EXPECT_EQ(memory.total, size_t{8} << 20);
  EXPECT_GE(memory.free, size_t{1} << 20);
}

TEST_F(Sim, StreamsRunSideBySide) {
  use_profile("kernel_us = 1");
  const Device d = Device::sim(0);
  const Stream side = Stream::create(d);
  EXPECT_NE(side, Stream::current(d));
  const Tensor x = ones({8}, {.device = d});
  synchronize(d);
  Tensor y;
  {
    const StreamGuard guard(side);
    y = x + x;
  }
  side.synchronize();
  EXPECT_EQ(on_host(y), std::vector<float>(8, 2));
  EXPECT_THROW(Stream({d, 99}).synchronize(), DeviceError);
}

TEST_F(Sim, ManyHostThreadsMayQueue) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      const Device d = Device::sim(t % 2);
      const StreamGuard guard(Stream::create(d));
      for (int i = 0; i < 50; ++i) {
        const Tensor x = full({100}, i, {.device = d});
        EXPECT_EQ(on_host(x + x), std::vector<float>(100, 2.0F * static_cast<float>(i)));
      }
    });
  for (std::thread& t : threads) t.join();
}

TEST_F(Sim, VeryMuchWorkIsQueuedSlowly) {
  Tensor x = zeros({1}, {.device = Device::sim(0)});
  for (int i = 0; i < 5000; ++i) x.add_(ones({1}, {.device = Device::sim(0)}));
  EXPECT_EQ(x.item(), 5000);
}

}  // namespace
}  // namespace brim
