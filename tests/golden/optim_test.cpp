// Optimizers, learning-rate schedules and gradient clipping against PyTorch.
#include <memory>
#include <string>
#include <vector>

#include <brim/optim/adam.h>
#include <brim/optim/clip.h>
#include <brim/optim/rmsprop.h>
#include <brim/optim/schedule.h>
#include <brim/optim/sgd.h>

#include "golden/golden_case.h"

namespace golden {
namespace {

using namespace brim::optim;

// --- optimizers

std::unique_ptr<Optimizer> make_optimizer(const std::string& kind, const Call& c,
                                          const std::vector<Tensor>& params) {
  const double lr = c.number("lr"), decay = c.get<double>("weight_decay", 0.0);
  const auto betas = c.get<std::vector<double>>("betas", {0.9, 0.999});
  const double eps = c.get<double>("eps", 1e-8), momentum = c.get<double>("momentum", 0.0);
  if (kind == "sgd")
    return std::make_unique<SGD>(params, SGDOptions{.lr = lr,
                                                    .momentum = momentum,
                                                    .dampening = c.get<double>("dampening", 0.0),
                                                    .weight_decay = decay,
                                                    .nesterov = c.flag("nesterov")});
  if (kind == "adam")
    return std::make_unique<Adam>(params, AdamOptions{.lr = lr,
                                                      .beta1 = betas[0],
                                                      .beta2 = betas[1],
                                                      .eps = eps,
                                                      .weight_decay = decay,
                                                      .amsgrad = c.flag("amsgrad")});
  if (kind == "adamw")
    return std::make_unique<AdamW>(
        params, AdamWOptions{.lr = lr,
                             .beta1 = betas[0],
                             .beta2 = betas[1],
                             .eps = eps,
                             .weight_decay = c.get<double>("weight_decay", 0.01)});
  if (kind == "rmsprop")
    return std::make_unique<RMSprop>(params, RMSpropOptions{.lr = lr,
                                                            .alpha = c.get<double>("alpha", 0.99),
                                                            .eps = eps,
                                                            .weight_decay = decay,
                                                            .momentum = momentum,
                                                            .centered = c.flag("centered")});
  throw std::invalid_argument("no optimizer called " + kind);
}

void check_trajectory(const File& file, const std::string& key, DType dtype, double tolerance) {
  SCOPED_TRACE(key + " in " + std::string(brim::name(dtype)));
  std::vector<Tensor> params, gradients;
  for (const char* i : {"0", "1"}) {
    params.push_back(
        file.at(std::string("start/") + i).to(dtype).clone().detach().set_requires_grad());
    gradients.push_back(file.at(std::string("gradient/") + i).to(dtype));
  }
  const Call call{.in = {}, .attrs = Json::parse(file.metadata.at(key))};
  const auto optimizer = make_optimizer(key.substr(0, key.find('/')), call, params);
  for (int step = 1; step <= 20; ++step) {
    for (size_t i = 0; i < params.size(); ++i) params[i].set_grad(gradients[i][step - 1].clone());
    optimizer->step();
    if (step % 5 != 0) continue;
    const std::string prefix = key + "/after" + std::to_string(step) + "/";
    for (size_t i = 0; i < params.size(); ++i)
      EXPECT_EQ(difference(params[i], file.at(prefix + std::to_string(i)), tolerance), "")
          << "parameter " << i << " after step " << step;
  }
}

TEST(Golden, Optimizers) {
  const File file("optim");
  for (const auto& entry : file.metadata) {
    if (entry.first == "torch") continue;
    check_trajectory(file, entry.first, brim::f64, 1e-12);
    check_trajectory(file, entry.first, brim::f32, 5e-6);
  }
}

// --- schedules

std::unique_ptr<Schedule> make_schedule(const std::string& kind, const Call& c,
                                        Optimizer& optimizer) {
  if (kind == "step")
    return std::make_unique<StepLR>(
        optimizer, StepLROptions{.step_size = c.integer("step_size"), .gamma = c.number("gamma")});
  if (kind == "cosine")
    return std::make_unique<CosineAnnealingLR>(
        optimizer, CosineAnnealingLROptions{.T_max = c.integer("T_max"),
                                            .eta_min = c.get<double>("eta_min", 0.0)});
  if (kind == "linear")
    return std::make_unique<LinearLR>(
        optimizer, LinearLROptions{.start_factor = c.get<double>("start_factor", 1.0 / 3),
                                   .end_factor = c.get<double>("end_factor", 1.0),
                                   .total_iters = c.get<int64_t>("total_iters", 5)});
  if (kind == "one_cycle")
    return std::make_unique<OneCycleLR>(
        optimizer, OneCycleLROptions{
                       .max_lr = c.number("max_lr"),
                       .total_steps = c.integer("total_steps"),
                       .pct_start = c.get<double>("pct_start", 0.3),
                       .anneal_strategy = c.get<std::string>("anneal_strategy", "cos") == "linear"
                                              ? Anneal::linear
                                              : Anneal::cosine,
                       .cycle_momentum = false,
                       .div_factor = c.get<double>("div_factor", 25.0),
                       .final_div_factor = c.get<double>("final_div_factor", 1e4)});
  throw std::invalid_argument("no schedule called " + kind);
}

TEST(Golden, Schedules) {
  const File file("schedule");
  for (const auto& [key, text] : file.metadata) {
    if (key == "torch") continue;
    const Call call{.in = {}, .attrs = Json::parse(text)};
    SGD optimizer({brim::zeros({1}).set_requires_grad()},
                  SGDOptions{.lr = call.number("lr"), .momentum = 0.9});
    const auto schedule = make_schedule(key.substr(0, key.find('/')), call, optimizer);
    const auto rates = file.at(key + "/lr").to_vector<double>();
    for (size_t i = 0; i < rates.size(); ++i) {
      if (i > 0) schedule->step();
      EXPECT_NEAR(optimizer.lr(), rates[i], 1e-14) << key << ", step " << i;
    }
  }
}

// --- clipping

std::vector<Tensor> with_gradients(const Call& c) {
  std::vector<Tensor> params;
  for (const Tensor& gradient : c.in) {
    params.push_back(brim::zeros_like(gradient).set_requires_grad());
    params.back().set_grad(gradient.clone());
  }
  return params;
}

const OpTable kClip = {
    {"clip_grad_norm",
     [](const Call& c) -> Outputs {
       const auto params = with_gradients(c);
       const Tensor norm = clip_grad_norm_(params, c.number("max_norm"));
       return {params[0].grad(), params[1].grad(), norm};
     }},
    {"clip_grad_value",
     [](const Call& c) -> Outputs {
       const auto params = with_gradients(c);
       clip_grad_value_(params, c.number("clip_value"));
       return {params[0].grad(), params[1].grad()};
     }},
};

TEST(Golden, Clipping) { run_family("clip", {}, kClip); }

}  // namespace
}  // namespace golden
