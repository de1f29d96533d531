// A network that ranks train together, for tests.
#pragma once

#include <brim/autograd/autograd.h>
#include <brim/dist/data_parallel.h>
#include <brim/nn/conv.h>
#include <brim/nn/linear.h>
#include <brim/nn/norm.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/loss.h>
#include <brim/ops/shape.h>
#include <brim/ops/unary.h>
#include <brim/optim/sgd.h>
#include <brim/plan/compile.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dist/run_ranks.h"
#include "plan/buckets.h"

namespace brim::dist {

/// Of the calling rank's steps.
inline void forced_buckets(size_t count) {
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
inline Weights train(ProcessGroup& group, const Run& run,
                     const std::map<std::string, Tensor>& start) {
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

inline std::map<std::string, Tensor> start_of(const NetOptions& options) {
  manual_seed(5);
  Net net(options);
  std::map<std::string, Tensor> start;
  for (const auto& [name, t] : net.state_dict()) start[name] = t.clone();
  return start;
}

/// Of rank 0, after a look that all ranks have the same.
inline Weights weights_of(const Run& run) {
  const std::map<std::string, Tensor> start = start_of(run.net);
  std::vector<Weights> all(static_cast<size_t>(run.size));
  std::vector<GroupPtr> groups = local_groups(run.size);
  run_ranks(groups, [&](ProcessGroup& group) {
    all[static_cast<size_t>(group.rank())] = train(group, run, start);
  });
  for (const Weights& weights : all) EXPECT_EQ(weights, all[0]);
  return all[0];
}

inline void expect_near(const Weights& is, const Weights& shall, const std::string& what) {
  ASSERT_EQ(is.size(), shall.size());
  for (const auto& [name, values] : shall)
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(is.at(name)[i], values[i], 2e-6 + 2e-5 * std::abs(values[i]))
          << what << ": " << name << " " << i;
}

}  // namespace brim::dist
