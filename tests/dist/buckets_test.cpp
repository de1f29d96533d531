// Gradients are reduced while others are computed: in compiled steps, and in eager ones.
#include <brim/autograd/autograd.h>
#include <brim/core/random.h>

#include "core/check.h"
#include "dist/train_ranks.h"

namespace brim::dist {
namespace {

TEST(Buckets, EagerStepsReduceWhileOthersAreComputed) {
  for (const bool on_sim : {false, true}) {
    if (on_sim && Device::count("sim") < 4) continue;
    for (const bool batch_norm : {false, true}) {
      const NetOptions net{.batch_norm = batch_norm};
      const Weights one = weights_of({.size = 4, .net = net, .on_sim = on_sim});
      for (const size_t buckets : {2, 3, 100})
        EXPECT_EQ(weights_of({.size = 4, .net = net, .on_sim = on_sim, .buckets = buckets}), one)
            << buckets << (on_sim ? " on sim" : "");
    }
  }
}

/// Over processes' connections, with parameters that are frozen, unused, or used in some steps, and
/// with 16 bits.
TEST(Buckets, EagerBucketsMayHaveHoles) {
  struct Parts : nn::Module {
    Parts() {
      for (const char* name : {"a", "b", "c", "d"})
        layers.push_back(&add<nn::Linear>(name, {.in = 4, .out = 4}));
    }
    Tensor forward(const Tensor& x) override { return x; }
    std::vector<nn::Linear*> layers;
  };
  for (const DType dtype : {f32, bf16}) {
    std::vector<std::vector<float>> results[2];
    for (const size_t buckets : {1, 4}) {
      const std::vector<std::string> failures =
          failures_of(tcp_groups(2), [&](ProcessGroup& group) {
            forced_buckets(buckets);
            Generator own(3);
            const GeneratorScope scope(own);
            Parts net;
            net.layers[1]->parameters()[0].set_requires_grad(false);
            DataParallel parallel(net, group.shared_from_this());
            parallel.compress_gradients(dtype);
            const Tensor x = ones({2, 4}) * (1.0 + group.rank());
            std::vector<std::vector<float>> seen;
            for (int step = 0; step < 4; ++step) {
              const Tensor loss = parallel.forward_backward([&](int64_t) {
                Tensor y = (*net.layers[1])((*net.layers[0])(x));
                if (step % 2 == 1) y = (*net.layers[2])(y);
                return y.sum();
              });
              seen.push_back(loss.to_vector<float>());
              for (const Tensor& p : net.parameters())
                seen.push_back(p.grad().defined() ? p.grad().to_vector<float>()
                                                  : std::vector<float>());
            }
            if (group.rank() == 0) results[buckets > 1] = seen;
          });
      for (const std::string& failure : failures) EXPECT_EQ(failure, "");
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0].size(), 4u * 9);
    EXPECT_TRUE(results[0][3].empty());    // frozen
    EXPECT_TRUE(results[0][5].empty());    // not used in the first step
    EXPECT_FALSE(results[0][14].empty());  // used in the second one
  }
}

#if !defined(__SANITIZE_THREAD__)
/// The second backward() writes what is being sent: a race, of which the error tells.
TEST(Buckets, AnEagerGradientIsSentOnce) {
  const std::vector<std::string> failures = failures_of(local_groups(2), [](ProcessGroup& group) {
    forced_buckets(2);
    Net net({});
    DataParallel parallel(net, group.shared_from_this());
    const auto twice = [](const Tensor& loss) {
      loss.backward({}, {.retain_graph = true});
      loss.backward();
    };
    const auto step = [&](const DataParallel::Backward& backward) {
      (void)parallel.forward_backward(
          [&](int64_t) {
            return net(ones({2, 3, 8, 8})).sum();
          },
          backward);
    };
    for (int i = 0; i < 3; ++i) step({});
    const std::vector<float> once = net.parameters()[0].grad().to_vector<float>();
    step(twice);  // by default with no overlap
    for (size_t i = 0; i < once.size(); ++i)
      EXPECT_FLOAT_EQ(net.parameters()[0].grad().to_vector<float>()[i], 2 * once[i]);
    parallel.overlap(true);
    step(twice);
  });
  for (const std::string& failure : failures)
    EXPECT_TRUE(has(failure, "call backward() once")) << failure;
}
#endif

/// Where the first steps show it, nothing is sent early.
TEST(Buckets, GradientsThatComeTwiceAreNotSentEarly) {
  run_ranks(local_groups(2), [](ProcessGroup& group) {
    forced_buckets(3);
    Net net({});
    DataParallel parallel(net, group.shared_from_this());
    parallel.overlap(true);
    for (int i = 0; i < 4; ++i) {
      (void)parallel.forward_backward(
          [&](int64_t) {
            return net(ones({2, 3, 8, 8})).sum();
          },
          [](const Tensor& loss) {
            loss.backward({}, {.retain_graph = true});
            loss.backward();
          });
      EXPECT_EQ(net.parameters().back().grad().to_vector<float>(), std::vector<float>(5, 4));
    }
  });
}

TEST(Buckets, AGradientThatIsReplacedWhenItWasSentIsAnError) {
  const std::vector<std::string> failures = failures_of(local_groups(2), [](ProcessGroup& group) {
    forced_buckets(100);
    Net net({});
    DataParallel parallel(net, group.shared_from_this());
    Tensor last = net.parameters().back();
    // One that is sent may not even be read.
    const DataParallel::Backward replaced = [&](const Tensor& loss) {
      loss.backward();
      last.set_grad(full({5}, 0.5));
    };
    const auto loss = [&](int64_t) { return net(ones({2, 3, 8, 8})).sum(); };
    for (int i = 0; i < 4; ++i) {
      (void)parallel.forward_backward(loss, replaced);
      EXPECT_EQ(last.grad().to_vector<float>(), std::vector<float>(5, 1));
    }
    parallel.overlap(true);
    for (int i = 0; i < 3; ++i) (void)parallel.forward_backward(loss, replaced);
  });
  for (const std::string& failure : failures)
    EXPECT_TRUE(has(failure, "was replaced when it was sent")) << failure;
}

TEST(Buckets, AnOptimizerInAHookIsAnError) {
  const std::vector<std::string> failures = failures_of(local_groups(2), [](ProcessGroup& group) {
    nn::Linear net({.in = 4, .out = 2});
    DataParallel parallel(net, group.shared_from_this());
    for (Tensor& p : net.parameters())
      p.register_post_accumulate_grad_hook([](Tensor& leaf) { leaf.zero_grad(); });
    (void)parallel.forward_backward([&](int64_t) { return net(ones({2, 4})).sum(); });
  });
  for (const std::string& failure : failures)
    EXPECT_TRUE(has(failure, "a hook must not step an optimizer")) << failure;
}

TEST(Buckets, AnErrorAmidAnEagerBackwardPassEndsAll) {
  const std::vector<std::string> failures = failures_of(tcp_groups(3), [](ProcessGroup& group) {
    forced_buckets(100);
    Net net({});
    DataParallel parallel(net, group.shared_from_this());
    const auto step = [&] {
      (void)parallel.forward_backward([&](int64_t) { return net(ones({2, 3, 8, 8})).sum(); });
    };
    for (int i = 0; i < 3; ++i) step();
    if (group.rank() == 1)
      net.parameters()[0].register_hook(
          [](const Tensor&) -> Tensor { raise<ValueError>("rank 1 has had enough"); });
    step();
  });
  for (const std::string& failure : failures)
    EXPECT_TRUE(has(failure, "rank 1 has had enough")) << failure;
}

/// Compiled: the sum of what the network puts out, with its gradient over all ranks.
auto sum_step(DataParallel& parallel, nn::Module& net, CompileOptions options = {}) {
  return compile(
      [&](const Tensor& x) {
        return parallel.forward_backward([&](int64_t) { return net(x).sum(); });
      },
      std::move(options));
}

/// Rank 0's buckets are those of all, whatever the others would choose.
TEST(Buckets, RanksAgreeOnBuckets) {
  std::string explained[2];
  run_ranks(local_groups(2), [&](ProcessGroup& group) {
    forced_buckets(group.rank() == 0 ? 2 : 3);
    Net net({});
    DataParallel parallel(net, group.shared_from_this());
    auto step = sum_step(parallel, net);
    (void)step(ones({2, 3, 8, 8}));
    explained[group.rank()] = step.explain();
  });
  for (const std::string& text : explained)
    EXPECT_TRUE(has(text, "all_reduce of 5 tensors in 2 buckets")) << text;
}

/// A plan may be made anew by one rank alone, and while calls of others are queued.
TEST(Buckets, OtherShapesAreReducedInTheSameBuckets) {
  run_ranks(local_groups(2), [&](ProcessGroup& group) {
    forced_buckets(2);
    Net net({});
    DataParallel parallel(net, group.shared_from_this());
    auto step = sum_step(parallel, net);
    (void)step(ones({4, 3, 8, 8}));
    forced_buckets(3);
    for (int64_t n = 1; n < 4; ++n) (void)step(ones({group.rank() == 0 ? 4 : n, 3, 8, 8}));
    EXPECT_TRUE(has(step.explain(), "in 2 buckets")) << step.explain();
  });
  if (Device::count("sim") < 2) return;
  run_ranks(local_groups(2), [&](ProcessGroup& group) {
    forced_buckets(2);
    const Device device = Device::sim(group.rank());
    Net net({});
    net.to(device);
    DataParallel parallel(net, group.shared_from_this());
    auto step = sum_step(parallel, net);
    const Tensor few = ones({2, 3, 8, 8}, {.device = device}),
                 more = ones({5, 3, 8, 8}, {.device = device});
    for (int i = 0; i < 30; ++i) (void)step(few);
    (void)step(more);
    synchronize(device);
  });
}

/// Only sums are cut: two broadcasts of lists are none.
TEST(Buckets, OtherCollectivesOfTheStepStayWhole) {
  run_ranks(local_groups(2), [](ProcessGroup& group) {
    forced_buckets(2);
    Net net({});
    DataParallel parallel(net, group.shared_from_this());
    auto step = compile([&](const Tensor& x) {
      std::vector<Tensor> two{x + 1, x + 2}, three{x + 3, x + 4, x + 5};
      broadcast(group, two);
      broadcast(group, three);
      return parallel.forward_backward([&](int64_t) { return net(two[1] + three[2]).sum(); });
    });
    (void)step(ones({2, 3, 8, 8}));
    EXPECT_TRUE(has(step.explain(), "all_reduce of 5 tensors in 2 buckets")) << step.explain();
    EXPECT_FALSE(has(step.explain(), "broadcast of")) << step.explain();
  });
}

/// Ranks as threads, on one device, with many plans each: none waits on the stream of another.
TEST(Buckets, PlansOfAThreadShareItsSideStream) {
  if (Device::count("sim") < 1) GTEST_SKIP() << "needs a virtual accelerator";
  run_ranks(local_groups(2, {.timeout = 60}), [&](ProcessGroup& group) {
    forced_buckets(2);
    const Device device = Device::sim(0);
    const StreamGuard guard(Stream::create(device));
    nn::Linear net({.in = 4, .out = 3});
    net.to(device);
    DataParallel parallel(net, group.shared_from_this());
    auto step = sum_step(parallel, net, {.warn = [](const std::string&) {}});
    for (int64_t n = 1; n < 60; ++n) {
      (void)step(ones({n, 4}, {.device = device}));
      Stream::current(device).synchronize();
    }
  });
}

TEST(Buckets, AnErrorOnTheDeviceEndsWithItsStep) {
  if (Device::count("sim") < 2) GTEST_SKIP() << "needs two virtual accelerators";
  run_ranks(local_groups(2), [&](ProcessGroup& group) {
    forced_buckets(2);
    const Device device = Device::sim(group.rank());
    nn::Linear net({.in = 4, .out = 3});
    net.to(device);
    DataParallel parallel(net, group.shared_from_this());
    auto step = compile([&](const Tensor& x, const Tensor& y) {
      return parallel.forward_backward([&](int64_t) { return cross_entropy(net(x), y); });
    });
    const Tensor x = ones({2, 4}, {.device = device});
    for (int i = 0; i < 5; ++i) {
      const Tensor y = full({2}, i == 2 ? 99 : 1, {.dtype = i64, .device = device});
      (void)step(x, y);
      if (i == 2)
        EXPECT_THROW(Stream::current(device).synchronize(), Error);
      else
        EXPECT_NO_THROW(Stream::current(device).synchronize()) << i;
    }
  });
}

TEST(Buckets, AnErrorAmidOverlappedReductionsIsThrown) {
  for (const char* backend : {"local", "tcp"}) {
    const std::vector<GroupPtr> groups = groups_of(backend, 2);
    const std::vector<std::string> failures = failures_of(groups, [](ProcessGroup& group) {
      forced_buckets(3);
      Net net({});
      DataParallel parallel(net, group.shared_from_this());
      auto step = sum_step(parallel, net);
      (void)step(ones({2, 3, 8, 8}));
      if (group.rank() == 1) raise<ValueError>("rank 1 has had enough");
      for (int i = 0; i < 100; ++i) (void)step(ones({2, 3, 8, 8}));
    });
    EXPECT_TRUE(has(failures[0], "rank 1 has had enough")) << failures[0];
  }
}

}  // namespace
}  // namespace brim::dist
