// Data parallel training: the same numbers as one rank, and the same bits for so many virtual
// ranks.
#include <brim/autograd/autocast.h>
#include <brim/autograd/autograd.h>
#include <brim/core/random.h>
#include <brim/dist/data_parallel.h>
#include <brim/nn/conv.h>
#include <brim/nn/linear.h>
#include <brim/nn/norm.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/dropout.h>
#include <brim/ops/loss.h>
#include <brim/ops/shape.h>
#include <brim/ops/unary.h>
#include <brim/optim/sgd.h>
#include <brim/plan/compile.h>

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>

#include "core/check.h"
#include "dist/run_ranks.h"
#include "message_of.h"
#include "plan/buckets.h"

namespace brim::dist {
namespace {

/// Of the calling rank's steps.
void forced_buckets(size_t count) {
  plan::forced_buckets = count > 1 ? std::optional(count) : std::nullopt;
}

struct NetOptions {
  bool batch_norm = false;
};

struct Net : nn::Module {
  explicit Net(const NetOptions& o) {
    add<nn::Conv2d>("conv", {.in = 3, .out = 8, .kernel = 3});
    if (o.batch_norm) norm = &add<nn::BatchNorm2d>("norm", {.features = 8});
    add<nn::Linear>("fc", {.in = 8 * 36, .out = 5});
  }
  Tensor forward(const Tensor& x) override {
    Tensor y = (*children()[0].second)(x);
    if (norm) y = (*norm)(y);
    return (*children().back().second)(relu(y).flatten(1));
  }
  nn::BatchNorm2d* norm = nullptr;
};

struct Run {
  int size = 1;
  int64_t virtual_ranks = 0;
  NetOptions net;
  bool compiled = false;
  bool on_sim = false;  // each rank on a device of its own
  size_t buckets = 1;   // that a compiled step is made to reduce the gradients in
};

using Weights = std::map<std::string, std::vector<float>>;

/// What a rank has after four steps of batches of 12.
Weights train(ProcessGroup& group, const Run& run, const std::map<std::string, Tensor>& start) {
  const Device device =
      run.on_sim ? Device::all("sim")[static_cast<size_t>(group.rank())] : Device();
  Net net(run.net);
  StateDict state;
  for (const auto& [name, value] : start) state[name] = value;
  net.load_state_dict(state);
  net.to(device);
  DataParallel parallel(net, group.shared_from_this(), run.virtual_ranks);
  optim::SGD optimizer(net.parameters(), {.lr = 0.05, .momentum = 0.9});
  const int64_t own = 12 / group.size(), first = own * group.rank();
  const auto step = [&](const Tensor& x, const Tensor& y) {
    const Tensor loss = parallel.forward_backward([&](int64_t part) {
      const int64_t n = own / parallel.parts();
      return cross_entropy(net(x.slice(0, part * n, (part + 1) * n)),
                           y.slice(0, part * n, (part + 1) * n));
    });
    optimizer.step();
    return loss;
  };
  forced_buckets(run.buckets);
  auto compiled = compile(step, {.passes = "exact"});
  Weights result;
  for (int i = 0; i < 4; ++i) {
    const Tensor x = sin(arange(12 * 3 * 64, {.dtype = f32}) * (0.1 + i)).reshape({12, 3, 8, 8});
    const Tensor y = (arange(12) + i) % 5;
    const Tensor some = x.slice(0, first, first + own).contiguous().to(device);
    const Tensor labels = y.slice(0, first, first + own).contiguous().to(device);
    const Tensor loss = run.compiled ? compiled(some, labels) : step(some, labels);
    result["loss " + std::to_string(i)] = loss.to_vector<float>();
  }
  for (const auto& [name, t] : net.state_dict()) result[name] = t.to(f32).to_vector<float>();
  return result;
}

std::map<std::string, Tensor> start_of(const NetOptions& options) {
  manual_seed(5);
  Net net(options);
  std::map<std::string, Tensor> start;
  for (const auto& [name, t] : net.state_dict()) start[name] = t.clone();
  return start;
}

/// Of rank 0, after a look that all ranks have the same.
Weights weights_of(const Run& run) {
  const std::map<std::string, Tensor> start = start_of(run.net);
  std::vector<Weights> all(static_cast<size_t>(run.size));
  std::vector<GroupPtr> groups = local_groups(run.size);
  run_ranks(groups, [&](ProcessGroup& group) {
    all[static_cast<size_t>(group.rank())] = train(group, run, start);
  });
  for (const Weights& weights : all) EXPECT_EQ(weights, all[0]);
  return all[0];
}

void expect_near(const Weights& is, const Weights& shall, const std::string& what) {
  ASSERT_EQ(is.size(), shall.size());
  for (const auto& [name, values] : shall)
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(is.at(name)[i], values[i], 2e-6 + 2e-5 * std::abs(values[i]))
          << what << ": " << name << " " << i;
}

TEST(DataParallel, RanksComputeWhatOneDoes) {
  const Weights one = weights_of({});
  for (const int size : {2, 3, 4})
    for (const bool compiled : {false, true})
      expect_near(weights_of({.size = size, .compiled = compiled}), one,
                  std::to_string(size) + (compiled ? " compiled" : ""));
}

TEST(DataParallel, VirtualRanksDecideTheBits) {
  for (const bool batch_norm : {false, true})
    for (const bool compiled : {false, true})
      for (const int64_t virtual_ranks : {4, 6}) {
        const NetOptions net{.batch_norm = batch_norm};
        const Weights one = weights_of(
            {.size = 1, .virtual_ranks = virtual_ranks, .net = net, .compiled = compiled});
        for (const int size : {2, 3, 4, 6}) {
          if (virtual_ranks % size != 0) continue;
          EXPECT_EQ(weights_of({size, virtual_ranks, net, compiled}), one)
              << virtual_ranks << " by " << size << (batch_norm ? ", batch norm" : "")
              << (compiled ? ", compiled" : "");
        }
      }
}

TEST(DataParallel, OnVirtualAccelerators) {
  if (Device::count("sim") < 2) GTEST_SKIP() << "needs two virtual accelerators";
  const NetOptions net{.batch_norm = true};
  const Weights one = weights_of({.size = 1, .virtual_ranks = 2, .net = net});
  for (const bool compiled : {false, true})
    EXPECT_EQ(weights_of({2, 2, net, compiled, /*on_sim=*/true}), one) << compiled;
  for (const size_t buckets : {2, 3, 100})
    EXPECT_EQ(weights_of({2, 2, net, true, /*on_sim=*/true, buckets}), one) << buckets;
}

TEST(DataParallel, BucketsChangeNoBit) {
  const NetOptions net{.batch_norm = true};
  for (const int64_t virtual_ranks : {4, 6}) {
    const Weights one = weights_of({.size = 1, .virtual_ranks = virtual_ranks, .net = net});
    for (const int size : {2, 4, 6})
      for (const size_t buckets : {2, 3, 100})
        if (virtual_ranks % size == 0) {
          EXPECT_EQ(weights_of({size, virtual_ranks, net, true, false, buckets}), one)
              << virtual_ranks << " by " << size << " in " << buckets;
        }
  }
}

TEST(DataParallel, EagerStepsReduceWhileOthersAreComputed) {
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
TEST(DataParallel, EagerBucketsMayHaveHoles) {
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

TEST(DataParallel, AnEagerGradientIsSentOnce) {
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

/// Where the first steps show it, nothing is sent early.
TEST(DataParallel, GradientsThatComeTwiceAreNotSentEarly) {
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

TEST(DataParallel, AGradientThatIsReplacedWhenItWasSentIsAnError) {
  const std::vector<std::string> failures = failures_of(local_groups(2), [](ProcessGroup& group) {
    forced_buckets(100);
    Net net({});
    DataParallel parallel(net, group.shared_from_this());
    Tensor last = net.parameters().back();
    const DataParallel::Backward halved = [&](const Tensor& loss) {
      loss.backward();
      last.set_grad(last.grad() * 0.5);
    };
    const auto loss = [&](int64_t) { return net(ones({2, 3, 8, 8})).sum(); };
    for (int i = 0; i < 4; ++i) {
      (void)parallel.forward_backward(loss, halved);
      EXPECT_EQ(last.grad().to_vector<float>(), std::vector<float>(5, 1));
    }
    parallel.overlap(true);
    for (int i = 0; i < 3; ++i) (void)parallel.forward_backward(loss, halved);
  });
  for (const std::string& failure : failures)
    EXPECT_TRUE(has(failure, "was replaced when it was sent")) << failure;
}

TEST(DataParallel, AnOptimizerInAHookIsAnError) {
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

TEST(DataParallel, AnErrorAmidAnEagerBackwardPassEndsAll) {
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

/// The ranks together drop what one does that has all samples.
TEST(DataParallel, DropoutDoesNotDependOnTheRanks) {
  for (const bool compiled : {false, true}) {
    std::vector<std::vector<double>> gradients;
    for (const int size : {1, 2, 4})
      for (const int64_t parts : {1, 2}) {
        run_ranks(local_groups(size), [&](ProcessGroup& group) {
          manual_seed(11);
          nn::Linear net({.in = 8, .out = 8});
          net.to(f64);
          DataParallel parallel(net, group.shared_from_this(), parts * size);
          const Tensor all = sin(arange(64, {.dtype = f64})).reshape({8, 8});
          const int64_t each = 8 / (size * parts);
          auto step = compile([&](const Tensor& x) {
            return parallel.forward_backward([&](int64_t part) {
              const Tensor y = net(x.slice(0, part * each, (part + 1) * each));
              return (dropout(y, 0.5) * y).mean();
            });
          });
          const auto eager = [&](const Tensor& x) {
            return parallel.forward_backward([&](int64_t part) {
              const Tensor y = net(x.slice(0, part * each, (part + 1) * each));
              return (dropout(y, 0.5) * y).mean();
            });
          };
          const int64_t first = group.rank() * each * parts;
          const Tensor own = all.slice(0, first, first + each * parts).contiguous();
          for (int i = 0; i < 5; ++i) (void)(compiled ? step(own) : eager(own));
          if (group.rank() == 0)
            gradients.push_back(net.parameters()[0].grad().to_vector<double>());
        });
        for (size_t i = 0; i < gradients[0].size(); ++i)
          ASSERT_NEAR(gradients.back()[i], gradients[0][i], 1e-14)
              << size << " ranks, " << parts << " parts each" << (compiled ? ", compiled" : "");
      }
  }
}

/// Batches of other lengths drop by themselves.
TEST(DataParallel, PartsOfOtherSizesShareNoMask) {
  Generator generator(5);
  std::vector<RandomKey> keys;
  {
    RandomParts parts(generator, 2);
    parts.begin(0);
    keys.push_back(generator.next_of_samples(400));
    parts.begin(1);
    keys.push_back(generator.next_of_samples(200));
    parts.begin(1);
    keys.push_back(generator.next_of_samples(400));
    parts.begin(1);
    keys.push_back(generator.next_of_samples(6));
  }
  EXPECT_NE(keys[0].part, keys[1].part);
  EXPECT_EQ(keys[0].part, keys[2].part);
  EXPECT_EQ(keys[2].block, 100u);
  EXPECT_EQ(keys[3].part, 1u);
  EXPECT_EQ(keys[3].block, 0u);
}

TEST(DataParallel, TellsTheLossOfEachPart) {
  run_ranks(local_groups(2), [](ProcessGroup& group) {
    nn::Linear net({.in = 1, .out = 1});
    DataParallel parallel(net, group.shared_from_this(), 4);
    const auto losses = [&](double bad) {
      Tensor parts;
      const Tensor loss = parallel.forward_backward(
          [&](int64_t part) {
            const double own = static_cast<double>(2 * group.rank() + part);
            return net(ones({1, 1})).sum() * 0 + (own == 2 ? bad : own);
          },
          {}, &parts);
      std::vector<float> all = parts.to_vector<float>();
      all.push_back(loss.item<float>());
      return all;
    };
    EXPECT_EQ(losses(2), (std::vector<float>{0, 0.25, 0.5, 0.75, 1.5}));
    const std::vector<float> bad = losses(std::numeric_limits<double>::infinity());
    EXPECT_EQ(bad[1], 0.25f);  // of the other rank
    EXPECT_TRUE(std::isinf(bad[2]) && std::isinf(bad[4]));
    EXPECT_EQ(bad[3], 0.75f);
  });
  nn::Linear net({.in = 1, .out = 1});
  DataParallel alone(net, local_groups(1)[0]);
  Tensor parts;
  const Tensor loss = alone.forward_backward(
      [&](int64_t) {
        return net(ones({1, 1})).sum();
      },
      {}, &parts);
  EXPECT_EQ(parts.to_vector<float>(), loss.to_vector<float>());
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
TEST(DataParallel, RanksAgreeOnBuckets) {
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
TEST(DataParallel, OtherShapesAreReducedInTheSameBuckets) {
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
TEST(DataParallel, OtherCollectivesOfTheStepStayWhole) {
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
TEST(DataParallel, PlansOfAThreadShareItsSideStream) {
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

TEST(DataParallel, AnErrorOnTheDeviceEndsWithItsStep) {
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

TEST(DataParallel, AnErrorAmidOverlappedReductionsIsThrown) {
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

TEST(DataParallel, PartsDrawTheirOwnNumbers) {
  std::vector<std::vector<float>> drawn;
  const RandomKey before = (manual_seed(3), Generator::global().state());
  const GroupPtr group = local_groups(1)[0];
  nn::Linear net({.in = 2, .out = 1});
  DataParallel parallel(net, group, 3);
  manual_seed(3);
  const auto step = [&] {
    (void)parallel.forward_backward([&](int64_t) {
      drawn.push_back(rand({4}).to_vector<float>());
      drawn.push_back(rand({4}).to_vector<float>());
      return net(ones({1, 2})).sum();
    });
  };
  step();
  EXPECT_EQ(Generator::global().state(), (RandomKey{before.seed, before.offset + 2}));
  for (size_t i = 0; i < drawn.size(); ++i)
    for (size_t k = 0; k < i; ++k) EXPECT_NE(drawn[i], drawn[k]) << i << " and " << k;
  manual_seed(3);
  EXPECT_EQ(rand({4}).to_vector<float>(), drawn[0]);  // part 0 is as the whole
}

TEST(DataParallel, TheGeneratorGoesOnBehindThePartThatDrewMost) {
  Generator generator(7);
  {
    RandomParts parts(generator, 3);
    for (const int draws : {1, 3, 2}) {
      parts.begin(static_cast<uint64_t>(draws));
      for (int i = 0; i < draws; ++i)
        EXPECT_EQ(generator.next(),
                  (RandomKey{7, static_cast<uint64_t>(i), static_cast<uint64_t>(draws)}));
    }
    EXPECT_THROW(RandomParts inner(generator, 2), ValueError);
  }
  EXPECT_EQ(generator.next(), (RandomKey{7, 3, 0}));
}

TEST(DataParallel, StatisticsAreTheMeanOfTheParts) {
  const GroupPtr group = local_groups(1)[0];
  nn::BatchNorm2d norm({.features = 1});
  DataParallel parallel(norm, group, 2);
  const Tensor x = Tensor::from<float>({0, 2, 10, 20}, {4, 1, 1, 1});
  (void)parallel.forward_backward(
      [&](int64_t part) { return norm(x.slice(0, 2 * part, 2 * part + 2)).sum(); });
  EXPECT_FLOAT_EQ(norm.running_mean.item<float>(), 0.1f * (1 + 15) / 2);
  EXPECT_FLOAT_EQ(norm.running_var.item<float>(), 0.9f + 0.1f * (2 + 50) / 2);
  EXPECT_EQ(norm.state_dict().at("num_batches_tracked").item<int64_t>(), 1);
}

TEST(DataParallel, StartsWithTheWeightsOfRankZero) {
  run_ranks(local_groups(3), [](ProcessGroup& group) {
    nn::Linear net({.in = 3, .out = 2});
    {
      const NoGrad guard;
      net.weight.fill_(group.rank() + 1.0);
    }
    DataParallel parallel(net, group.shared_from_this());
    EXPECT_EQ(net.weight.to_vector<float>(), std::vector<float>(6, 1));
  });
}

TEST(DataParallel, ParametersWithoutGradients) {
  struct Two : nn::Module {
    nn::Linear& a = add<nn::Linear>("a", {.in = 2, .out = 1});
    nn::Linear& b = add<nn::Linear>("b", {.in = 2, .out = 1});
  };
  run_ranks(local_groups(2), [](ProcessGroup& group) {
    Two net;
    DataParallel parallel(net, group.shared_from_this());
    (void)parallel.forward_backward([&](int64_t) { return net.a(ones({1, 2})).sum(); });
    EXPECT_TRUE(net.a.weight.grad().defined());
    EXPECT_FALSE(net.b.weight.grad().defined());  // as with one rank: optimizers leave it
  });
  const std::vector<std::string> failures = failures_of(local_groups(2), [](ProcessGroup& group) {
    Two net;
    DataParallel parallel(net, group.shared_from_this());
    (void)parallel.forward_backward([&](int64_t) {
      return (group.rank() == 0 ? net.a : net.b)(ones({1, 2})).sum();
    });
  });
  EXPECT_NE((failures[0] + failures[1]).find("other parameters"), std::string::npos) << failures[0];
}

/// The gradient of the mean over the ranks, of a network that x is put into.
std::vector<float> exchanged(DType dtype, float x) {
  std::vector<float> gradient;
  run_ranks(local_groups(4), [&](ProcessGroup& group) {
    nn::Linear net({.in = 1, .out = 1, .bias = false});
    DataParallel parallel(net, group.shared_from_this());
    parallel.compress_gradients(dtype);
    const Tensor part = full({1, 1}, x * (1.0F + static_cast<float>(group.rank())));
    auto step = compile([&](const Tensor& some) {
      return parallel.forward_backward([&](int64_t) { return net(some).sum(); });
    });
    for (int i = 0; i < 3; ++i) (void)step(part);
    EXPECT_EQ(net.weight.grad().dtype(), f32);
    if (group.rank() == 0) gradient = net.weight.grad().to_vector<float>();
  });
  return gradient;
}

TEST(DataParallel, GradientsMayBeExchangedIn16Bits) {
  const float x = 1.2345678F, mean = 2.5F * x;
  EXPECT_NEAR(exchanged(f32, x)[0], mean, 1e-6);
  for (const DType dtype : {bf16, f16}) {
    const float error = std::abs(exchanged(dtype, x)[0] - mean);
    const float digit = dtype == bf16 ? 1.0F / 128 : 1.0F / 1024;
    EXPECT_GT(error, 0) << name(dtype);
    EXPECT_LT(error, mean * digit) << name(dtype);
  }
  EXPECT_TRUE(std::isinf(exchanged(f16, 1e6F)[0]));
  EXPECT_NEAR(exchanged(bf16, 1e6F)[0], 2.5e6, 2e4);
  run_ranks(local_groups(2), [](ProcessGroup& group) {
    nn::Linear net({.in = 1, .out = 1});
    DataParallel parallel(net, group.shared_from_this(), 4);
    EXPECT_NE(tests::message_of([&] { parallel.compress_gradients(bf16); }).find("2 virtual ranks"),
              std::string::npos);
    EXPECT_THROW(parallel.compress_gradients(f64), DTypeError);
    parallel.compress_gradients(f32);
  });
}

TEST(DataParallel, BadUse) {
  const GroupPtr group = local_groups(1)[0];
  nn::Linear net({.in = 2, .out = 2});
  run_ranks(local_groups(2), [](ProcessGroup& two) {
    nn::Linear linear({.in = 2, .out = 2});
    EXPECT_THROW(DataParallel(linear, two.shared_from_this(), 3), ValueError);
  });
  EXPECT_THROW(DataParallel(net, group, -1), ValueError);
  DataParallel parallel(net, group);
  EXPECT_THROW(parallel.forward_backward([&](int64_t) { return net(ones({1, 2})); }), ValueError);
  const std::vector<std::string> failures = failures_of(local_groups(2), [](ProcessGroup& two) {
    nn::Linear linear({.in = 2 + two.rank(), .out = 2});
    const DataParallel unequal(linear, two.shared_from_this());
  });
  EXPECT_NE(failures[0].find("rank 1 have other parameters"), std::string::npos) << failures[0];
  EXPECT_NE(tests::message_of([&] { DataParallel(net, nullptr); }).find("no group"),
            std::string::npos);
  if (Device::count("sim") < 1) return;
  run_ranks(local_groups(2), [](ProcessGroup& two) {
    nn::Linear linear({.in = 2, .out = 2});
    linear.to(Device::sim(0));
    EXPECT_NE(tests::message_of([&] {
                DataParallel(linear, two.shared_from_this());
              }).find("work on one stream of sim:0"),
              std::string::npos);
  });
}

/// What a thread has switched on, its ranks have, too.
TEST(RunRanks, HandOverModesAndRandomNumbers) {
  manual_seed(5);
  const Autocast autocast(bf16);
  const NoGrad no_grad;
  std::vector<std::vector<float>> drawn(3);
  run_ranks(local_groups(3), [&](ProcessGroup& group) {
    EXPECT_EQ(Autocast::current(), bf16);
    EXPECT_FALSE(grad_enabled());
    drawn[static_cast<size_t>(group.rank())] = rand({4}).to_vector<float>();
  });
  EXPECT_EQ(drawn[1], drawn[0]);
  EXPECT_EQ(drawn[2], drawn[0]);
  const AnomalyMode anomaly;
  const std::string error = tests::message_of<AutogradError>([&] {
    run_ranks(local_groups(2), [](ProcessGroup& group) {
      if (group.rank() == 1) (void)log(full({2}, -1.0));
    });
  });
  EXPECT_NE(error.find("log"), std::string::npos) << error;
  EXPECT_THROW(run_ranks({}, [](ProcessGroup&) {}), ValueError);
  // What went wrong by itself, and not because of others.
  EXPECT_EQ(tests::message_of([&] {
              run_ranks(local_groups(3), [](ProcessGroup& group) {
                if (group.rank() == 2) raise<ValueError>("mine");
                group.barrier();
              });
            }),
            "mine");
}

}  // namespace
}  // namespace brim::dist
