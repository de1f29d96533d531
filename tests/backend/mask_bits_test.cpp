// Signs as bits, and the launches that need no more than them.
#include "backend/fused/mask_bits.h"

#include <brim/brim.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace brim {
namespace {

TEST(MaskBits, AreWhatPassesAGradientOn) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = INFINITY;
  std::vector<Device> devices{Device::cpu(), Device::sim(0)};
  if (Device::count(DeviceKind::cuda) > 0) devices.push_back(Device::cuda());
  for (const Device device : devices)
    for (const DType dtype : {f32, f64, f16, bf16})
      for (const int64_t n : {0, 1, 7, 8, 9, 1000, 70001}) {
        std::vector<double> values(static_cast<size_t>(n));
        const std::vector<double> some{1, -1, 0, -0.0, nan, -inf, inf, 0.25, 2, -3, 5};
        for (size_t i = 0; i < values.size(); ++i) values[i] = some[i % some.size()];
        const Tensor x = Tensor::from(values, {n}).to(dtype).to(device);
        Tensor bits = full({backend::mask_bytes(n)}, 170, {.dtype = u8, .device = device});
        Tensor ones = full({n}, 7, {.dtype = dtype, .device = device});
        backend::pack_mask_kernel()(device, dtype, x, bits);
        backend::unpack_mask_kernel()(device, dtype, bits, ones);
        // As relu's gradient has it.
        const Tensor dy = full({n}, 3, {.dtype = dtype, .device = device});
        const Tensor leaf = x.clone().set_requires_grad();
        relu(leaf).backward(dy);
        const Tensor by_mask = ones * 3.0;
        EXPECT_EQ(by_mask.to(f64).to(Device::cpu()).to_vector<double>(),
                  leaf.grad().to(f64).to(Device::cpu()).to_vector<double>())
            << n << " " << name(dtype);
      }
}

}  // namespace
}  // namespace brim
