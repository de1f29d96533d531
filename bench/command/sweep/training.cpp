// What trains: losses and optimizers' steps; and the random numbers and constants of a beginning.
#include <brim/ops/create.h>
#include <brim/ops/loss.h>
#include <brim/ops/softmax.h>
#include <brim/optim/adam.h>
#include <brim/optim/clip.h>
#include <brim/optim/rmsprop.h>
#include <brim/optim/sgd.h>

#include <algorithm>
#include <memory>

#include "bench/command/sweep/operands.h"

namespace brim::command {
namespace {

using PairLoss = Tensor (*)(const Tensor& x, const Tensor& target);

void add_pair_losses(std::vector<SweepOp>& ops) {
  const std::pair<const char*, PairLoss> losses[] = {
      {"mse_loss", [](const Tensor& x, const Tensor& y) { return mse_loss(x, y); }},
      {"l1_loss", [](const Tensor& x, const Tensor& y) { return l1_loss(x, y); }},
      {"smooth_l1_loss", [](const Tensor& x, const Tensor& y) { return smooth_l1_loss(x, y); }},
      {"huber_loss", [](const Tensor& x, const Tensor& y) { return huber_loss(x, y, 0.5); }},
      {"bce_with_logits", [](const Tensor& x, const Tensor& y) { return bce_with_logits(x, y); }},
  };
  for (const auto& [name, loss] : losses)
    add_with_training(ops, name, "loss", {"dense"}, [loss = loss](const SweepCase& c, bool trains) {
      return run_either(trains, loss, leaf({c.elements}, c.dtype), rand({c.elements}).to(c.dtype));
    });
}

/// Labels of each row, or of each pixel.
void add_class_losses(std::vector<SweepOp>& ops) {
  const std::vector<std::string> layouts = {"rows-10", "rows-1000", "nchw", "nhwc"};
  const auto labels = [](const Tensor& x) {
    Shape shape = x.shape();
    shape.erase(1);
    return hashed(shape, x.size(1));
  };
  add_with_training(
      ops, "cross_entropy", "loss", layouts, [labels](const SweepCase& c, bool trains) {
        const Tensor x = operand(c).set_requires_grad();
        return run_either(
            trains, [](const Tensor& a, const Tensor& y) { return cross_entropy(a, y); }, x,
            labels(x));
      });
  add_with_training(ops, "nll_loss", "loss", layouts, [labels](const SweepCase& c, bool trains) {
    const Tensor x = log_softmax(operand(c), 1).set_requires_grad();
    return run_either(
        trains, [](const Tensor& a, const Tensor& y) { return nll_loss(a, y); }, x, labels(x));
  });
}

/// Ten parameters with gradients, c.elements together.
std::vector<Tensor> parameters(const SweepCase& c) {
  constexpr int64_t kParameters = 10;
  std::vector<Tensor> result;
  const Shape shape{std::max<int64_t>(1, c.elements / kParameters)};
  for (int64_t i = 0; i < kParameters; ++i) {
    result.push_back(leaf(shape, c.dtype));
    result.back().set_grad(values(shape, c.dtype));
  }
  return result;
}

template <class O>
void add_optimizer(std::vector<SweepOp>& ops, const char* name, typename O::Options options) {
  const std::vector<DType> dtypes =
      options.master_weights ? std::vector<DType>{bf16, f16} : kFloats;
  ops.push_back({name, "optimizer", {"dense"}, dtypes, [options](const SweepCase& c) {
                   const std::vector<Tensor> all = parameters(c);
                   const auto optimizer = std::make_shared<O>(all, options);
                   const auto step = [optimizer] { optimizer->step(); };
                   return SweepRun{.step = step, .results = [step, all] {
                                     step();
                                     return all;
                                   }};
                 }});
}

void add_optimizers(std::vector<SweepOp>& ops) {
  add_optimizer<optim::SGD>(ops, "sgd", {.lr = 1e-3});
  add_optimizer<optim::SGD>(ops, "sgd-momentum", {.lr = 1e-3, .momentum = 0.9});
  add_optimizer<optim::Adam>(ops, "adam", {});
  add_optimizer<optim::AdamW>(ops, "adamw", {});
  add_optimizer<optim::AdamW>(ops, "adamw-masters", {.master_weights = true});
  add_optimizer<optim::RMSprop>(ops, "rmsprop", {});
  ops.push_back({"clip_grad_norm_", "optimizer", {"dense"}, kFloats, [](const SweepCase& c) {
                   return forward([all = parameters(c)] { return optim::clip_grad_norm_(all, 1); });
                 }});
}

void add_random(std::vector<SweepOp>& ops) {
  ops.push_back({"rand", "create", {"dense"}, kFloats, [](const SweepCase& c) {
                   return forward([c] { return rand({c.elements}, {.dtype = c.dtype}); });
                 }});
  ops.push_back({"randn", "create", {"dense"}, kFloats, [](const SweepCase& c) {
                   return forward([c] { return randn({c.elements}, {.dtype = c.dtype}); });
                 }});
  ops.push_back({"randint", "create", {"dense"}, {i64}, [](const SweepCase& c) {
                   return forward([n = c.elements] { return randint(0, 100, {n}); });
                 }});
  ops.push_back({"randperm", "create", {"dense"}, {i64}, [](const SweepCase& c) {
                   return forward([n = c.elements] { return randperm(n); });
                 }});
  ops.push_back({"bernoulli", "create", {"dense"}, kF32, [](const SweepCase& c) {
                   return forward([](const Tensor& p) { return bernoulli(p); }, rand({c.elements}));
                 }});
  ops.push_back({"multinomial", "create", {"rows-1000"}, kF32, [](const SweepCase& c) {
                   return forward([](const Tensor& w) { return multinomial(w, 10, true); },
                                  operand(c, Values::positive));
                 }});
}

void add_constants(std::vector<SweepOp>& ops) {
  ops.push_back({"zeros", "create", {"dense"}, kFloats, [](const SweepCase& c) {
                   return forward([c] { return zeros({c.elements}, {.dtype = c.dtype}); });
                 }});
  ops.push_back({"full", "create", {"dense"}, kFloats, [](const SweepCase& c) {
                   return forward([c] { return full({c.elements}, 2.5, {.dtype = c.dtype}); });
                 }});
  ops.push_back({"arange", "create", {"dense"}, {i64, f32}, [](const SweepCase& c) {
                   return forward([c] { return arange(c.elements, {.dtype = c.dtype}); });
                 }});
  ops.push_back({"linspace", "create", {"dense"}, kF32, [](const SweepCase& c) {
                   return forward([n = c.elements] { return linspace(0, 1, n); });
                 }});
}

}  // namespace

std::vector<SweepOp> sweep_training() {
  std::vector<SweepOp> ops;
  for (const auto add :
       {add_pair_losses, add_class_losses, add_optimizers, add_random, add_constants})
    add(ops);
  return ops;
}

}  // namespace brim::command
