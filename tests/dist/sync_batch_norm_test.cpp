// Batch normalisation over ranks: what batch_norm gives of all their samples in one tensor.
#include <brim/autograd/autograd.h>
#include <brim/dist/data_parallel.h>
#include <brim/dist/sync_batch_norm.h>
#include <brim/nn/conv.h>
#include <brim/nn/norm.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/reduce.h>
#include <brim/ops/shape.h>
#include <brim/ops/unary.h>
#include <brim/optim/sgd.h>
#include <brim/plan/compile.h>

#include "dist/run_ranks.h"
#include "message_of.h"

namespace brim::dist {
namespace {

using Values = std::vector<double>;

Values values(const Tensor& t) { return t.detach().to(Device::cpu()).to(f64).to_vector<double>(); }

void expect_near(const Values& is, const Values& shall, double tolerance, const std::string& what) {
  ASSERT_EQ(is.size(), shall.size()) << what;
  for (size_t i = 0; i < shall.size(); ++i)
    ASSERT_NEAR(is[i], shall[i], tolerance * (1 + std::abs(shall[i]))) << what << " " << i;
}

struct Case {
  DType dtype = f64, parameters = f64;
  bool affine = true, tracked = true, nhwc = false, on_sim = false;
  double offset = 0;  // of x
  double seed = 0.2;  // mean of dy
};

/// What one call gives, and its gradients for the loss sum(y * weights).
struct Result {
  Values y, dx, dweight, dbias, mean, variance;
};

constexpr int64_t kChannels = 3;

Tensor make(const Shape& shape, double factor, double offset, DType dtype) {
  return (sin(arange(shape.numel(), {.dtype = f64}) * factor) + offset).reshape(shape).to(dtype);
}

/// Of samples [first, end), by batch_norm or with the others of the group.
Result norm_of(const Case& c, int64_t first, int64_t end, ProcessGroup* group) {
  const Device device = c.on_sim ? Device::sim(group ? group->rank() : 0) : Device();
  Tensor x = make({6, kChannels, 2, 3}, 0.7, c.offset, c.dtype).slice(0, first, end).to(device);
  x = (c.nhwc ? x.to(MemoryFormat::nhwc) : x.contiguous()).detach();
  x.set_requires_grad(true);
  const Tensor seed = make({6, kChannels, 2, 3}, 1.3, c.seed, c.dtype).slice(0, first, end);
  Tensor weight, bias, mean, variance;
  if (c.affine) {
    weight = make({kChannels}, 0.9, 1.5, c.parameters).to(device).set_requires_grad(true);
    bias = make({kChannels}, 0.4, 0, c.parameters).to(device).set_requires_grad(true);
  }
  if (c.tracked) {
    mean = zeros({kChannels}, {.dtype = c.parameters, .device = device});
    variance = ones({kChannels}, {.dtype = c.parameters, .device = device});
  }
  const BatchNormOptions options{.training = true, .momentum = 0.3};
  const Tensor y = group ? sync_batch_norm(*group, x, weight, bias, mean, variance, options)
                         : batch_norm(x, weight, bias, mean, variance, options);
  sum(y.to(f64) * seed.to(device).to(f64)).backward();
  Result r{.y = values(y), .dx = values(x.grad())};
  if (c.affine) r.dweight = values(weight.grad()), r.dbias = values(bias.grad());
  if (c.tracked) r.mean = values(mean), r.variance = values(variance);
  return r;
}

void expect_same(const Case& c, double tolerance, const std::string& what) {
  const Result whole = norm_of(c, 0, 6, nullptr);
  const std::vector<int64_t> ends = {0, 1, 3, 6};  // of three ranks with 1, 2 and 3 samples
  std::vector<Result> parts(3);
  run_ranks(local_groups(3), [&](ProcessGroup& group) {
    const auto r = static_cast<size_t>(group.rank());
    parts[r] = norm_of(c, ends[r], ends[r + 1], &group);
  });
  Result joined;
  const auto append = [](Values& to, const Values& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  const auto add = [](Values& to, const Values& from) {
    to.resize(from.size());
    for (size_t i = 0; i < from.size(); ++i) to[i] += from[i];
  };
  for (const Result& part : parts) {
    append(joined.y, part.y);
    append(joined.dx, part.dx);
    add(joined.dweight, part.dweight);
    add(joined.dbias, part.dbias);
    expect_near(part.mean, whole.mean, tolerance, what + ": running mean");
    expect_near(part.variance, whole.variance, tolerance, what + ": running variance");
  }
  expect_near(joined.y, whole.y, tolerance, what + ": y");
  expect_near(joined.dx, whole.dx, tolerance, what + ": dx");
  expect_near(joined.dweight, whole.dweight, 4 * tolerance, what + ": dweight");
  expect_near(joined.dbias, whole.dbias, 4 * tolerance, what + ": dbias");
}

TEST(SyncBatchNorm, IsBatchNormOfAllSamples) {
  expect_same({}, 1e-12, "f64");
  expect_same({.affine = false}, 1e-12, "without weight");
  expect_same({.tracked = false}, 1e-12, "without running statistics");
  expect_same({.nhwc = true}, 1e-12, "NHWC");
  expect_same({.dtype = f32, .parameters = f32}, 1e-5, "f32");
  expect_same({.dtype = bf16, .parameters = f32}, 2e-2, "bf16 beside f32");
  expect_same({.dtype = f16, .parameters = f16}, 4e-3, "f16");
  // Where E[x^2] - E[x]^2 would have no digit left.
  expect_same({.dtype = f32, .parameters = f32, .offset = 3000}, 2e-3, "far from 0");
  expect_same({.dtype = bf16, .parameters = f32, .seed = 10}, 2e-2, "gradients far from 0");
  if (Device::count("sim") >= 3)
    expect_same({.dtype = f32, .parameters = f32, .on_sim = true}, 1e-5, "sim");
}

struct NormNet : nn::Module {
  NormNet() {
    add<nn::Conv2d>("conv", {.in = 3, .out = 4, .kernel = 3});
    add<nn::BatchNorm2d>("norm", {.features = 4});
    add<nn::Conv2d>("conv2", {.in = 4, .out = 5, .kernel = 3});
    add<nn::BatchNorm2d>("norm2", {.features = 5});
    to(f64);
  }
  Tensor forward(const Tensor& x) override {
    Tensor y = x;
    for (const auto& [name, child] : named_children()) y = tanh((*child)(y));
    return y;
  }
};

/// What three steps make of a network, shared by the ranks.
std::vector<Values> trained(ProcessGroup& group, bool compiled) {
  NormNet net;
  for (Tensor& p : net.parameters()) {
    const NoGrad guard;
    p.copy_(sin(arange(p.numel(), {.dtype = f64}) * 1.7).reshape(p.shape()));
  }
  EXPECT_EQ(convert_sync_batch_norm(net, group.shared_from_this()), 2);
  DataParallel parallel(net, group.shared_from_this());
  optim::SGD optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  const auto step = [&](const Tensor& x) {
    const Tensor loss = parallel.forward_backward([&](int64_t) {
      const Tensor y = net(x);
      return mean(y * y * y);
    });
    optimizer.step();
    return loss;
  };
  auto plan = compile(step, {.passes = "exact"});
  std::vector<Values> all;
  const int64_t own = 4 / group.size(), first = own * group.rank();
  for (int i = 0; i < 3; ++i) {
    const Tensor x = sin(arange(4 * 3 * 64, {.dtype = f64}) * (0.37 + i)).reshape({4, 3, 8, 8});
    const Tensor part = x.slice(0, first, first + own).contiguous();
    all.push_back(values(compiled ? plan(part) : step(part)));
  }
  if (compiled) {
    EXPECT_GT(plan.stats().replays, 0);
  }
  for (const auto& [name, t] : net.state_dict()) all.push_back(values(t));
  return all;
}

TEST(SyncBatchNorm, NetworksLearnWhatOneRankDoes) {
  const std::vector<Values> one = trained(*local_groups(1)[0], false);
  for (const int ranks : {2, 4})
    for (const bool compiled : {false, true})
      run_ranks(local_groups(ranks), [&](ProcessGroup& group) {
        const std::vector<Values> several = trained(group, compiled);
        ASSERT_EQ(several.size(), one.size());
        for (size_t i = 0; i < one.size(); ++i)
          expect_near(several[i], one[i], 1e-10, "tensor " + std::to_string(i));
      });
}

TEST(SyncBatchNorm, OneRankAndEvalAreAsWithout) {
  nn::BatchNorm2d norm({.features = 3}), same({.features = 3});
  EXPECT_EQ(convert_sync_batch_norm(norm, local_groups(1)[0]), 1);
  EXPECT_TRUE(has(norm.str(), "synchronised")) << norm.str();
  const Tensor x = sin(arange(4 * 3 * 4, {.dtype = f32})).reshape({4, 3, 2, 2});
  EXPECT_EQ(values(norm(x)), values(same(x)));
  norm.eval(), same.eval();
  EXPECT_EQ(values(norm(x)), values(same(x)));
  EXPECT_EQ(values(norm.running_var), values(same.running_var));
}

TEST(SyncBatchNorm, BadUse) {
  run_ranks(local_groups(2), [](ProcessGroup& group) {
    const auto says = [&](auto f, const std::string& part) {
      const std::string error = tests::message_of<Error>(f);
      EXPECT_TRUE(has(error, part)) << error;
    };
    nn::BatchNorm2d norm({.features = 2});
    (void)convert_sync_batch_norm(norm, group.shared_from_this());
    says([&] { DataParallel(norm, group.shared_from_this(), 4); }, "take 2 virtual ranks");
    says([&] { (void)norm(ones({0, 2, 1, 1})); }, "one sample or more");
    says([&] { (void)sync_batch_norm(group, ones({2}), {}, {}, {}, {}); }, "(N, C, ...)");
    says([&] { (void)sync_batch_norm(group, ones({2, 2}), {}, {}, ones({2}), {}); }, "together");
    Tensor mean = zeros({2});
    says(
        [&] {
          (void)sync_batch_norm(group, ones({2, 2}), {}, {}, mean, ones({3}));
        },
        "running_var has shape (3)");
    EXPECT_EQ(values(mean), Values(2, 0.0));
    says([&] { (void)convert_sync_batch_norm(norm, nullptr); }, "no group");
    nn::BatchNorm2d late({.features = 2});
    DataParallel parallel(late, group.shared_from_this(), 4);
    (void)convert_sync_batch_norm(late, group.shared_from_this());
    says(
        [&] {
          (void)parallel.forward_backward([&](int64_t) { return late(ones({2, 2, 1, 1})).sum(); });
        },
        "take 2 virtual ranks");
    // One sample a rank is enough, other than for one rank.
    Tensor x = ones({1, 2, 1, 1}) * (group.rank() + 1.0);
    x.set_requires_grad(true);
    const Tensor y = norm(x);
    EXPECT_NEAR(values(y)[0], group.rank() ? 1 : -1, 1e-3);
    says([&] { sum(y).backward({}, {.create_graph = true}); }, "first order only");
  });
}

}  // namespace
}  // namespace brim::dist
