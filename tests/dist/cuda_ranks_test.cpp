// Collectives between GPUs, as `brim launch -n 3 dist_test --gtest_filter=CudaRanks.*` runs them:
// each rank is a process, all run the same tests. Without others they are skipped. Over the
// emulation each has its own GPU, and NCCL is a fake (tests/fakes/nccl.cpp).
#include <brim/autograd/autograd.h>
#include <brim/core/random.h>
#include <brim/dist/data_parallel.h>
#include <brim/dist/launch.h>
#include <brim/nn/linear.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/loss.h>
#include <brim/ops/shape.h>
#include <brim/ops/unary.h>
#include <brim/optim/sgd.h>
#include <brim/plan/compile.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <thread>

#include "core/runtime.h"
#include "dist/collectives.h"
#include "dist/run_ranks.h"
#include "dist/sum_tree.h"
#include "plan/buckets.h"

namespace brim::dist {
namespace {

class CudaRanks : public testing::Test {
 protected:
  void SetUp() override {
    const LaunchEnvironment launched = launch_environment();
    if (!launched.is_distributed()) GTEST_SKIP() << "needs ranks: brim launch -n 3";
    static const GroupPtr world = open_world(launched, {.timeout = 60});
    const std::vector<Device> all = Device::all("cuda");
    device_ = all[static_cast<size_t>(launched.local_rank) % all.size()];
    group_ = world->duplicate();  // with communicators of its own
  }
  int rank() const { return group_->rank(); }
  int size() const { return group_->size(); }

