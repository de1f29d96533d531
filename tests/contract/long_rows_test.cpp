// Sums over very long rows and columns of f32, against f64: as plain sums in f32 they would be off
// by 1e-2 where all terms have one sign.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <brim/brim.h>

#include "contract/harness.h"

namespace brim {
namespace {

using contract::devices;

using Function = std::function<Tensor(const Tensor& x, int axis)>;

/// y and the gradient of x, in f64 on the host. dy: of x's shape, or undefined for ones.
std::pair<Tensor, Tensor> run(const Function& f, const Tensor& x, const Tensor& dy, int axis,
                              DType dtype, Device device) {
  const Tensor leaf = x.to(dtype).to(device).detach().set_requires_grad();
  const Tensor y = f(leaf, axis);
  y.backward(dy.defined() ? dy.to(dtype).to(device) : ones_like(y));
  const auto host = [](const Tensor& t) { return t.to(Device::cpu()).to(f64).contiguous(); };
  return {host(y.detach()), host(leaf.grad())};
}

double distance(const Tensor& a, const Tensor& want) {
  return amax(abs(a - want)).item() / amax(abs(want)).item();
}

/// Along a long row, a column, columns of a broken tile, and planes; of numbers from 0.5 on. Where
/// they differ by little, what is rounded off adds up.
void expect_near_f64(const std::string& name, const Function& f, bool keeps_shape,
                     double spread = 0.05) {
  struct Case {
    Shape shape;
    int axis;
  };
  constexpr int64_t n = 1 << 20;
  for (const Device device : devices())
    for (const auto& [shape, axis] : {Case{{1, n + 3}, 1}, Case{{n + 3, 1}, 0},
                                      Case{{n / 16, 19}, 0}, Case{{3, n / 4, 2}, 1}}) {
      SCOPED_TRACE(name + " of " + shape.str() + " along " + std::to_string(axis) + " on " +
                   device.str());
      Generator generator(3);
      const Tensor x = rand(shape, {}, &generator) * spread + 0.5;
      const Tensor dy = keeps_shape ? rand(shape, {}, &generator) * spread + 0.5 : Tensor();
      const auto [y, dx] = run(f, x, dy, axis, f32, device);
      const auto [want, want_dx] = run(f, x, dy, axis, f64, Device::cpu());
      EXPECT_LE(distance(y, want), 2e-6);
      // Gradients are differences of nearly equal numbers.
      EXPECT_LE(distance(dx, want_dx), 2e-5);
    }
}

TEST(LongRows, Softmax) {
  expect_near_f64(
      "softmax", [](const Tensor& x, int axis) { return softmax(x, axis); }, true);
  expect_near_f64(
      "log_softmax", [](const Tensor& x, int axis) { return log_softmax(x, axis); }, true);
  expect_near_f64(
      "logsumexp", [](const Tensor& x, int axis) { return logsumexp(x, {axis}); }, false);
}

// Rows, or planes of classes.
TEST(LongRows, CrossEntropy) {
  const auto loss = [](const Tensor& x, int axis) {
    const Tensor rows = axis == 0 ? x.transpose(0, 1) : x;
    Shape labels = rows.shape();
    labels.erase(1);
    return cross_entropy(rows, full(labels, 5, {.dtype = i64, .device = x.device()}));
  };
  expect_near_f64("cross_entropy", loss, false);
}

TEST(LongRows, Reductions) {
  const auto expect = [](const std::string& name, auto f) {
    expect_near_f64(
        name, [f](const Tensor& x, int axis) { return f(x, std::vector<int>{axis}); }, false);
  };
  using Axes = std::vector<int>;
  expect("sum", [](const Tensor& x, const Axes& axes) { return sum(x, axes); });
  expect("mean", [](const Tensor& x, const Axes& axes) { return mean(x, axes); });
  expect("var", [](const Tensor& x, const Axes& axes) { return var(x, axes); });
  expect("norm", [](const Tensor& x, const Axes& axes) { return norm(x, 2, axes); });
  expect("norm 1", [](const Tensor& x, const Axes& axes) { return norm(x, 1, axes); });
  expect_near_f64(
      "cumsum", [](const Tensor& x, int axis) { return cumsum(x, axis); }, true);
}

TEST(LongRows, Norms) {
  const auto expect = [](const std::string& name, auto f) {
    const auto over_axis = [f](const Tensor& x, int axis) {
      const Tensor rows = x.transpose(axis, -1).contiguous();
      return f(rows, rows.shape().back()).transpose(axis, -1);
    };
    expect_near_f64(name, over_axis, true, 1);
  };
  expect("layer_norm", [](const Tensor& x, int64_t n) { return layer_norm(x, {n}); });
  expect("rms_norm", [](const Tensor& x, int64_t n) { return rms_norm(x, {n}); });
  expect("group_norm", [](const Tensor& x, int64_t n) {
    return group_norm(x.reshape({x.numel() / n, 1, n}), 1).reshape(x.shape());
  });
  expect("batch_norm", [](const Tensor& x, int64_t n) {
    const Tensor channels = x.reshape({x.numel() / n, n}).transpose(0, 1).contiguous();
    return batch_norm(channels, {}, {}, {}, {}, {.training = true})
        .transpose(0, 1)
        .reshape(x.shape());
  });
}

}  // namespace
}  // namespace brim
