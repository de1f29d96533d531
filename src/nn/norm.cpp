#include <brim/nn/norm.h>

#include <algorithm>
#include <limits>

#include <brim/autograd/autograd.h>
#include <brim/ops/create.h>
#include <brim/ops/norm.h>

#include "nn/layer.h"

namespace brim::nn {
namespace {

const BatchNorm2d::Options& checked(const BatchNorm2d::Options& o) {
  check_or_inferred("BatchNorm2d", "features", o.features);
  return o;
}

void check_shape(const char* layer, const Shape& shape) {
  BRIM_CHECK(shape.numel() > 0, ValueError,
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
  check_or_inferred("GroupNorm", "channels", o.channels);
  BRIM_CHECK(o.channels % o.groups == 0, ValueError,
             "[GroupNorm] {} groups do not divide channels = {}", o.groups, o.channels);
  return o;
}

/// The parameters' shape; rank 0 while it is inferred.
Shape shape_of(int64_t channels) { return channels == 0 ? Shape() : Shape({channels}); }

/// A tensor of one value, or none where it is not wanted or its shape not known yet.
template <class O>
Tensor start(bool wanted, const O& o, const Shape& shape, double value) {
  if (!wanted || shape.rank() == 0) return {};
  return full(shape, value, {.dtype = o.dtype, .device = o.device});
}

/// The size of x's axis, which a layer's parameters have.
int64_t inferred_size(const char* layer, const Tensor& x, int axis) {
  BRIM_CHECK(x.rank() > std::max(axis, 0) && x.size(axis) > 0, ShapeError,
             "[{}] x is {}; its {} size is that of the parameters, so it cannot be inferred", layer,
             x.shape().str(), axis == 1 ? "second" : "last");
  return x.size(axis);
}

std::string size_str(const Shape& shape) { return shape.rank() == 0 ? "inferred" : shape.str(); }

}  // namespace

BatchNorm2d::BatchNorm2d(Options o)
    : own_(checked(o)),
      weight(parameter("weight", start(o.affine, o, shape_of(o.features), 1))),
      bias(parameter("bias", start(o.affine, o, shape_of(o.features), 0))),
      running_mean(
          buffer("running_mean", start(o.track_running_stats, o, shape_of(o.features), 0))),
      running_var(buffer("running_var", start(o.track_running_stats, o, shape_of(o.features), 1))),
      num_batches_tracked(buffer(
          "num_batches_tracked",
          o.track_running_stats ? zeros({}, {.dtype = i64, .device = o.device}) : Tensor())) {
  if (o.features == 0) defer_parameters(where_of(o));
}

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
  if (deferred_parameters()) {
    const int64_t features = inferred_size("BatchNorm2d", x, 1);
    make_deferred([&](const DeferredParameters& how) {
      const Options o = with_size(own_, &Options::features, features, how);
      weight = start(o.affine, o, {o.features}, 1);
      bias = start(o.affine, o, {o.features}, 0);
      running_mean = start(tracked, o, {o.features}, 0);
      running_var = start(tracked, o, {o.features}, 1);
      own_ = o;
    });
  }
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
  std::string text = fmt::format("{}, eps={}, momentum={}", in_str(options.features), options.eps,
                                 options.momentum);
  if (!options.affine) text += ", affine=false";
  if (!options.track_running_stats) text += ", track_running_stats=false";
  if (normalise_) text += ", synchronised";
  return text;
}

LayerNorm::LayerNorm(Options o)
    : weight(parameter("weight", start(checked(o).affine, o, o.shape, 1))),
      bias(parameter("bias", start(o.affine && o.bias, o, o.shape, 0))),
      options_(o) {
  if (o.shape.rank() == 0) defer_parameters(where_of(o));
}

Tensor LayerNorm::forward(const Tensor& x) {
  if (deferred_parameters()) {
    const Shape shape = {inferred_size("LayerNorm", x, -1)};
    make_deferred([&](const DeferredParameters& how) {
      const Options o = with_size(options_, &Options::shape, shape, how);
      weight = start(o.affine, o, o.shape, 1);
      bias = start(o.affine && o.bias, o, o.shape, 0);
      options_ = o;
    });
  }
  return layer_norm(x, options.shape, weight, bias, options.eps);
}

std::string LayerNorm::options_str() const {
  return fmt::format("{}, eps={}{}", size_str(options.shape), options.eps,
                     !options.affine ? ", affine=false"
                     : !options.bias ? ", bias=false"
                                     : "");
}

RMSNorm::RMSNorm(Options o)
    : weight(parameter("weight", start(checked(o).affine, o, o.shape, 1))), options_(o) {
  if (o.shape.rank() == 0) defer_parameters(where_of(o));
}

Tensor RMSNorm::forward(const Tensor& x) {
  if (deferred_parameters()) {
    const Shape shape = {inferred_size("RMSNorm", x, -1)};
    make_deferred([&](const DeferredParameters& how) {
      const Options o = with_size(options_, &Options::shape, shape, how);
      weight = start(o.affine, o, o.shape, 1);
      options_ = o;
    });
  }
  const bool wide = x.defined() && x.dtype() == DType::f64;
  const double precision =
      wide ? std::numeric_limits<double>::epsilon() : double{std::numeric_limits<float>::epsilon()};
  return rms_norm(x, options.shape, weight, options.eps.value_or(precision));
}

std::string RMSNorm::options_str() const {
  std::string text = size_str(options.shape);
  if (options.eps) text += fmt::format(", eps={}", *options.eps);
  return text + (options.affine ? "" : ", affine=false");
}

GroupNorm::GroupNorm(Options o)
    : weight(parameter("weight", start(checked(o).affine, o, shape_of(o.channels), 1))),
      bias(parameter("bias", start(o.affine, o, shape_of(o.channels), 0))),
      options_(o) {
  if (o.channels == 0) defer_parameters(where_of(o));
}

Tensor GroupNorm::forward(const Tensor& x) {
  if (deferred_parameters()) {
    const int64_t channels = inferred_size("GroupNorm", x, 1);
    make_deferred([&](const DeferredParameters& how) {
      const Options o = checked(with_size(options_, &Options::channels, channels, how));
      weight = start(o.affine, o, {o.channels}, 1);
      bias = start(o.affine, o, {o.channels}, 0);
      options_ = o;
    });
  }
  return group_norm(x, options.groups, weight, bias, options.eps);
}

std::string GroupNorm::options_str() const {
  return fmt::format("{}, {}, eps={}{}", options.groups, in_str(options.channels), options.eps,
                     options.affine ? "" : ", affine=false");
}

}  // namespace brim::nn
