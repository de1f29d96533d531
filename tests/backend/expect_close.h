// What tests of kernels compare results with.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <brim/core/tensor.h>

namespace brim {

/// Elements in row-major order, on whichever device they are.
inline std::vector<double> numbers(const Tensor& t) {
  return t.detach().to(Device::cpu()).to(DType::f64).contiguous().to_vector<double>();
}

/// Equal, on whichever devices they are, but for `tolerance` times the largest finite element, 1 at
/// least; infinite and NaN where that is expected.
inline void expect_close(const Tensor& actual, const Tensor& expected, double tolerance,
                         const std::string& what) {
  ASSERT_EQ(actual.shape(), expected.shape()) << what;
  const std::vector<double> a = numbers(actual), e = numbers(expected);
  double largest = 1;
  for (const double v : e)
    if (std::isfinite(v)) largest = std::max(largest, std::fabs(v));
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(std::isnan(a[i]), std::isnan(e[i])) << what << " at " << i;
    if (!std::isnan(e[i]) && a[i] != e[i]) {
      ASSERT_NEAR(a[i], e[i], tolerance * largest) << what << " at " << i;
    }
  }
}

}  // namespace brim
