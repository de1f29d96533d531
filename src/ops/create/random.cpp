// rand, randn, their _like forms, randint, randperm, bernoulli, uniform_, normal_: random numbers
// that depend only on the generator's key and on an element's row-major position
#include <brim/core/random.h>
#include <brim/formula/formula.h>
#include <brim/ops/create.h>

#include "autograd/node.h"
#include "ops/checks.h"
#include "ops/memory/copy.h"

namespace brim {
namespace {

using RandomKernel =
    backend::Kernel<void(const Context&, Tensor& y, const RandomKey&, const formula::Params&)>;

RandomKey next_key(Generator* generator) {
  return (generator ? *generator : Generator::global()).next();
}

/// Kernels fill row-major memory; other layouts get a copy, so that values do not depend on them.
void draw(const RandomKernel& kernel, Tensor& y, formula::Params params, Generator* generator) {
  const RandomKey key = next_key(generator);
  if (y.is_contiguous()) {
    kernel(y.device(), y.dtype(), y, key, params);
  } else {
    Tensor dense = Tensor::empty(y.shape(), y.dtype(), y.device());
    kernel(y.device(), y.dtype(), dense, key, params);
    ops::copy_elements(dense, y);
  }
}

/// Whether the whole number `v` is in the range of `dtype`.
bool holds(DType dtype, int64_t v) {
  switch (dtype) {
    case DType::bool_:
      return v == 0 || v == 1;
    case DType::u8:
      return v == static_cast<uint8_t>(v);
    case DType::i8:
      return v == static_cast<int8_t>(v);
    case DType::i32:
      return v == static_cast<int32_t>(v);
    case DType::f16:
      return v >= -65504 && v <= 65504;
    default:
      return true;
  }
}

void draw_uniform(Tensor& y, double low, double high, Generator* generator) {
  static const RandomKernel kernel("uniform", {.operands = "y"});
  BRIM_CHECK(low <= high, ValueError, "[uniform] low {} is above high {}; swap them", low, high);
  ops::check_floating("uniform", y);
  draw(kernel, y, {.a = low, .b = high}, generator);
}

void draw_normal(Tensor& y, double mean, double std, Generator* generator) {
  static const RandomKernel kernel("normal", {.operands = "y"});
  BRIM_CHECK(std >= 0, ValueError, "[normal] standard deviation {} is negative", std);
  ops::check_floating("normal", y);
  draw(kernel, y, {.a = mean, .b = std}, generator);
}

}  // namespace

Tensor& Tensor::uniform_(double low, double high, Generator* generator) {
  ops::check_defined("uniform_", *this);
  autograd::check_in_place("uniform_", *this);
  draw_uniform(*this, low, high, generator);
  return *this;
}

Tensor& Tensor::normal_(double mean, double std, Generator* generator) {
  ops::check_defined("normal_", *this);
  autograd::check_in_place("normal_", *this);
  draw_normal(*this, mean, std, generator);
  return *this;
}

Tensor rand(const Shape& shape, const TensorOptions& options, Generator* generator) {
  Tensor y = Tensor::empty(shape, options.dtype, options.device);
  draw_uniform(y, 0, 1, generator);
  if (options.requires_grad) y.set_requires_grad();
  return y;
}

Tensor randn(const Shape& shape, const TensorOptions& options, Generator* generator) {
  Tensor y = Tensor::empty(shape, options.dtype, options.device);
  draw_normal(y, 0, 1, generator);
  if (options.requires_grad) y.set_requires_grad();
  return y;
}

Tensor rand_like(const Tensor& x, Generator* generator) {
  ops::check_defined("rand_like", x);
  return rand(x.shape(), {.dtype = x.dtype(), .device = x.device()}, generator);
}

Tensor randn_like(const Tensor& x, Generator* generator) {
  ops::check_defined("randn_like", x);
  return randn(x.shape(), {.dtype = x.dtype(), .device = x.device()}, generator);
}

Tensor detail::randint(int64_t low, int64_t high, const Shape& shape, const TensorOptions& options,
                       Generator* generator) {
  static const backend::Kernel<void(const Context&, Tensor&, const RandomKey&, int64_t, int64_t)>
      kernel("randint", {.operands = "y"});
  BRIM_CHECK(low < high, ValueError,
             "[randint] the range [{}, {}) is empty; high must be above low", low, high);
  BRIM_CHECK(holds(options.dtype, low) && holds(options.dtype, high - 1), ValueError,
             "[randint] {} does not hold all of [{}, {}); use a wider dtype", name(options.dtype),
             low, high);
  Tensor y = Tensor::empty(shape, options.dtype, options.device);
  kernel(y.device(), y.dtype(), y, next_key(generator), low, high);
  if (options.requires_grad) y.set_requires_grad();
  return y;
}

Tensor detail::randperm(int64_t n, const TensorOptions& options, Generator* generator) {
  static const backend::Kernel<void(const Context&, Tensor&, const RandomKey&)> kernel(
      "randperm", {.operands = "y"});
  BRIM_CHECK(n >= 0, ValueError, "[randperm] {} elements; use 0 or more", n);
  Tensor y = Tensor::empty({n}, options.dtype, options.device);
  kernel(y.device(), y.dtype(), y, next_key(generator));
  return y;
}

Tensor bernoulli(const Tensor& p, Generator* generator) {
  static const backend::Kernel<void(const Context&, const Tensor&, Tensor&, const RandomKey&)>
      kernel("bernoulli", {.operands = "p, y"});
  ops::check_floating("bernoulli", p);
  const Tensor dense = p.detach().contiguous();
  Tensor y = Tensor::empty(p.shape(), p.dtype(), p.device());
  kernel(y.device(), y.dtype(), dense, y, next_key(generator));
  return y;
}

}  // namespace brim
