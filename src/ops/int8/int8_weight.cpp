// Int8Weight: weights in integers, with a scale for each output
#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/kernel.h"
#include "ops/checks.h"
#include "ops/int8/int8.h"

namespace brim {
namespace {

constexpr int64_t kOutputs = 16, kInputs = 4;  // whole multiples of every kernel's tiles

/// Enough for the order of every instruction set, and for a number of 32 bits behind it.
Shape packed_shape(const Shape& weight) {
  const auto up = [](int64_t n, int64_t step) { return (n + step - 1) / step * step; };
  const int64_t area = weight.rank() == 4 ? weight[2] * weight[3] : 1;
  return {up(weight[0], kOutputs) * area * up(weight[1], kInputs) + 4};
}

/// Of each output's values; a scale of 0 tells an output of zeros alone.
std::vector<float> scales_of(const std::vector<float>& weight, int64_t outputs) {
  std::vector<float> scales(static_cast<size_t>(outputs), 0.0F);
  const int64_t inputs = outputs > 0 ? static_cast<int64_t>(weight.size()) / outputs : 0;
  for (int64_t o = 0; o < outputs; ++o) {
    float most = 0;
    for (int64_t i = 0; i < inputs; ++i) {
      const float w = weight[static_cast<size_t>(o * inputs + i)];
      BRIM_CHECK(std::isfinite(w), ValueError, "[int8] the weight of output {} holds {}", o, w);
      most = std::max(most, std::fabs(w));
    }
    scales[static_cast<size_t>(o)] = most / 127;
  }
  return scales;
}

}  // namespace

Int8Weight Int8Weight::quantize(const Tensor& weight) {
  ops::check_defined("int8", weight);
  ops::check_int8_shape(weight.shape());
  BRIM_CHECK(weight.dtype() == DType::f32, DTypeError,
             "[int8] a weight of {}: only f32 is implemented", name(weight.dtype()));
  const std::vector<float> dense = weight.detach().to_vector<float>();
  const int64_t outputs = weight.size(0);
  const std::vector<float> scales = scales_of(dense, outputs);
  std::vector<int8_t> values(dense.size());
  const size_t inputs = dense.size() / std::max<size_t>(static_cast<size_t>(outputs), 1);
  for (size_t i = 0; i < dense.size(); ++i) {
    const float scale = scales[i / inputs];
    const float q = scale > 0 ? std::nearbyint(dense[i] / scale) : 0;
    values[i] = static_cast<int8_t>(std::clamp(q, -127.0F, 127.0F));
  }
  const Device device = weight.device();
  return of(Tensor::from<int8_t>(values, weight.shape(), device),
            Tensor::from<float>(scales, {outputs}, device));
}

Int8Weight Int8Weight::of(const Tensor& values, const Tensor& scales, const Tensor& correction) {
  static const backend::Kernel<void(const Context&, const Tensor& values, Tensor& packed)> kernel(
      "int8_pack", {.operands = "values, packed"});
  ops::check_defined("int8", values);
  ops::check_defined("int8", scales);
  ops::check_int8_shape(values.shape());
  const int64_t outputs = values.size(0);
  BRIM_CHECK(values.dtype() == DType::i8 && scales.dtype() == DType::f32 &&
                 scales.shape() == Shape{outputs} && values.device() == scales.device(),
             ValueError, "[int8] values {} {} and scales {} {} are no weight", name(values.dtype()),
             values.shape().str(), name(scales.dtype()), scales.shape().str());
  ops::check_int8_scales(scales, correction, outputs, values.device());
  Int8Weight w{.values = values.detach().contiguous(), .scales = scales.detach().contiguous()};
  if (correction.defined()) w.correction = correction.detach().contiguous();
  const std::vector<int8_t> numbers = w.values.to_vector<int8_t>();
  std::vector<int32_t> sums(static_cast<size_t>(outputs), 0);
  const size_t inputs = numbers.size() / std::max<size_t>(sums.size(), 1);
  for (size_t i = 0; i < numbers.size(); ++i) {
    BRIM_CHECK(numbers[i] >= -127, ValueError, "[int8] a weight holds -128; the least is -127");
    sums[i / inputs] += numbers[i];
  }
  w.sums = Tensor::from<int32_t>(sums, {outputs}, values.device());
  w.packed = Tensor::empty(packed_shape(values.shape()), DType::i8, values.device());
  kernel(values.device(), DType::i8, w.values, w.packed);
  return w;
}

Tensor Int8Weight::dense() const {
  const std::vector<int8_t> numbers = values.to_vector<int8_t>();
  const std::vector<float> factors = scales.to_vector<float>();
  std::vector<float> all(numbers.size());
  const size_t inputs = numbers.size() / std::max<size_t>(factors.size(), 1);
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<float>(numbers[i]) * factors[i / inputs];
  return Tensor::from<float>(all, values.shape(), values.device());
}

Int8Weight Int8Weight::to(Device device) const {
  const auto there = [&](const Tensor& t) { return t.defined() ? t.to(device) : t; };
  return of(there(values), there(scales), there(correction));
}

void Int8Weight::check_structure() const {
  const auto is = [&](const Tensor& t, DType dtype, const Shape& shape) {
    return t.defined() && t.dtype() == dtype && t.shape() == shape && t.is_contiguous();
  };
  const bool is_weight = values.defined() && (values.rank() == 2 || values.rank() == 4);
  const Shape outputs = is_weight ? Shape{values.size(0)} : Shape{};
  const bool is_whole = is_weight && is(values, DType::i8, values.shape()) &&
                        is(scales, DType::f32, outputs) && is(sums, DType::i32, outputs) &&
                        is(packed, DType::i8, packed_shape(values.shape())) &&
                        (!correction.defined() || is(correction, DType::f32, outputs));
  BRIM_CHECK(is_whole, ValueError,
             "[int8] the tensors are no weight; make one with Int8Weight::quantize or of()");
  for (const Tensor* t : {&scales, &sums, &packed, &correction})
    if (t->defined()) ops::common_device("int8", values, *t);
}

int64_t Int8Weight::bytes() const {
  return values.numel() + 4 * scales.numel() + (correction.defined() ? 4 * scales.numel() : 0);
}

}  // namespace brim
