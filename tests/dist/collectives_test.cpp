// Collectives over ranks that are threads, each backend against plain loops.
#include <brim/autograd/autograd.h>
#include <brim/core/stream.h>
#include <brim/dist/process_group.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/plan/compile.h>

#include <cmath>
#include <numeric>

#include "core/runtime.h"
#include "dist/collectives.h"
#include "dist/run_ranks.h"
#include "dist/sum_tree.h"

namespace brim::dist {
namespace {

class Collectives : public testing::TestWithParam<const char*> {
 protected:
  std::vector<GroupPtr> groups(int size, const GroupOptions& options = {}) const {
    return groups_of(GetParam(), size, options);
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, Collectives, testing::Values("local", "tcp"),
                         [](const auto& backend) { return std::string(backend.param); });

/// Element i of rank r; small enough for i8, and never twice the same in a row.
double number(int64_t i, int r) { return static_cast<double>((i * 7 + r * 3) % 11 - 4); }

Tensor numbers(const Shape& shape, int r, DType dtype, Device device = {}) {
  std::vector<double> values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = number(static_cast<int64_t>(i), r);
  return Tensor::from(values, shape).to(dtype).to(device);
}

std::vector<double> values_of(const Tensor& t) { return t.cpu().to(f64).to_vector<double>(); }

TEST(SumTree, NodesCoverEachVirtualRankOnce) {
  for (const int64_t v : {1, 2, 3, 4, 6, 8, 12, 60})
    for (int size = 1; size <= v; ++size) {
      if (v % size != 0) continue;
      int64_t next = 0;
      for (int rank = 0; rank < size; ++rank)
        for (const TreeNode& node : nodes_of(rank, size, v)) {
          EXPECT_EQ(node.begin, next) << v << " over " << size;
          next = node.end;
        }
      EXPECT_EQ(next, v);
    }
  EXPECT_EQ(nodes_of(1, 4, 8).size(), 1u);  // powers of two: one message a rank
}

TEST_P(Collectives, AllReduceOfEveryDTypeAndSize) {
  for (const int size : {1, 2, 3, 5})
    run_ranks(groups(size), [&](ProcessGroup& group) {
      for (const int64_t count : {0, 1, 7, 2048, 10007})
        for (const DType dtype : {f32, f64, f16, bf16, i64, i32, i8})
          for (const Reduce reduce : {Reduce::sum, Reduce::product, Reduce::min, Reduce::max}) {
            Tensor t = numbers({count}, group.rank(), dtype);
            all_reduce(group, t, reduce);
            const std::vector<double> is = values_of(t);
            for (int64_t i = 0; i < count; ++i) {
              double shall = number(i, 0);
              for (int r = 1; r < size; ++r) {
                const double v = number(i, r);
                shall = reduce == Reduce::sum       ? shall + v
                        : reduce == Reduce::product ? shall * v
                        : reduce == Reduce::min     ? std::min(shall, v)
                                                    : std::max(shall, v);
              }
              if (dtype == i8) shall = static_cast<int8_t>(static_cast<int64_t>(shall));
              // Products of five may have more bits than bf16.
              const double slack = dtype == bf16 ? std::abs(shall) / 100 : 0;
              ASSERT_NEAR(is[static_cast<size_t>(i)], shall, slack)
                  << name(dtype) << ", " << size << " ranks, element " << i;
            }
          }
    });
}

TEST_P(Collectives, ListsOfTensorsAreOneCall) {
  run_ranks(groups(3), [](ProcessGroup& group) {
    std::vector<Tensor> list = {numbers({3, 5}, group.rank(), f32), numbers({0}, group.rank(), f32),
                                numbers({}, group.rank(), f32), numbers({4096}, group.rank(), f32)};
    all_reduce(group, list);
    for (const Tensor& t : list) {
      const std::vector<double> is = values_of(t);
      for (size_t i = 0; i < is.size(); ++i) {
        const auto at = static_cast<int64_t>(i);
        ASSERT_EQ(is[i], number(at, 0) + number(at, 1) + number(at, 2));
      }
    }
  });
}

TEST_P(Collectives, BoolsHaveMinAndMax) {
  run_ranks(groups(2), [](ProcessGroup& group) {
    Tensor t = Tensor::from<bool>({group.rank() == 0, false, true}, {3});
    Tensor any = t.clone(), all = t.clone();
    all_reduce(group, any, Reduce::max);
    all_reduce(group, all, Reduce::min);
    EXPECT_EQ(any.to_vector<bool>(), (std::vector<bool>{true, false, true}));
    EXPECT_EQ(all.to_vector<bool>(), (std::vector<bool>{false, false, true}));
    EXPECT_THROW(all_reduce(group, t), DTypeError);
  });
}

TEST_P(Collectives, NanWins) {
  run_ranks(groups(3), [](ProcessGroup& group) {
    for (const Reduce reduce : {Reduce::sum, Reduce::product, Reduce::min, Reduce::max}) {
      Tensor t = Tensor::from<float>({group.rank() == 1 ? NAN : 2.0f, 1.0f}, {2});
      all_reduce(group, t, reduce);
      EXPECT_TRUE(std::isnan(values_of(t)[0])) << static_cast<int>(reduce);
      EXPECT_FALSE(std::isnan(values_of(t)[1]));
    }
  });
}

TEST_P(Collectives, BroadcastGatherScatterAndAllToAll) {
  for (const int size : {1, 2, 4})
    run_ranks(groups(size), [&](ProcessGroup& group) {
      const int rank = group.rank();
      for (const DType dtype : {f32, u8, i64}) {
        for (int root = 0; root < size; ++root) {
          Tensor t = numbers({5, 3}, rank, dtype);
          broadcast(group, t, root);
          EXPECT_EQ(values_of(t), values_of(numbers({5, 3}, root, dtype)));
        }
        Tensor gathered = zeros({size, 2, 9}, {.dtype = dtype});
        all_gather(group, numbers({9, 2}, rank, dtype).t(), gathered);  // not contiguous
        for (int r = 0; r < size; ++r)
          EXPECT_EQ(values_of(gathered[r].contiguous()),
                    values_of(numbers({9, 2}, r, dtype).t().contiguous()));
        Tensor swapped = zeros({size, 6}, {.dtype = dtype});
        all_to_all(group, numbers({size, 6}, rank, dtype), swapped);
        for (int r = 0; r < size; ++r)
          EXPECT_EQ(values_of(swapped[r].contiguous()),
                    values_of(numbers({size, 6}, r, dtype)[rank].contiguous()));
      }
      Tensor scattered = zeros({4, 5});
      reduce_scatter(group, numbers({size, 4, 5}, rank, f32), scattered);
      Tensor expected = zeros({4, 5});
      for (int r = 0; r < size; ++r) expected = expected + numbers({size, 4, 5}, r, f32)[rank];
      EXPECT_EQ(values_of(scattered), values_of(expected));
    });
}

TEST_P(Collectives, SendAndReceiveRoundARing) {
  run_ranks(groups(3), [](ProcessGroup& group) {
    const int next = (group.rank() + 1) % 3, before = (group.rank() + 2) % 3;
    Tensor t = zeros({100});
    if (group.rank() == 0) {
      send(group, numbers({100}, 7, f32), next);
      receive(group, t, before);
    } else {
      receive(group, t, before);
      send(group, t, next);
    }
    EXPECT_EQ(values_of(t), values_of(numbers({100}, 7, f32)));
    group.barrier();
  });
}

TEST_P(Collectives, LargeMessagesGoBothWays) {
  run_ranks(groups(2), [](ProcessGroup& group) {
    Tensor t = full({5'000'000}, group.rank() + 1.0);
    all_reduce(group, t);
    EXPECT_EQ(t.sum().item(), 15e6);
  });
}

TEST_P(Collectives, DuplicatesDoNotMix) {
  run_ranks(groups(3), [](ProcessGroup& group) {
    const GroupPtr other = group.duplicate();
    const GroupPtr third = other->duplicate();
    std::thread beside([&] {
      for (int i = 0; i < 200; ++i) {
        Tensor t = full({3}, 1.0);
        all_reduce(*other, t);
        EXPECT_EQ(t.sum().item(), 9);
      }
    });
    for (int i = 0; i < 200; ++i) {
      Tensor t = full({1000}, 2.0);
      all_reduce(group, t);
      EXPECT_EQ(t.sum().item(), 6000);
    }
    beside.join();
    EXPECT_EQ(third->all_gather_text("r" + std::to_string(group.rank())),
              (std::vector<std::string>{"r0", "r1", "r2"}));
  });
}

/// The number of ranks changes no bit of what so many virtual ranks add up to, nor on how many
/// hosts they are.
TEST_P(Collectives, VirtualRanksDecideTheBits) {
  const auto value = [](int64_t i, int64_t v) {
    return std::sin(static_cast<double>(i * 31 + v)) * std::pow(10.0, static_cast<double>(v % 5));
  };
  for (const int64_t virtual_ranks : {4, 6, 12}) {
    std::vector<float> expected;
    struct Ranks {
      int size, per_host;
    };
    for (const Ranks& ranks :
         {Ranks{1, 1}, {2, 1}, {3, 3}, {4, 4}, {4, 2}, {6, 6}, {6, 2}, {6, 3}}) {
      const int size = ranks.size, per_host = ranks.per_host;
      if (virtual_ranks % size != 0) continue;
      run_ranks(groups(size, {.ranks_per_host = per_host}), [&](ProcessGroup& group) {
        const std::function<Tensor(TreeNode)> sum = [&](TreeNode node) -> Tensor {
          if (node.size() > 1) return sum(node.left()) + sum(node.right());
          std::vector<float> values(5000);
          for (size_t i = 0; i < values.size(); ++i)
            values[i] = static_cast<float>(value(static_cast<int64_t>(i), node.begin));
          return Tensor::from(values, {5000});
        };
        std::vector<Tensor> nodes;
        for (const TreeNode& node : nodes_of(group.rank(), size, virtual_ranks))
          nodes.push_back(sum(node));
        all_reduce_nodes(group, nodes, virtual_ranks);
        if (size == 1)
          expected = nodes[0].to_vector<float>();
        else
          EXPECT_EQ(nodes[0].to_vector<float>(), expected)
              << virtual_ranks << " over " << size << ", " << per_host << " on each host";
      });
    }
  }
}

TEST_P(Collectives, HostsOfOneSize) {
  const std::vector<std::string> failures =
      failures_of(4, [](int) { (void)local_groups(4, {.ranks_per_host = 3}); });
  EXPECT_TRUE(has(failures[0], "4 ranks are not 3 on each host")) << failures[0];
  // Few elements for many ranks: some have no part of them.
  run_ranks(groups(6, {.ranks_per_host = 3}), [](ProcessGroup& group) {
    const std::shared_ptr<ProcessGroup> other = group.duplicate();
    for (const int64_t count : {0, 1, 2, 4096, 4097, 10007}) {
      Tensor t = numbers({count}, group.rank(), i64);
      all_reduce(*other, t);
      const std::vector<double> is = values_of(t);
      for (int64_t i = 0; i < count; ++i) {
        double shall = 0;
        for (int r = 0; r < 6; ++r) shall += number(i, r);
        ASSERT_EQ(is[static_cast<size_t>(i)], shall) << i << " of " << count;
      }
    }
  });
}

TEST_P(Collectives, QueuedOnVirtualAccelerators) {
  const std::vector<Device> sims = Device::all("sim");
  if (sims.size() < 2) GTEST_SKIP() << "needs two virtual accelerators";
  run_ranks(groups(2), [&](ProcessGroup& group) {
    const Device device = sims[static_cast<size_t>(group.rank())];
    Tensor t = numbers({3000}, group.rank(), f32, device);
    t = t * 2;  // queued before it
    all_reduce(group, t);
    const std::vector<double> is = values_of(t + 1);
    for (size_t i = 0; i < is.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      ASSERT_EQ(is[i], 2 * (number(at, 0) + number(at, 1)) + 1);
    }
  });
}

TEST_P(Collectives, CompiledStepsHoldThem) {
  run_ranks(groups(2), [](ProcessGroup& group) {
    auto step = compile([&](const Tensor& x) {
      Tensor y = x * 3;
      all_reduce(group, y);
      Tensor all = Tensor::empty({2, 4}, f32, {});
      all_gather(group, y + 1, all);
      return std::vector<Tensor>{y, all};
    });
    for (int i = 0; i < 4; ++i) {
      const Tensor x = full({4}, i + group.rank() * 10.0);
      const std::vector<Tensor> result = step(x);
      EXPECT_EQ(values_of(result[0]), std::vector<double>(4, 3.0 * (2 * i + 10)));
      EXPECT_EQ(values_of(result[1]), std::vector<double>(8, 3.0 * (2 * i + 10) + 1));
    }
    EXPECT_EQ(step.stats().plans, 1);
    EXPECT_EQ(step.stats().replays, 4);
  });
}

// --- what goes wrong
// ------------------------------------------------------------------------------

TEST_P(Collectives, OtherCallsAreAnErrorThatShowsBoth) {
  struct Case {
    const char* name;
    std::function<void(ProcessGroup&, bool odd)> call;
    const char *mine, *theirs;
  };
  const auto reduce = [](ProcessGroup& group, const Shape& shape, DType dtype) {
    Tensor t = zeros(shape, {.dtype = dtype});
    all_reduce(group, t);
  };
  const Case cases[] = {
      {"shape", [&](auto& g, bool odd) { reduce(g, {odd ? 4 : 3}, f32); },
       "all_reduce (sum) of 3 f32", "all_reduce (sum) of 4 f32"},
      {"layout",
       [&](auto& g, bool odd) {
         reduce(g, odd ? Shape{2, 3} : Shape{3, 2}, f32);
       },
       "of 6 f32", "with tensors of other shapes"},
      {"dtype", [&](auto& g, bool odd) { reduce(g, {3}, odd ? f64 : f32); }, "of 3 f32",
       "of 3 f64"},
      {"call",
       [&](auto& g, bool odd) {
         if (!odd) return reduce(g, {3}, f32);
         g.barrier();
       },
       "all_reduce", "barrier"},
  };
  for (const Case& c : cases) {
    const std::vector<std::string> failures = failures_of(groups(3), [&](ProcessGroup& group) {
      group.barrier();
      c.call(group, group.rank() == 1);
      group.barrier();
    });
    for (size_t r = 0; r < 3; ++r) EXPECT_NE(failures[r], "") << c.name << " of rank " << r;
    std::string all = failures[0] + failures[1] + failures[2];
    EXPECT_TRUE(has(all, c.mine) && has(all, c.theirs)) << c.name << ": " << all;
    EXPECT_TRUE(has(all, "must call the same")) << all;
  }
}

TEST_P(Collectives, RanksThatEndAreNamed) {
  for (int gone = 0; gone < 3; ++gone) {
    const std::vector<GroupPtr> all = groups(3);
    const std::vector<std::string> failures = failures_of(all, [&](ProcessGroup& group) {
      group.barrier();
      if (group.rank() == gone) return group.abort("it was killed");
      Tensor t = zeros({100});
      all_reduce(group, t);
    });
    for (int r = 0; r < 3; ++r) {
      if (r == gone) continue;
      const std::string& failure = failures[static_cast<size_t>(r)];
      EXPECT_TRUE(has(failure, "rank " + std::to_string(gone)) && has(failure, "it was killed"))
          << failure;
      Tensor t = zeros({1});
      EXPECT_THROW(all_reduce(*all[static_cast<size_t>(r)], t), DistError);  // for good
    }
  }
}

TEST_P(Collectives, RanksThatHangAreNamed) {
  const std::vector<std::string> failures =
      failures_of(groups(2, {.timeout = 0.3}), [](ProcessGroup& group) {
        if (group.rank() == 1) return std::this_thread::sleep_for(std::chrono::milliseconds(800));
        Tensor t = zeros({1});
        all_reduce(group, t);
      });
  EXPECT_TRUE(has(failures[0], "rank 0 has waited 0.3 s in all_reduce")) << failures[0];
  EXPECT_TRUE(has(failures[0], "for rank 1")) << failures[0];
}

TEST_P(Collectives, BadArguments) {
  run_ranks(groups(2), [](ProcessGroup& group) {
    Tensor t = zeros({4, 3}), none;
    EXPECT_THROW(all_reduce(group, none), Error);
    Tensor turned = t.t();
    EXPECT_THROW(all_reduce(group, turned), ShapeError);
    Tensor leaf = zeros({3}, {.requires_grad = true});
    EXPECT_THROW(all_reduce(group, leaf), AutogradError);
    EXPECT_THROW(broadcast(group, t, 2), ValueError);
    EXPECT_THROW(broadcast(group, t, -1), ValueError);
    Tensor y = zeros({3, 4, 3});
    EXPECT_THROW(all_gather(group, t, y), ShapeError);
    EXPECT_THROW(reduce_scatter(group, y, t), ShapeError);
    EXPECT_THROW(all_to_all(group, y, y), ValueError);
    EXPECT_THROW(send(group, t, group.rank()), ValueError);
    std::vector<Tensor> mixed = {zeros({1}), zeros({1}, {.dtype = f64})};
    EXPECT_THROW(all_reduce(group, mixed), DTypeError);
    group.barrier();  // none of them was a call
  });
  EXPECT_THROW(local_groups(0), ValueError);
}

}  // namespace
}  // namespace brim::dist
