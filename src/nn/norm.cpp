#include <brim/nn/norm.h>

#include <limits>

#include <brim/autograd/autograd.h>
#include <brim/ops/create.h>
#include <brim/ops/norm.h>

#include "nn/layer.h"

namespace brim::nn {
namespace {

const BatchNorm2d::Options& checked(const BatchNorm2d::Options& o) {
  check_positive("BatchNorm2d", "features", o.features);
  return o;
}

void check_shape(const char* layer, const Shape& shape) {
  BRIM_CHECK(shape.rank() > 0 && shape.numel() > 0, ValueError,
             "[{}] shape is {}; give the sizes of the last axes, 1 or more", layer, shape.str());
}

const LayerNorm::Options& checked(const LayerNorm::Options& o) {
  check_shape("LayerNorm", o.shape);
  return o;
}

const RMSNorm::Options& checked(const RMSNorm::Options& o) {
  check_shape("RMSNorm", o.shape);
  return o;
}

const GroupNorm::Options& checked(const GroupNorm::Options& o) {
  check_positive("GroupNorm", "groups", o.groups);
  check_positive("GroupNorm", "channels", o.channels);
  BRIM_CHECK(o.channels % o.groups == 0, ValueError,
             "[GroupNorm] {} groups do not divide channels = {}", o.groups, o.channels);
  return o;
}

/// A tensor of one value, or none.
template <class O>
Tensor start(bool wanted, const O& o, const Shape& shape, double value) {
  if (!wanted) return {};
  return full(shape, value, {.dtype = o.dtype, .device = o.device});
}

}  // namespace

BatchNorm2d::BatchNorm2d(Options o)
    : own_(checked(o)),
      weight(parameter("weight", start(o.affine, o, {o.features}, 1))),
      bias(parameter("bias", start(o.affine, o, {o.features}, 0))),
      running_mean(buffer("running_mean", start(o.track_running_stats, o, {o.features}, 0))),
      running_var(buffer("running_var", start(o.track_running_stats, o, {o.features}, 1))),
      num_batches_tracked(buffer(
          "num_batches_tracked",
          o.track_running_stats ? zeros({}, {.dtype = i64, .device = o.device}) : Tensor())) {}

void BatchNorm2d::replace(const Tensor& new_weight, const Tensor& new_bias, const Tensor& new_mean,
                          const Tensor& new_var) {
  const Tensor& any = new_mean.defined() ? new_mean : new_weight;
  const auto fits = [&](const Tensor& old, const Tensor& t) {
    return t.defined() == old.defined() &&
           (!t.defined() || (t.rank() == 1 && t.shape() == any.shape() && t.numel() > 0));
  };
  BRIM_CHECK(any.defined() && fits(weight, new_weight) && fits(bias, new_bias) &&
                 fits(running_mean, new_mean) && fits(running_var, new_var),
             ShapeError,
             "[BatchNorm2d] parameters to replace others are of another rank or number");
  weight = new_weight;
  bias = new_bias;
  running_mean = new_mean;
  running_var = new_var;
  own_.features = any.numel();
}

Tensor BatchNorm2d::forward(const Tensor& x) {
  BRIM_CHECK(x.rank() == 4, ShapeError, "[BatchNorm2d] x has shape {}; it must be (N, C, H, W)",
             x.shape().str());
  const bool tracked = options.track_running_stats;
  if (training() && tracked) {
    const NoGrad guard;
    num_batches_tracked.add_(ones({}, {.dtype = i64, .device = num_batches_tracked.device()}));
  }
  if (training() && normalise_) return normalise_(x, *this);
  return batch_norm(
      x, weight, bias, running_mean, running_var,
      {.training = training() || !tracked, .momentum = options.momentum, .eps = options.eps});
}

std::string BatchNorm2d::options_str() const {
  std::string text =
      fmt::format("{}, eps={}, momentum={}", options.features, options.eps, options.momentum);
  if (!options.affine) text += ", affine=false";
  if (!options.track_running_stats) text += ", track_running_stats=false";
  if (normalise_) text += ", synchronised";
  return text;
}

LayerNorm::LayerNorm(Options o)
    : options(checked(o)),
      weight(parameter("weight", start(o.affine, o, o.shape, 1))),
      bias(parameter("bias", start(o.affine && o.bias, o, o.shape, 0))) {}

Tensor LayerNorm::forward(const Tensor& x) {
  return layer_norm(x, options.shape, weight, bias, options.eps);
}

std::string LayerNorm::options_str() const {
  return fmt::format("{}, eps={}{}", options.shape.str(), options.eps,
                     !options.affine ? ", affine=false"
                     : !options.bias ? ", bias=false"
                                     : "");
}

RMSNorm::RMSNorm(Options o)
    : options(checked(o)), weight(parameter("weight", start(o.affine, o, o.shape, 1))) {}

Tensor RMSNorm::forward(const Tensor& x) {
  const bool wide = x.defined() && x.dtype() == DType::f64;
  const double precision =
      wide ? std::numeric_limits<double>::epsilon() : double{std::numeric_limits<float>::epsilon()};
  return rms_norm(x, options.shape, weight, options.eps.value_or(precision));
}

std::string RMSNorm::options_str() const {
  std::string text = options.shape.str();
  if (options.eps) text += fmt::format(", eps={}", *options.eps);
  return text + (options.affine ? "" : ", affine=false");
}

GroupNorm::GroupNorm(Options o)
    : options(checked(o)),
      weight(parameter("weight", start(o.affine, o, {o.channels}, 1))),
      bias(parameter("bias", start(o.affine, o, {o.channels}, 0))) {}

Tensor GroupNorm::forward(const Tensor& x) {
  return group_norm(x, options.groups, weight, bias, options.eps);
}

std::string GroupNorm::options_str() const {
  return fmt::format("{}, {}, eps={}{}", options.groups, options.channels, options.eps,
                     options.affine ? "" : ", affine=false");
}

}  // namespace brim::nn
