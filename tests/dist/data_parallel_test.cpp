// Data parallel training: the same numbers as one rank, and the same bits for so many virtual
// ranks.
#include <brim/autograd/autocast.h>
#include <brim/autograd/autograd.h>
#include <brim/core/random.h>
#include <brim/optim/grad_scaler.h>

#include <cmath>
#include <limits>

#include "core/check.h"
#include "dist/train_ranks.h"
#include "message_of.h"

namespace brim::dist {
namespace {

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

TEST(DataParallel, WithoutExchangesEachRankTrainsByItself) {
  for (const bool exchange : {true, false})
    run_ranks(local_groups(2), [&](ProcessGroup& group) {
      nn::Linear net({.in = 2, .out = 1});
      DataParallel parallel(net, group.shared_from_this());
      parallel.exchange(exchange);
      const Tensor x = full({1, 2}, 1.0 + group.rank());
      for (int i = 0; i < 3; ++i) {  // eager steps exchange early from the second one on
        const Tensor loss =
            parallel.forward_backward([&](int64_t) { return net(x).sum() * 0 + x.sum(); });
        EXPECT_EQ(loss.item(), exchange ? 3 : 1 + group.rank());
        (void)parallel.forward_backward([&](int64_t) { return net(x).sum(); });
        const float expected = exchange ? 1.5F : 0.5F * static_cast<float>(1 + group.rank());
        EXPECT_EQ(net.parameters()[0].grad().to_vector<float>(), std::vector<float>(2, expected));
      }
    });
}

TEST(DataParallel, WithoutExchangesAllPartsAndStatisticsCount) {
  run_ranks(local_groups(3), [](ProcessGroup& group) {
    nn::Linear net({.in = 1, .out = 1});
    DataParallel parallel(net, group.shared_from_this(), 6);
    parallel.exchange(false);
    (void)parallel.forward_backward([&](int64_t) { return net(ones({1, 1})).sum(); });
    EXPECT_NEAR(net.weight.grad().item(), 2.0 / 6, 1e-6);
    for (const int64_t parts : {1, 2}) {
      nn::BatchNorm2d norm({.features = 1});
      DataParallel statistics(norm, group.shared_from_this(), 3 * parts);
      statistics.exchange(false);
      const Tensor x = full({2, 1, 4, 4}, 1.0 + group.rank());
      for (int i = 0; i < 60; ++i)
        (void)statistics.forward_backward([&](int64_t) { return norm(x).sum(); });
      EXPECT_NEAR(norm.running_mean.item(), 1 + group.rank(), 0.01);  // the running mean
    }
  });
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

TEST(DataParallel, AnOverflowOfOneRankSkipsTheStepInAll) {
  for (const bool compiled : {false, true})
    run_ranks(local_groups(2), [compiled](ProcessGroup& group) {
      nn::Linear net({.in = 2, .out = 1});
      optim::SGD optimizer(net.parameters(), {.lr = 0.1});
      optim::GradScaler scaler(Device::cpu(), {.init_scale = 4});
      DataParallel parallel(net, group.shared_from_this());
      const auto one = [&](const Tensor& x) {
        const Tensor loss =
            parallel.forward_backward([&](int64_t) { return net(x).sum(); },
                                      [&](const Tensor& l) { scaler.scale(l).backward(); });
        scaler.step(optimizer);
        scaler.update();
        return loss;
      };
      auto plan = compile(one);
      const auto step = [&](const Tensor& x) { return compiled ? plan(x) : one(x); };
      const auto weights = [&] { return net.parameters()[0].to_vector<float>(); };
      const double inf = std::numeric_limits<double>::infinity();
      const std::vector<float> before = weights();
      (void)step(full({1, 2}, 1));
      const std::vector<float> first = weights();
      EXPECT_NEAR(first[0], before[0] - 0.1, 1e-6);
      (void)step(full({1, 2}, group.rank() == 1 ? inf : 1));  // in one rank alone
      EXPECT_EQ(weights(), first) << group.rank();
      EXPECT_EQ(scaler.get_scale(), 2) << group.rank();
      (void)step(full({1, 2}, 1));
      EXPECT_NEAR(weights()[0], first[0] - 0.1, 1e-6);
      EXPECT_EQ(scaler.get_scale(), 2);
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
