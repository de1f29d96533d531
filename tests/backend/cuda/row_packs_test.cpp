// Softmax and layer norm read rows in packs of 16 bytes where they can: whatever the addresses,
// results are the same bits, and those of the CPU but for rounding.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <brim/brim.h>

#include "core/runtime.h"

namespace brim {
namespace {

constexpr int64_t kRows = 5;

class CudaRowPacks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Device::count(DeviceKind::cuda) == 0)
      GTEST_SKIP() << "no GPU: " << runtime(DeviceKind::cuda).why_absent();
  }
  const Device gpu = Device::cuda(0);
};

/// The same numbers, one element behind where an access of 16 bytes may begin.
Tensor shifted(const Tensor& x) {
  Tensor room = zeros({x.numel() + 1}, {.dtype = x.dtype(), .device = x.device()});
  Tensor behind = room.slice(0, 1, x.numel() + 1).reshape(x.shape());
  behind.copy_(x);
  return behind;
}

struct Results {
  Tensor y;
  std::vector<Tensor> grads;
};

/// f of leaves, and its gradients where g comes back.
Results results_of(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                   const std::vector<Tensor>& inputs, const Tensor& g) {
  std::vector<Tensor> leaves;
  for (const Tensor& x : inputs) {
    leaves.push_back(x.detach());
    leaves.back().set_requires_grad();
  }
  Results r{f(leaves), {}};
  r.y.backward(g);
  for (const Tensor& leaf : leaves) r.grads.push_back(leaf.grad());
  return r;
}

std::vector<double> numbers_of(const Tensor& x) {
  return x.to(Device::cpu()).to(f64).to_vector<double>();
}

void expect_same_bits(const Results& a, const Results& b, const std::string& what) {
  EXPECT_EQ(numbers_of(a.y), numbers_of(b.y)) << what;
  for (size_t i = 0; i < a.grads.size(); ++i)
    EXPECT_EQ(numbers_of(a.grads[i]), numbers_of(b.grads[i])) << what << ", gradient " << i;
}

void expect_near(const Tensor& a, const Tensor& b, double within, const std::string& what) {
  const auto x = numbers_of(a), y = numbers_of(b);
  ASSERT_EQ(x.size(), y.size());
  for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], within) << what << " at " << i;
}

TEST_F(CudaRowPacks, AddressesChangeNoBit) {
  const auto softmax_of = [](const std::vector<Tensor>& in) { return softmax(in[0], 1); };
  const auto log_softmax_of = [](const std::vector<Tensor>& in) { return log_softmax(in[0], 1); };
  const auto norm_of = [](const std::vector<Tensor>& in) {
    return layer_norm(in[0], {in[0].size(1)}, in[1], in[2]);
  };
  const auto plain_norm_of = [](const std::vector<Tensor>& in) {
    return layer_norm(in[0], {in[0].size(1)});
  };
  // Lengths of one pack, of held rows and of those beyond, for a warp and for both sizes of blocks.
  for (const int64_t n : {1, 7, 8, 24, 264, 1000, 1024, 1032, 8192, 8200, 16384, 16400})
    for (const DType dtype : {f32, f64, f16, bf16}) {
      const std::string what = std::to_string(n) + " " + std::string(name(dtype));
      const Tensor x = (randn({kRows, n}) * 3).to(dtype), g = randn({kRows, n}).to(dtype);
      const Tensor w = rand({n}).to(dtype), b = randn({n}).to(dtype);
      const Tensor dx = x.to(gpu), dg = g.to(gpu), dw = w.to(gpu), db = b.to(gpu);
      // Many terms of one sign in 16 bits are rounded in results alone.
      const double within = dtype == f64 ? 1e-9 : dtype == f32 ? 2e-4 : dtype == f16 ? 2e-2 : 2e-1;
      const auto check = [&](const auto& f, const std::vector<Tensor>& host,
                             const std::vector<Tensor>& device, const std::string& op) {
        std::vector<Tensor> behind;
        for (const Tensor& t : device) behind.push_back(shifted(t));
        const Results whole = results_of(f, device, dg);
        expect_same_bits(whole, results_of(f, behind, shifted(dg)), op + " " + what);
        const Results expected = results_of(f, host, g);
        expect_near(whole.y, expected.y, within, op + " " + what);
        expect_near(whole.grads[0], expected.grads[0], within, op + " gradient " + what);
      };
      check(softmax_of, {x}, {dx}, "softmax");
      check(log_softmax_of, {x}, {dx}, "log_softmax");
      if (n == 1) continue;  // of one element all is 0, or the rounding of it
      check(norm_of, {x, w, b}, {dx, dw, db}, "layer_norm");
      check(plain_norm_of, {x}, {dx}, "layer_norm without parameters");
    }
}

TEST_F(CudaRowPacks, NaNAndInfinityStayInTheirRows) {
  Tensor x = randn({4, 1024});
  x.select(0, 1).slice(0, 1000, 1001).fill_(std::numeric_limits<double>::quiet_NaN());
  x.select(0, 2).slice(0, 3, 4).fill_(std::numeric_limits<double>::infinity());
  for (const Tensor& in : {x, x.to(bf16)}) {
    const auto finite_rows = [](const Tensor& y) {
      std::vector<bool> rows;
      const auto values = numbers_of(y);
      for (size_t row = 0; row < 4; ++row)
        rows.push_back(std::all_of(values.begin() + static_cast<ptrdiff_t>(row) * 1024,
                                   values.begin() + static_cast<ptrdiff_t>(row + 1) * 1024,
                                   [](double v) { return std::isfinite(v); }));
      return rows;
    };
    const std::vector<bool> expected{true, false, false, true};
    EXPECT_EQ(finite_rows(softmax(in.to(gpu), 1)), expected);
    EXPECT_EQ(finite_rows(layer_norm(in.to(gpu), {1024})), expected);
  }
}

}  // namespace
}  // namespace brim
