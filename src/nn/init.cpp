#include <brim/nn/init.h>

#include <cmath>

#include <brim/autograd/autograd.h>

#include "core/check.h"

namespace brim::nn::init {
namespace {

thread_local int skips = 0;  // SkipInit objects

double kaiming_std(const Tensor& t, const KaimingOptions& o) {
  const Fans f = fans(t);
  const int64_t fan = o.mode == FanMode::fan_in ? f.in : f.out;
  // A parameter without elements has nothing to initialise; avoid dividing by its fan.
  return gain(o.nonlinearity, o.a) / std::sqrt(static_cast<double>(std::max<int64_t>(fan, 1)));
}

double xavier_std(const Tensor& t, double factor) {
  const Fans f = fans(t);
  return factor * std::sqrt(2.0 / static_cast<double>(std::max<int64_t>(f.in + f.out, 1)));
}

}  // namespace

SkipInit::SkipInit() { ++skips; }
SkipInit::~SkipInit() { --skips; }

Fans fans(const Tensor& weight) {
  BRIM_CHECK(weight.defined() && weight.rank() >= 2, ShapeError,
             "[init] fans need a weight of at least two axes (out, in, ...), got {}; use uniform_ "
             "or normal_",
             weight.defined() ? weight.shape().str() : "an undefined tensor");
  int64_t field = 1;
  for (int i = 2; i < weight.rank(); ++i) field *= weight.shape()[i];
  return {weight.shape()[1] * field, weight.shape()[0] * field};
}

double gain(Nonlinearity nonlinearity, double slope) {
  switch (nonlinearity) {
    case Nonlinearity::linear:
    case Nonlinearity::sigmoid:
      return 1;
    case Nonlinearity::tanh:
      return 5.0 / 3;
    case Nonlinearity::relu:
      return std::sqrt(2.0);
    case Nonlinearity::leaky_relu:
      return std::sqrt(2 / (1 + slope * slope));
    case Nonlinearity::selu:
      return 0.75;
  }
  __builtin_unreachable();
}

Tensor uniform_(Tensor t, double low, double high) {
  if (skips) return t;
  const NoGrad guard;
  return t.uniform_(low, high);
}

Tensor normal_(Tensor t, double mean, double std) {
  if (skips) return t;
  const NoGrad guard;
  return t.normal_(mean, std);
}

Tensor constant_(Tensor t, double value) {
  if (skips) return t;
  const NoGrad guard;
  return t.fill_(value);
}

Tensor zeros_(Tensor t) { return constant_(std::move(t), 0); }
Tensor ones_(Tensor t) { return constant_(std::move(t), 1); }

Tensor kaiming_uniform_(Tensor t, const KaimingOptions& options) {
  const double bound = std::sqrt(3.0) * kaiming_std(t, options);
  return uniform_(std::move(t), -bound, bound);
}

Tensor kaiming_normal_(Tensor t, const KaimingOptions& options) {
  const double std = kaiming_std(t, options);
  return normal_(std::move(t), 0, std);
}

Tensor xavier_uniform_(Tensor t, double factor) {
  const double bound = std::sqrt(3.0) * xavier_std(t, factor);
  return uniform_(std::move(t), -bound, bound);
}

Tensor xavier_normal_(Tensor t, double factor) {
  const double std = xavier_std(t, factor);
  return normal_(std::move(t), 0, std);
}

}  // namespace brim::nn::init
