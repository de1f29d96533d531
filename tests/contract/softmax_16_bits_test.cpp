// softmax and log_softmax of 16-bit floats, forward and gradients: against f64, along rows and
// columns of whole and of broken vectors, of views, and of what is not finite.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include <brim/brim.h>

#include "contract/harness.h"

namespace brim {
namespace {

using contract::devices;

constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor apply(const Tensor& x, int axis, bool log) {
  return log ? log_softmax(x, axis) : softmax(x, axis);
}

/// y and the gradient of x, in f64 on the host.
std::pair<Tensor, Tensor> run(const Tensor& x, const Tensor& dy, int axis, bool log, DType dtype,
                              Device device) {
  const Tensor leaf = x.to(dtype).to(device).detach().set_requires_grad();
  const Tensor y = apply(leaf, axis, log);
  EXPECT_EQ(y.dtype(), dtype);
  y.backward(dy.to(dtype).to(device));
  const auto host = [](const Tensor& t) { return t.to(Device::cpu()).to(f64).contiguous(); };
  return {host(y.detach()), host(leaf.grad())};
}

void expect_near_f64(const Tensor& from, int axis, DType dtype, bool log, Device device) {
  SCOPED_TRACE(std::string(log ? "log_softmax of " : "softmax of ") + from.shape().str() +
               " along " + std::to_string(axis) + ", " + std::string(name(dtype)) + " on " +
               device.str());
  Generator generator(8);
  const Tensor x = from.to(dtype), dy = randn(x.shape(), {}, &generator).to(dtype);
  const auto [y, dx] = run(x, dy, axis, log, dtype, device);
  const auto [want, want_dx] = run(x, dy, axis, log, f64, Device::cpu());
  if (y.numel() == 0) return;
  const double once = dtype == f16 ? 0x1p-11 : 0x1p-8;
  EXPECT_LE(amax(abs(y - want) - abs(want) * (1.01 * once)).item(), 1e-6);
  // The gradient reads y, which is rounded: of log_softmax, whose y are large, it is off by more.
  const double scale = amax(abs(want_dx)).item();
  const double largest = log ? amax(abs(want)).item() * amax(abs(sum(dy.to(f64), {axis}))).item() *
                                   amax(exp(want)).item()
                             : scale;
  EXPECT_LE(amax(abs(dx - want_dx)).item(), 2.5 * once * (scale + largest) + 1e-6);
}

TEST(Softmax16Bits, IsThatOfF64) {
  struct Case {
    Shape shape;
    int axis;
  };
  for (const Device device : devices())
    for (const DType dtype : {f16, bf16})
      for (const bool log : {false, true})
        for (const auto& [shape, axis] :
             {Case{{7, 1}, 1}, Case{{67, 10}, 1}, Case{{3, 32}, 1}, Case{{5, 33}, 1},
              Case{{3, 1000}, 1}, Case{{2, 1031}, 1}, Case{{2, 8192}, 1}, Case{{2, 8193}, 1},
              Case{{2, 5, 3}, 1}, Case{{64, 64}, 0}, Case{{129, 70}, 0}, Case{{2, 128, 65}, 1},
              Case{{9, 1, 131}, 0}, Case{{0, 5}, 1}, Case{{5, 0}, 1}, Case{{3, 0, 4}, 0}}) {
          Generator generator(4);
          expect_near_f64(randn(shape, {}, &generator) * 3, axis, dtype, log, device);
        }
}

// So many elements that rows are fetched ahead, past the end of the last.
TEST(Softmax16Bits, OfManyColumnsIsThatOfF64) {
  Generator generator(4);
  for (const Shape& shape : {Shape{3, 40, 10007}, Shape{1, 9001, 131}})
    expect_near_f64(randn(shape, {}, &generator), 1, bf16, false, Device::cpu());
}

TEST(Softmax16Bits, OfViewsIsThatOfTheirCopies) {
  Generator generator(6);
  for (const DType dtype : {f16, bf16})
    for (const bool log : {false, true})
      for (const int axis : {0, 1}) {
        const Tensor whole = randn({74, 90}, {}, &generator).to(dtype);
        for (const Tensor& view :
             {whole.transpose(0, 1), whole.slice(1, 3, 80), whole.slice(0, 1, 70)})
          EXPECT_TRUE(all(eq(apply(view, axis, log), apply(view.clone().contiguous(), axis, log)))
                          .item<bool>());
      }
}

TEST(Softmax16Bits, MasksInfinitiesAndPassesNansOn) {
  for (const DType dtype : {f16, bf16})
    for (const int64_t n : {5, 37, 9000})
      for (const bool rows : {true, false}) {
        SCOPED_TRACE(std::string(name(dtype)) + " of " + std::to_string(n));
        Tensor x = zeros({4, n});
        x[0][n - 1].fill_(-kInf);
        x[1][n - 1].fill_(kInf - kInf);
        x[2].fill_(-kInf);
        x[3][0].fill_(kInf);
        const Tensor from = (rows ? x : x.transpose(0, 1)).to(dtype);
        for (const bool log : {false, true}) {
          Tensor y = apply(from, rows ? 1 : 0, log).to(f64);
          if (!rows) y = y.transpose(0, 1);
          EXPECT_EQ(y[0][n - 1].item(), log ? -kInf : 0.0);
          EXPECT_NEAR(y[0][0].item(), log ? -std::log(n - 1.0) : 1.0 / (n - 1.0), 0.04);
          for (const int row : {1, 2}) EXPECT_TRUE(all(isnan(y[row])).item<bool>()) << row;
          EXPECT_TRUE(isnan(y[3][0]).item<bool>());
        }
      }
}

// Far below the largest, exponentials are 0 or as small as they should be.
TEST(Softmax16Bits, OfDistantElementsIsSmall) {
  const Tensor x = arange(0, -120, -1).to(f32), want = softmax(x.to(f64), 0);
  const Tensor y = softmax(x.to(bf16), 0).to(f64);
  EXPECT_LE(amax(abs(y - want) - want * 0x1p-8).item(), 1.2e-38);
  EXPECT_EQ(y[119].item(), 0.0);
}

TEST(Softmax16Bits, CompiledStepsGiveTheSame) {
  for (const DType dtype : {f16, bf16})
    for (const bool log : {false, true}) {
      Generator generator(2);
      const Tensor x = randn({33, 130}, {}, &generator).to(dtype);
      const auto step = [&](const Tensor& from) {
        const Tensor leaf = from.detach().set_requires_grad();
        const Tensor y = apply(leaf * 2, 1, log);
        sum(y * y).backward();
        return leaf.grad();
      };
      const Tensor eager = step(x).to(f64), compiled = compile(step)(x).to(f64);
      EXPECT_LE(amax(abs(eager - compiled)).item(),
                (dtype == f16 ? 0x1p-9 : 0x1p-6) * amax(abs(eager)).item());
    }
}

}  // namespace
}  // namespace brim
