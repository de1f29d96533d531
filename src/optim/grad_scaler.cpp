#include <brim/optim/grad_scaler.h>

#include <brim/autograd/autograd.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>

#include <cmath>
#include <span>

#include "backend/options/loss_scale.h"
#include "core/recording.h"
#include "ops/checks.h"
#include "ops/memory/copy.h"

namespace brim::optim {
namespace {

void check(const GradScalerOptions& o) {
  const auto good = [](double v, double above, double below) { return v > above && v < below; };
  BRIM_CHECK(good(o.init_scale, 0, 3.4e38), ValueError,
             "[GradScaler] the scale {} is not above 0 and finite in f32", o.init_scale);
  BRIM_CHECK(o.growth_factor > 1 && std::isfinite(o.growth_factor), ValueError,
             "[GradScaler] growth_factor {} is not above 1", o.growth_factor);
  BRIM_CHECK(good(o.backoff_factor, 0, 1), ValueError,
             "[GradScaler] backoff_factor {} is not between 0 and 1", o.backoff_factor);
  BRIM_CHECK(o.growth_interval >= 1 && o.growth_interval <= INT32_MAX, ValueError,
             "[GradScaler] growth_interval {} is not between 1 and {}", o.growth_interval,
             INT32_MAX);
}

}  // namespace

GradScaler::GradScaler(Device device, Options options) : options_(options) {
  check(options);
  scale_ = full({}, options.init_scale, {.device = device});
  good_steps_ = zeros({}, {.dtype = DType::i32, .device = device});
}

Tensor GradScaler::scale(const Tensor& loss) const {
  ops::check_floating("GradScaler", loss);
  const DType dtype = loss.dtype() == DType::f64 ? DType::f64 : DType::f32;
  return mul(loss.to(dtype), scale_.to(loss.device()).to(dtype));
}

void GradScaler::unscale_(Optimizer& optimizer) {
  static const backend::UnscaleKernel kernel("list_unscale",
                                             {.operands = "rw grads, scale, rw found_inf"});
  const auto use = uses_.find(&optimizer);
  BRIM_CHECK(use == uses_.end() || !use->second.unscaled, ValueError,
             "[GradScaler] the optimizer's gradients are unscaled already; call update() after its "
             "step");
  const NoGrad guard;
  std::vector<Tensor> grads[2];  // f32, f64
  for (const Tensor& p : optimizer.parameters()) {
    const Tensor grad = p.grad();
    if (!grad.defined()) continue;
    (void)ops::common_device("GradScaler", scale_, grad);
    BRIM_CHECK(grad.dtype() == DType::f32 || grad.dtype() == DType::f64, DTypeError,
               "[GradScaler] a gradient is {}; keep parameters in f32 and use Autocast",
               name(grad.dtype()));
    grads[grad.dtype() == DType::f64].push_back(grad);
  }
  Use& u = uses_[&optimizer];
  if (!u.found_inf.defined()) {
    const RecordingPause now;  // it outlives the step that makes it
    u.found_inf = zeros_like(scale_);
  }
  u.found_inf.fill_(0);
  for (std::vector<Tensor>& list : grads) {
    if (list.empty()) continue;
    for (const Tensor& g : list) g.storage()->bump_version();
    kernel(scale_.device(), list[0].dtype(), list, scale_, u.found_inf);
  }
  u.unscaled = true;
}

void GradScaler::step(Optimizer& optimizer) {
  const auto use = uses_.find(&optimizer);
  BRIM_CHECK(use == uses_.end() || !use->second.stepped, ValueError,
             "[GradScaler] step() was called twice without update() in between");
  if (use == uses_.end() || !use->second.unscaled) unscale_(optimizer);
  Use& u = uses_[&optimizer];
  optimizer.step_if_finite(u.found_inf);
  u.stepped = true;
}

void GradScaler::update() {
  static const backend::ScaleUpdateKernel kernel(
      "update_loss_scale", {.operands = "found_inf, rw scale, rw good_steps"});
  const NoGrad guard;
  Tensor found_inf;
  for (auto& [optimizer, use] : uses_) {
    if (!use.unscaled) continue;
    found_inf = found_inf.defined() ? maximum(found_inf, use.found_inf) : use.found_inf;
    use.unscaled = use.stepped = false;
  }
  BRIM_CHECK(found_inf.defined(), ValueError,
             "[GradScaler] update() without a step; call step(optimizer) before it");
  kernel(scale_.device(), DType::f32, found_inf, scale_, good_steps_,
         {.growth = options_.growth_factor,
          .backoff = options_.backoff_factor,
          .interval = static_cast<int32_t>(options_.growth_interval)});
}

double GradScaler::get_scale() const { return scale_.item(); }

StateDict GradScaler::state_dict() const {
  const auto number = [](double v) { return Tensor::from<double>({v}, {}, Device::cpu()); };
  return {{"scale", number(get_scale())},
          {"growth_factor", number(options_.growth_factor)},
          {"backoff_factor", number(options_.backoff_factor)},
          {"growth_interval", number(static_cast<double>(options_.growth_interval))},
          {"growth_tracker", number(static_cast<double>(good_steps_.item<int64_t>()))}};
}

void GradScaler::load_state_dict(const StateDict& state) {
  const auto number = [&](const char* name) {
    const auto at = state.find(name);
    BRIM_CHECK(at != state.end() && at->second.defined() && at->second.numel() == 1, ValueError,
               "[GradScaler] the state dict has no number '{}'; is it of something else?", name);
    return at->second.item<double>();
  };
  const auto whole = [&](const char* name) {
    const double value = number(name);
    BRIM_CHECK(value >= 0 && value <= INT32_MAX && value == std::floor(value), ValueError,
               "[GradScaler] the state dict's '{}' is {}, no count", name, value);
    return static_cast<int64_t>(value);
  };
  const Options options = {.init_scale = number("scale"),
                           .growth_factor = number("growth_factor"),
                           .backoff_factor = number("backoff_factor"),
                           .growth_interval = whole("growth_interval")};
  check(options);
  const int64_t good = whole("growth_tracker");
  BRIM_CHECK(state.size() == 5, ValueError,
             "[GradScaler] the state dict has {} entries instead of 5; is it of something else?",
             state.size());
  const double initial = options_.init_scale;
  options_ = options;
  options_.init_scale = initial;
  scale_.fill_(options.init_scale);
  good_steps_.fill_(static_cast<double>(good));
}

}  // namespace brim::optim
