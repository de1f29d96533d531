// Steps that do not fit: what they move to the host or compute again changes no bit.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <brim/brim.h>
#include <brim/core/sim.h>

#include "message_of.h"
#include "plan/fitted_training.h"
#include "temporary_folder.h"

namespace brim::tests {
namespace {

struct HostLimit {
  explicit HostLimit(int64_t bytes) { set_pinned_limit(DeviceKind::sim, bytes); }
  ~HostLimit() { set_pinned_limit(DeviceKind::sim, 0); }
  HostLimit(const HostLimit&) = delete;
  HostLimit& operator=(const HostLimit&) = delete;
};

/// With the stream checker, which throws where work touches what another stream still uses.
class Offload : public ::testing::Test {
 protected:
  Offload() {
    SimOptions options = before;
    options.check = true;
    set_sim_options(options);
  }
  ~Offload() override { set_sim_options(before); }
  FittedTraining train(int64_t room, const char* passes) const {
    return train_within(device, room, passes);
  }

  static int64_t count(const MemoryFit& fit, const std::string& choice) {
    return std::ranges::count(fit.tensors, choice, &MemoryFit::Tensor::choice);
  }

  const Device device = Device::sim(0);
  const SimOptions before = sim_options();
};

TEST_F(Offload, ChangesNoBit) {
  const FittedTraining free = train(0, "");
  EXPECT_FALSE(free.fit);
  for (const double share : {0.9, 0.75, 0.65}) {
    const auto limit = static_cast<int64_t>(share * static_cast<double>(free.stats.arena_bytes));
    for (const char* passes : {"", "-offload", "-recompute"}) {
      const FittedTraining fitted = train(limit, passes);
      ASSERT_TRUE(fitted.fit) << share << passes;
      EXPECT_TRUE(fitted.fit->fits) << share << passes;
      EXPECT_LE(fitted.stats.arena_bytes, limit) << share << passes;
      EXPECT_EQ(fitted.values, free.values) << share << passes << "\n" << fitted.explain;
      EXPECT_EQ(fitted.fit->after, fitted.stats.arena_bytes);
      EXPECT_EQ(count(*fitted.fit, "offload") > 0, fitted.stats.host_bytes > 0);
      if (std::string(passes) == "-offload") {
        EXPECT_EQ(count(*fitted.fit, "offload"), 0);
        EXPECT_GT(count(*fitted.fit, "recompute"), 0);
      }
      if (std::string(passes) == "-recompute") {
        EXPECT_EQ(count(*fitted.fit, "recompute"), 0);
        EXPECT_GT(count(*fitted.fit, "offload"), 0);
        EXPECT_NE(fitted.explain.find("fetch"), std::string::npos);
      }
      EXPECT_NE(fitted.explain.find("room\n"), std::string::npos) << fitted.explain;
    }
  }
}

TEST_F(Offload, NorWithAccumulatedGradients) {
  const FittedTraining free = train_within(device, 0, "", 2);
  const auto limit = static_cast<int64_t>(0.75 * static_cast<double>(free.stats.arena_bytes));
  const FittedTraining fitted = train_within(device, limit, "", 2);
  ASSERT_TRUE(fitted.fit);
  EXPECT_TRUE(fitted.fit->fits);
  EXPECT_LE(fitted.stats.arena_bytes, limit);
  EXPECT_EQ(fitted.values, free.values);
}

/// Those of vDNN move tensors where there is room for them, too.
TEST_F(Offload, NorByOtherPolicies) {
  const FittedTraining free = train(0, "");
  const auto limit = static_cast<int64_t>(0.75 * static_cast<double>(free.stats.arena_bytes));
  const FittedTraining shortest = train(limit, "-recompute");
  const FittedTraining in_turn =
      train_within(device, limit, "-recompute", 1, MemoryPolicy::in_turn);
  EXPECT_EQ(in_turn.values, free.values);
  EXPECT_GT(in_turn.fit->waiting, shortest.fit->waiting);
  EXPECT_LE(in_turn.stats.arena_bytes, limit);

  const auto by_rules = [&](MemoryPolicy policy, int64_t room) {
    FittedTraining fitted = train_within(device, room, "", 1, policy);
    EXPECT_EQ(fitted.values, free.values) << fitted.explain;
    return fitted;
  };
  const FittedTraining conv = by_rules(MemoryPolicy::vdnn_conv, 0);
  const FittedTraining all = by_rules(MemoryPolicy::vdnn_all, 0);
  ASSERT_TRUE(conv.fit && all.fit);
  EXPECT_GT(count(*conv.fit, "offload"), 0);
  EXPECT_GT(count(*all.fit, "offload"), count(*conv.fit, "offload"));
  EXPECT_LT(all.stats.arena_bytes, free.stats.arena_bytes);
  EXPECT_EQ(count(*all.fit, "recompute"), 0);
  EXPECT_GT(all.fit->waiting, 0);
  EXPECT_FALSE(by_rules(MemoryPolicy::vdnn_dynamic, 0).fit);  // there is room
  const FittedTraining dynamic = by_rules(MemoryPolicy::vdnn_dynamic, limit);
  ASSERT_TRUE(dynamic.fit);
  EXPECT_LE(dynamic.stats.arena_bytes, limit);
}

/// vDNN's rules count on every part of a batch whose gradients are added up.
TEST_F(Offload, MovesAllPartsByVdnn) {
  for (const auto policy : {MemoryPolicy::vdnn_conv, MemoryPolicy::vdnn_all}) {
    const FittedTraining one = train_within(device, 0, "", 1, policy);
    ASSERT_TRUE(one.fit);
    for (const int parts : {2, 4}) {
      const FittedTraining free = train_within(device, 0, "", parts);
      const FittedTraining moved = train_within(device, 0, "", parts, policy);
      ASSERT_TRUE(moved.fit);
      EXPECT_EQ(count(*moved.fit, "offload"), parts * count(*one.fit, "offload")) << moved.explain;
      EXPECT_EQ(moved.values, free.values);
    }
  }
}

/// Also where large gradients wait from part to part to be added up.
TEST_F(Offload, MovesAllPartsOfALargeNetworkByVdnn) {
  const auto offloaded = [&](int parts) {
    train::Recipe recipe;
    recipe.model = "vgg11";
    recipe.virtual_ranks = parts;
    const train::Forecast f = train::forecast(recipe, {.batch = 4 * parts,
                                                       .device = device,
                                                       .outputs = 10,
                                                       .picture = 64,
                                                       .memory_policy = MemoryPolicy::vdnn_conv});
    return f.fit ? count(*f.fit, "offload") : 0;
  };
  EXPECT_GT(offloaded(1), 0);
  EXPECT_EQ(offloaded(4), 4 * offloaded(1));
}

TEST_F(Offload, TellsWhyVdnnMoves) {
  for (const auto& [policy, why] :
       {std::pair{MemoryPolicy::vdnn_conv, "vDNN moves inputs of convolutions"},
        std::pair{MemoryPolicy::vdnn_all, "vDNN moves inputs of all layers"}}) {
    const FittedTraining moved = train_within(device, 0, "", 1, policy);
    ASSERT_TRUE(moved.fit);
    for (const MemoryFit::Tensor& t : moved.fit->tensors)
      EXPECT_EQ(t.why, t.choice == "offload" ? why : "vDNN does not move it");
  }
}

/// A step that fits as it is runs so where the host's limit is less than vDNN's rules need.
TEST_F(Offload, MovesNothingByVdnnBeyondTheHostsLimit) {
  const FittedTraining free = train(0, "");
  const HostLimit host_limit(4096);
  const FittedTraining kept = train_within(device, 0, "", 1, MemoryPolicy::vdnn_all);
  ASSERT_TRUE(kept.fit);
  EXPECT_TRUE(kept.fit->fits);
  EXPECT_TRUE(kept.fit->host_is_short);
  EXPECT_GT(kept.fit->host, 4096);
  EXPECT_TRUE(kept.fit->tensors.empty());
  EXPECT_EQ(kept.fit->seconds, kept.fit->seconds_before);
  EXPECT_GT(kept.fit->seconds, 0);
  EXPECT_EQ(kept.fit->after, free.stats.arena_bytes);
  EXPECT_EQ(kept.values, free.values);
  EXPECT_NE(kept.explain.find("more than its limit or the system gives"), std::string::npos)
      << kept.explain;

  const auto room = static_cast<int64_t>(0.75 * static_cast<double>(free.stats.arena_bytes));
  const std::string message =
      message_of([&] { (void)train_within(device, room, "", 1, MemoryPolicy::vdnn_all); });
  EXPECT_NE(message.find("to the host, more than its limit"), std::string::npos) << message;
}

/// With what a step waits for, collectives included, counted before as after.
TEST_F(Offload, ComparesLikeTimesByVdnn) {
  train::Recipe recipe;
  recipe.model = "resnet18-cifar";
  const auto of = [&](MemoryPolicy policy) {
    return train::forecast(recipe, {.batch = 32,
                                    .ranks = 4,
                                    .links = {.device = 1e8},
                                    .device = device,
                                    .outputs = 10,
                                    .picture = 32,
                                    .memory_policy = policy});
  };
  const train::Forecast moved = of(MemoryPolicy::vdnn_conv);
  ASSERT_TRUE(moved.fit);
  EXPECT_DOUBLE_EQ(moved.fit->seconds_before, of(MemoryPolicy::shortest).step.step);
  EXPECT_DOUBLE_EQ(moved.fit->seconds, moved.step.step);
}

/// The least that is named is what the rules leave, not what the search could do.
TEST_F(Offload, TellsWhatVdnnLeaves) {
  const auto arena = train_within(device, 0, "", 1, MemoryPolicy::vdnn_conv).stats.arena_bytes;
  const std::string message =
      message_of([&] { (void)train_within(device, arena / 2, "", 1, MemoryPolicy::vdnn_conv); });
  EXPECT_NE(message.find(fmt::format("moved by the rules of vDNN, the step's temporaries need "
                                     "about {:.1f} MiB",
                                     static_cast<double>(arena) / (1 << 20))),
            std::string::npos)
      << message;
}

TEST_F(Offload, RefusesVdnnThatMovesNothing) {
  EXPECT_THROW((void)train_within(device, 0, "-offload", 1, MemoryPolicy::vdnn_all), ValueError);
  const FittedTraining on_cpu = train_within(Device::cpu(), 0, "", 1, MemoryPolicy::vdnn_all);
  EXPECT_FALSE(on_cpu.fit);  // it fits as it is
}

/// Not of what copies have become a launch's neighbours.
TEST_F(Offload, TellsWhatMadeEachTensor) {
  const FittedTraining free = train(0, "");
  const auto limit = static_cast<int64_t>(0.75 * static_cast<double>(free.stats.arena_bytes));
  const FittedTraining fitted = train(limit, "-recompute");
  ASSERT_TRUE(fitted.fit);
  for (const MemoryFit::Tensor& t : fitted.fit->tensors) {
    EXPECT_NE(t.made_by, "offload");
    EXPECT_NE(t.made_by, "fetch");
    EXPECT_NE(t.shape, "") << t.made_by;
  }
}

/// What the host may not hold is computed again; where that is not enough there is an error.
TEST_F(Offload, TakesNoMoreOfTheHostThanItMay) {
  const FittedTraining free = train(0, "");
  const auto limit = static_cast<int64_t>(0.75 * static_cast<double>(free.stats.arena_bytes));
  const FittedTraining moved = train(limit, "-recompute");
  ASSERT_GT(moved.stats.host_bytes, 0);
  const HostLimit host_limit(4096);
  const FittedTraining again = train(limit, "");
  EXPECT_EQ(again.stats.host_bytes, 0);
  EXPECT_GT(count(*again.fit, "recompute"), 0);
  EXPECT_EQ(again.values, free.values);
  EXPECT_THROW((void)train(limit, "-recompute"), OutOfMemory);
}

/// Values are near those of f32, and the same at each run.
/// A ReLU before a pooling is read for its sign alone, where they are launches of their own.
TEST_F(Offload, KeepsMasksAndChangesNoBit) {
  const auto train_pooled = [&](DType dtype, double share, int64_t* arena, std::string* explain) {
    manual_seed(6);
    nn::Sequential net;
    for (const auto& [in, out] : {std::pair(3, 16), std::pair(16, 64), std::pair(64, 128)})
      net.push<nn::Conv2d>({.in = in, .out = out, .kernel = 3, .padding = 1})
          .push<nn::ReLU>()
          .push<nn::MaxPool2d>({.kernel = 2});
    net.push<nn::Flatten>().push<nn::Linear>({.in = 128 * 8 * 8, .out = 10});
    net.to(device);
    const Tensor x = rand({8, 3, 64, 64}).to(device);
    const Tensor y = full({8}, 3, {.dtype = i64, .device = device});
    Allocator& memory = Allocator::of(device);
    memory.release_cached();
    auto step = compile(
        [&](const Tensor& input, const Tensor& target) {
          for (Tensor& p : net.parameters()) p.zero_grad();
          Tensor loss;
          {
            const Autocast scope(dtype);
            loss = cross_entropy(net(input), target);
          }
          loss.backward();
          return loss.detach();
        },
        {.passes = "memory,dead_code,recompute", .keep_gradients = true});
    if (share > 0)
      memory.set_limit(memory.stats().live + memory.stats().cached +
                       static_cast<int64_t>(share * static_cast<double>(*arena)));
    std::vector<std::vector<float>> values{step(x, y).to(Device::cpu()).to_vector<float>()};
    for (const Tensor& p : net.parameters())
      values.push_back(p.grad().to(Device::cpu()).to_vector<float>());
    memory.set_limit(0);
    *arena = step.stats().arena_bytes;
    *explain = step.explain();
    return values;
  };
  for (const DType dtype : {f32, bf16}) {
    int64_t arena = 0;
    std::string explain;
    const auto free = train_pooled(dtype, 0, &arena, &explain);
    const auto fitted = train_pooled(dtype, 0.9, &arena, &explain);
    EXPECT_EQ(fitted, free) << explain;
    EXPECT_NE(explain.find("pack_mask"), std::string::npos) << explain;
    EXPECT_NE(explain.find(" kept as masks"), std::string::npos) << explain;
  }
}

TEST_F(Offload, RoundsWhereItIsAskedTo) {
  const FittedTraining free = train(0, "");
  const auto limit = static_cast<int64_t>(0.75 * static_cast<double>(free.stats.arena_bytes));
  for (const char* passes : {"-offload,-recompute,+round_activations", "+round_activations"}) {
    const FittedTraining rounded = train(limit, passes);
    ASSERT_TRUE(rounded.fit) << passes;
    EXPECT_TRUE(rounded.fit->fits) << rounded.explain;
    EXPECT_LE(rounded.stats.arena_bytes, limit);
    ASSERT_EQ(rounded.values.size(), free.values.size());
    for (size_t i = 0; i < free.values.size(); ++i)
      for (size_t k = 0; k < free.values[i].size(); ++k)
        ASSERT_NEAR(rounded.values[i][k], free.values[i][k], 0.01) << i << " " << k;
    EXPECT_EQ(train(limit, passes).values, rounded.values);
    if (std::string(passes) == "+round_activations") continue;
    EXPECT_GT(count(*rounded.fit, "keep bf16"), 0);
    EXPECT_EQ(rounded.stats.host_bytes, 0);
    EXPECT_NE(rounded.values, free.values);
    EXPECT_NE(rounded.explain.find("kept, 0 moved in bf16"), std::string::npos) << rounded.explain;
  }
}

TEST_F(Offload, MovesHalfOverASlowLink) {
  const TemporaryFolder folder;
  std::ofstream(folder / "slow.toml") << R"(
name = "slow"
source = "test"
memory_gb = 1
bandwidth_gb_s = 1000
host_link_gb_s = 0.5
peer_link_gb_s = 1
link_delay_us = 0
launch_us = 1
kernel_us = 1
[peak_tflops]
f32 = 1
bf16 = 1
[thermal]
idle_w = 100
peak_w = 100
ambient_c = 20
warmth_c_per_w = 1
settling_s = 0.001
throttle_c = 1000
throttle_clock = 1
)";
  SimOptions options = sim_options();
  options.profile = folder / "slow.toml";
  options.paced = false;  // forecasts alone
  set_sim_options(options);
  const FittedTraining free = train(0, "");
  const auto limit = static_cast<int64_t>(0.6 * static_cast<double>(free.stats.arena_bytes));
  const FittedTraining exact = train(limit, "-recompute");
  const FittedTraining rounded = train(limit, "-recompute,+round_activations");
  ASSERT_TRUE(exact.fit && rounded.fit);
  EXPECT_GT(count(*rounded.fit, "keep bf16") + count(*rounded.fit, "offload bf16"), 0);
  EXPECT_LT(rounded.fit->seconds, 0.7 * exact.fit->seconds);
  EXPECT_LT(rounded.stats.host_bytes, exact.stats.host_bytes);
  const FittedTraining moved = train(limit / 2, "-recompute,+round_activations");
  ASSERT_TRUE(moved.fit);
  EXPECT_GT(count(*moved.fit, "offload bf16"), 0) << moved.explain;
  for (const FittedTraining* fitted : {&rounded, &moved})
    for (size_t i = 0; i < free.values.size(); ++i)
      for (size_t k = 0; k < free.values[i].size(); ++k)
        ASSERT_NEAR(fitted->values[i][k], free.values[i][k], 0.01) << i << " " << k;
  for (const double share : {0.9, 0.8, 0.7, 0.5}) {  // what is exact is among the choices
    const auto room = static_cast<int64_t>(share * static_cast<double>(free.stats.arena_bytes));
    EXPECT_LE(train(room, "+round_activations").fit->seconds, train(room, "").fit->seconds);
  }
}

TEST_F(Offload, TellsWhatFitsOnlyRounded) {
  const FittedTraining free = train(0, "");
  const auto limit = static_cast<int64_t>(0.75 * static_cast<double>(free.stats.arena_bytes));
  const HostLimit host_limit(4096);
  const std::string message = message_of([&] { (void)train(limit, "-recompute"); });
  EXPECT_NE(message.find("(the pass +round_activations) they fit"), std::string::npos) << message;
  EXPECT_TRUE(train(limit, "-recompute,+round_activations").fit->fits);
}

TEST_F(Offload, LeavesAStepThatFitsAlone) {
  const FittedTraining free = train(0, "");
  const FittedTraining fits = train(3 * free.stats.arena_bytes, "");
  EXPECT_FALSE(fits.fit);
  EXPECT_EQ(fits.stats.launches, free.stats.launches);
  EXPECT_NE(fits.explain.find("offload: not needed"), std::string::npos) << fits.explain;
}

TEST_F(Offload, TellsTheLeastRoom) {
  const std::string message = message_of([&] { (void)train(200'000, ""); });
  EXPECT_NE(message.find("sim:0 has no room"), std::string::npos) << message;
  EXPECT_NE(message.find("temporaries need about"), std::string::npos) << message;
  EXPECT_NE(message.find("use a smaller batch"), std::string::npos) << message;
}

}  // namespace
}  // namespace brim::tests