  /// Element i of rank r.
  static double number(int64_t i, int r) { return static_cast<double>((i * 7 + r * 3) % 11 - 4); }
  Tensor numbers(const Shape& shape, int r, DType dtype = f32) const {
    std::vector<double> values(static_cast<size_t>(shape.numel()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = number(static_cast<int64_t>(i), r);
    return Tensor::from(values, shape).to(dtype).to(device_);
  }
  static std::vector<double> values_of(const Tensor& t) {
    return t.cpu().to(f64).to_vector<double>();
  }

  GroupPtr group_;
  Device device_;
};

TEST_F(CudaRanks, AllReduceOfEveryDTypeAndSize) {
  for (const int64_t count : {0, 1, 7, 2048, 10007})
    for (const DType dtype : {f32, f64, f16, bf16, i64, i32, i8, u8})
      for (const Reduce reduce : {Reduce::sum, Reduce::product, Reduce::min, Reduce::max}) {
        // The CPU's kernel is the reference, of the same group.
        Tensor t = numbers({count}, rank(), dtype), reference = t.cpu();
        all_reduce(*group_, t, reduce);
        all_reduce(*group_, reference, reduce);
        ASSERT_EQ(values_of(t), values_of(reference))
            << name(dtype) << " " << count << " " << static_cast<int>(reduce);
      }
  Tensor flags = Tensor::from<bool>({rank() == 0, false, true}, {3}).to(device_);
  all_reduce(*group_, flags, Reduce::max);
  EXPECT_EQ(flags.to_vector<bool>(), (std::vector<bool>{true, false, true}));
}

TEST_F(CudaRanks, SumsHaveTheBitsOfTheCpus) {
  for (const int64_t count : {5, 3001, 70001}) {
    std::vector<float> values(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = std::sin(static_cast<float>(i * 31) + static_cast<float>(rank())) *
                  std::pow(10.0f, static_cast<float>(rank()));
    Tensor reference = Tensor::from(values, {count}), t = reference.to(device_);
    all_reduce(*group_, t);
    all_reduce(*group_, reference);
    EXPECT_EQ(t.to_vector<float>(), reference.to_vector<float>()) << count;
  }
}

TEST_F(CudaRanks, VirtualRanksHaveTheBitsOfTheCpus) {
  const int64_t virtual_ranks = 4 * size();
  std::vector<Tensor> nodes, references;
  for (const TreeNode& node : nodes_of(rank(), size(), virtual_ranks))
    for (const int64_t count : {300, 5000}) {
      std::vector<float> values(static_cast<size_t>(count));
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = std::sin(static_cast<float>(i) * 3 + static_cast<float>(node.begin));
      references.push_back(Tensor::from(values, {count}));
      nodes.push_back(references.back().to(device_));
    }
  all_reduce_nodes(*group_, nodes, virtual_ranks);
  all_reduce_nodes(*group_, references, virtual_ranks);
  for (size_t i = 0; i < 2; ++i)
    EXPECT_EQ(nodes[i].to_vector<float>(), references[i].to_vector<float>());
}

TEST_F(CudaRanks, ListsOfTensorsAreOneCall) {
  std::vector<Tensor> list;
  for (int64_t i = 0; i < 150; ++i) list.push_back(numbers({i % 37, 3}, rank(), f16));
  list.push_back(numbers({50000}, rank(), f16));
  all_reduce(*group_, list);
  for (const Tensor& t : list) {
    const std::vector<double> is = values_of(t);
    for (size_t i = 0; i < is.size(); ++i) {
      double shall = 0;
      for (int r = 0; r < size(); ++r) shall += number(static_cast<int64_t>(i), r);
      ASSERT_EQ(is[i], shall);
    }
  }
}

TEST_F(CudaRanks, BroadcastGatherScatterAndAllToAll) {
  for (const DType dtype : {f32, u8, i64}) {
    for (int root = 0; root < size(); ++root) {
      Tensor t = numbers({5, 3}, rank(), dtype);
      broadcast(*group_, t, root);
      EXPECT_EQ(values_of(t), values_of(numbers({5, 3}, root, dtype)));
    }
    Tensor gathered = zeros({size(), 2, 9}, {.dtype = dtype, .device = device_});
    all_gather(*group_, numbers({9, 2}, rank(), dtype).t(), gathered);
    for (int r = 0; r < size(); ++r)
      EXPECT_EQ(values_of(gathered[r].contiguous()),
                values_of(numbers({9, 2}, r, dtype).t().contiguous()));
    Tensor swapped = zeros({size(), 6}, {.dtype = dtype, .device = device_});
    all_to_all(*group_, numbers({size(), 6}, rank(), dtype), swapped);
    for (int r = 0; r < size(); ++r)
      EXPECT_EQ(values_of(swapped[r].contiguous()),
                values_of(numbers({size(), 6}, r, dtype)[rank()].contiguous()));
  }
  Tensor scattered = zeros({4, 5}, {.device = device_}), expected = scattered.clone();
  reduce_scatter(*group_, numbers({size(), 4, 5}, rank()), scattered);
  for (int r = 0; r < size(); ++r) expected = expected + numbers({size(), 4, 5}, r)[rank()];
  EXPECT_EQ(values_of(scattered), values_of(expected));
}

TEST_F(CudaRanks, SendAndReceiveRoundARing) {
  const int next = (rank() + 1) % size(), before = (rank() + size() - 1) % size();
  Tensor t = numbers({100}, 7);
  if (rank() != 0) t.zero_(), receive(*group_, t, before);
  send(*group_, t, next);
  if (rank() == 0) receive(*group_, t, before);
  EXPECT_EQ(values_of(t), values_of(numbers({100}, 7)));
}

TEST_F(CudaRanks, GraphsHoldThem) {
  auto step = compile([&](const Tensor& x) {
    Tensor y = x * 3;
    all_reduce(*group_, y);
    Tensor all = Tensor::empty({size(), 4}, f32, device_);
    all_gather(*group_, y + 1, all);
    return std::vector<Tensor>{y, all};
  });
  const double others = size() * (size() - 1) / 2.0 * 10;
  for (int i = 0; i < 6; ++i) {
    const std::vector<Tensor> result = step(full({4}, i + rank() * 10.0, {.device = device_}));
    const double sum = 3 * (i * size() + others);
    EXPECT_EQ(values_of(result[0]), std::vector<double>(4, sum));
    EXPECT_EQ(values_of(result[1]), std::vector<double>(4 * static_cast<size_t>(size()), sum + 1));
  }
  EXPECT_EQ(step.stats().plans, 1);
  EXPECT_GT(step.stats().graph_replays, 0);
}

/// Of a network after some compiled steps with batches in so many parts; graphs replay the last.
std::vector<float> trained(ProcessGroup& group, int64_t virtual_ranks, Device device) {
  manual_seed(3);
  nn::Linear net({.in = 6, .out = 5});
  net.to(device);
  DataParallel parallel(net, group.shared_from_this(), virtual_ranks);
  optim::SGD optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  auto step = compile(
      [&](const Tensor& x, const Tensor& y) {
        const Tensor loss = parallel.forward_backward([&](int64_t part) {
          return cross_entropy(net(x.slice(0, 4 * part, 4 * part + 4)),
                               y.slice(0, 4 * part, 4 * part + 4));
        });
        optimizer.step();
        return loss;
      },
      {.passes = "exact"});
  const int64_t own = 4 * virtual_ranks / group.size(), first = own * group.rank();
  for (int i = 0; i < 6; ++i) {
    const Tensor x = sin(arange(4 * virtual_ranks * 6, {.dtype = f32}) * (0.1 + i))
                         .reshape({4 * virtual_ranks, 6});
    const Tensor y = (arange(4 * virtual_ranks) + i) % 5;
    (void)step(x.slice(0, first, first + own).contiguous().to(device),
               y.slice(0, first, first + own).contiguous().to(device));
  }
  std::vector<float> weights;
  for (const Tensor& p : net.parameters()) {
    const std::vector<float> values = p.detach().cpu().contiguous().to_vector<float>();
    weights.insert(weights.end(), values.begin(), values.end());
  }
  return weights;
}

TEST_F(CudaRanks, TrainToTheBitsOfOneRank) {
  const int64_t virtual_ranks = 2 * size();
  const std::vector<float> together = trained(*group_, virtual_ranks, device_);
  EXPECT_EQ(together, trained(*local_groups(1)[0], virtual_ranks, device_));
  plan::forced_buckets = 2;  // graphs have two streams
  EXPECT_EQ(together, trained(*group_, virtual_ranks, device_));
  plan::forced_buckets.reset();
}

// --- what goes wrong: each of these ends the groups of the process, and is run by itself

using CudaRanksFail = CudaRanks;

TEST_F(CudaRanksFail, OtherCallsAreAnErrorThatShowsBoth) {
  Tensor t = zeros({rank() == 1 ? 4 : 3}, {.device = device_});
  try {
    all_reduce(*group_, t);
    group_->barrier();
    FAIL() << "no error";
  } catch (const DistError& e) {
    EXPECT_TRUE(has(e.what(), "must call the same") || has(e.what(), "has given up") ||
                has(e.what(), "has ended") || has(e.what(), "closed"))
        << e.what();
  }
}

/// With BRIM_EMULATED_SHARED=1: all ranks see the same GPUs, of which two take one.
TEST_F(CudaRanksFail, OneGpuOfTwoRanksIsNamed) {
  if (!std::getenv("BRIM_EMULATED_SHARED")) GTEST_SKIP() << "each rank has its own GPUs";
  const Device first = Device::all("cuda")[0];
  Tensor t = zeros({3}, {.device = first});
  try {
    all_reduce(*group_, t);
    FAIL() << "no error";
  } catch (const DistError& e) {
    EXPECT_TRUE(has(e.what(), "ranks 0 and 1 share the device GPU-") && has(e.what(), "cuda:0"))
        << e.what();
  }
}

/// Those that wait for it on their GPU are let go, and told, while graphs hold such calls, too.
TEST_F(CudaRanksFail, RanksThatEndAreNamed) {
  Tensor t = zeros({1000}, {.device = device_});
  auto step = compile([&] { all_reduce(*group_, t); });
  for (int i = 0; i < 6; ++i) step();
  EXPECT_GT(step.stats().graph_replays, 0);
  for (int i = 0; i < 101; ++i) all_reduce(*group_, t);  // from here on nobody meets on the host
  (void)t.cpu();
  if (rank() == 1) {
    group_->abort("it was told to");
    return;
  }
  const auto begin = std::chrono::steady_clock::now();
  try {
    all_reduce(*group_, t);
    (void)t.cpu();
    group_->check();
    FAIL() << "no error";
  } catch (const DistError& e) {
    EXPECT_TRUE(has(e.what(), "rank 1") && has(e.what(), "it was told to")) << e.what();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_THROW(all_reduce(*group_, t), DistError);
}

/// What NCCL itself finds wrong ends the group in all ranks, though graphs ask nobody.
TEST_F(CudaRanksFail, NcclsErrorsAreTold) {
  Tensor t = zeros({1000}, {.device = device_});
  auto step = compile([&] { all_reduce(*group_, t); });
  for (int i = 0; i < 6; ++i) step();
  (void)t.cpu();
  group_->check();
  group_->barrier();
  if (rank() == 1) setenv("BRIM_FAKE", "nccl_breaks", 1);
  const auto begin = std::chrono::steady_clock::now();
  try {
    while (std::chrono::steady_clock::now() - begin < std::chrono::seconds(20)) {
      step();
      (void)t.cpu();
      group_->check();
    }
    FAIL() << "no error";
  } catch (const DistError& e) {
    EXPECT_TRUE(has(e.what(), "NCCL failed") || has(e.what(), "rank")) << e.what();
  }
}

}  // namespace
}  // namespace brim::dist
