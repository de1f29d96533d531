// Which devices the contract suite runs on; tests/backend/cuda/cuda_tests.py asks.
#include <gtest/gtest.h>

#include <brim/core/device.h>

#include "core/runtime.h"

namespace brim {
namespace {

TEST(ContractDevices, Cuda) {
  if (Device::count(DeviceKind::cuda) == 0)
    GTEST_SKIP() << "no GPU: " << runtime(DeviceKind::cuda).why_absent();
  EXPECT_TRUE(Device::cuda(0).available());
}

}  // namespace
}  // namespace brim
