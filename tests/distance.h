// How far apart two tensors are.
#pragma once

#include <gtest/gtest.h>

#include <brim/ops/binary.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>

namespace brim::tests {

/// The largest difference of two elements in f64, on whichever devices the tensors are.
inline double distance(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.shape(), b.shape());
  const auto here = [](const Tensor& t) { return t.detach().to(Device::cpu()).to(f64); };
  return max(abs(here(a) - here(b))).item();
}

}  // namespace brim::tests
