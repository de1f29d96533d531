// A network of torchvision's with weights that are computed on both sides (resnet.py).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <brim/nn/module.h>

#include "golden/golden_file.h"
#include "golden/tutorial_batch.h"

namespace golden {

using brim::Tensor;

inline constexpr uint64_t kPictures = 1000;

/// (u(number, i) - shift) * scale in float64, rounded to float32.
inline Tensor computed(uint64_t number, const brim::Shape& shape, double shift, double scale) {
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) {
    const double u = static_cast<double>(splitmix64((number << 32) + i) >> 40) / (1 << 24);
    values[i] = static_cast<float>((u - shift) * scale);
  }
  return Tensor::from(values, shape);
}

inline Tensor computed_weight(uint64_t number, const std::string& name, const brim::Shape& shape) {
  if (shape.rank() > 1)
    return computed(
        number, shape, 0.5,
        std::sqrt(24.0 * static_cast<double>(shape[0]) / static_cast<double>(shape.numel())));
  if (name.ends_with("running_var") || name.ends_with("weight"))  // of batch norm
    return computed(number, shape, -0.5, 1);
  return computed(number, shape, 0.5, 0.2);
}

inline void expect_values(const std::vector<double>& got, const Tensor& golden,
                          const std::string& what, double tolerance) {
  const auto expected = golden.to_vector<double>();
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i])))
        << what << " " << i;
}

inline std::vector<double> values(const Tensor& x) { return x.to(brim::f64).to_vector<double>(); }

inline double norm_of(const Tensor& x) {
  double sum = 0;
  for (const double v : values(x)) sum += v * v;
  return std::sqrt(sum);
}

/// Checks names and shapes of the state, and fills it.
inline void load_computed(brim::nn::Module& net, const File& golden, const std::string& model) {
  const auto names = nlohmann::json::parse(golden.metadata.at("state/" + model));
  brim::StateDict state = net.state_dict();
  ASSERT_EQ(state.size(), names.size());
  uint64_t number = 0;
  for (const nlohmann::json& entry : names) {
    const std::string name = entry[0];
    const auto shape = entry[1].get<std::vector<int64_t>>();
    ASSERT_TRUE(state.contains(name)) << name;
    ASSERT_EQ(state[name].shape(), brim::Shape(std::span(shape))) << name;
    if (state[name].dtype() == brim::f32)
      state[name] = computed_weight(number, name, state[name].shape());
    ++number;
  }
  net.load_state_dict(state);
}

inline Tensor computed_pictures(int64_t size) {
  return computed(kPictures, {2, 3, size, size}, 0.5, 4);
}

}  // namespace golden
