// Random steps: compiled ones have the bits of eager ones with the passes that keep them, and stay
// close with all. What is drawn is what passes move, fuse and leave out: operands of all kinds of
// broadcast, writes in place, views, rows, products that are copied elsewhere, dropout.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include <brim/brim.h>

#include "contract/harness.h"

namespace brim::contract {
namespace {

/// The tensors of a step, all (rows, columns) of one dtype on one device.
class RandomStep {
 public:
  RandomStep(unsigned seed, const TensorOptions& options) : seed_(seed), options_(options) {
    std::mt19937 draw(seed);
    rows_ = pick(draw, {1, 2, 5, 12});
    columns_ = pick(draw, {1, 4, 12, 33, 64});
    for (const Shape& shape :
         std::vector<Shape>{{rows_, columns_}, {columns_}, {rows_, 1}, {1}, {columns_, columns_}})
      constants_.push_back(input(shape, constants_.size() + 2));
  }
  Tensor x() const { return input({rows_, columns_}, 1); }

  /// The same launches each time.
  Tensors operator()(const Tensor& x) const {
    std::mt19937 draw(seed_ + 1);
    Tensors made{x + 0.25};  // x itself may not be written
    const int steps = static_cast<int>(6 + draw() % 14);
    for (int i = 0; i < steps; ++i) made.push_back(next(draw, made));
    Tensors results;
    for (const Tensor& t : made)
      if (draw() % 3 == 0) results.push_back(t);
    results.push_back(made.back());
    return results;
  }

 private:
  template <class List>
  static auto any(std::mt19937& draw, const List& list) {
    return list[draw() % list.size()];
  }
  static int64_t pick(std::mt19937& draw, const std::vector<int64_t>& list) {
    return any(draw, list);
  }
  Tensor input(const Shape& shape, size_t seed) const {
    return make_input({.shape = shape, .low = -1, .high = 1}, options_.dtype, seed)
        .to(options_.device);
  }

  /// Values stay near 1, so that nothing overflows.
  Tensor next(std::mt19937& draw, Tensors& made) const {
    Tensor a = any(draw, made), b = any(draw, made);
    const Tensor small = constants_[draw() % 4];
    const double factor = static_cast<double>(draw() % 7) * 0.25 - 0.75;
    switch (draw() % 18) {
      case 0:
        return relu(a);
      case 1:
        return tanh(a);
      case 2:
        return gelu(a);
      case 3:
        return silu(a * factor);
      case 4:
        return a * small;
      case 5:
        return sigmoid(a + small);
      case 6:
        return (a + b) * 0.5;
      case 7:
        return tanh(a * b);
      case 8:
        return maximum(a, b * factor);
      case 9:
        return softmax(a * factor, -1);
      case 10:
        return log_softmax(a, -1) * 0.1;
      case 11:
        return layer_norm(a + b, {columns_}, constants_[1], constants_[1]) * 0.5;
      case 12:
        return layer_norm(a, {columns_}, draw() % 2 ? constants_[1] * 2 : Tensor());
      case 13:
        return dropout(a, 0.25);
      case 14:
        return a.mul_(b * 0.5);
      case 15:
        return a.add_(tanh(b) * factor);
      case 16:
        return product(draw, a);
      default:
        return parts(draw, a, b);
    }
  }
  /// A product that is copied elsewhere.
  Tensor product(std::mt19937& draw, const Tensor& a) const {
    const Tensor y = tanh(a), w = constants_[4] * (1.0 / static_cast<double>(columns_));
    switch (draw() % 3) {
      case 0:
        return matmul(y, w);
      case 1: {
        const Tensor flipped = matmul(y, w).t().contiguous();  // (columns, rows)
        return tanh(flipped).t().contiguous();
      }
      default: {
        Tensor both = Tensor::empty({rows_, 2 * columns_}, options_.dtype, options_.device);
        both.slice(1, 0, columns_).copy_(matmul(y, w));
        both.slice(1, columns_, 2 * columns_).copy_(y);
        return sum(both.reshape({rows_, 2, columns_}), {1});
      }
    }
  }
  /// Parts of a tensor that are written and read apart, and sums of it that are spread again.
  Tensor parts(std::mt19937& draw, const Tensor& a, const Tensor& b) const {
    switch (draw() % 3) {
      case 0:
        return a - mean(b, {-1}, true);
      case 1:
        return a * sum(softmax(b, -1), {0}, true);
      default: {
        Tensor copy = a.clone();
        const int64_t half = rows_ / 2;
        copy.slice(0, 0, half).mul_(b.slice(0, rows_ - half, rows_));
        copy.slice(0, half, rows_).copy_(b.slice(0, half, rows_));
        return copy;
      }
    }
  }

  unsigned seed_;
  TensorOptions options_;
  int64_t rows_, columns_;
  Tensors constants_;
};

void expect_equal_steps(unsigned seed, const TensorOptions& options) {
  const RandomStep step(seed, options);
  const Tensor x = step.x();
  manual_seed(seed);
  Tensors want;
  for (const Tensor& t : step(x)) want.push_back(t.to(Device::cpu()).to(f64));
  for (const char* passes : {"exact", ""}) {
    auto compiled = compile([&](const Tensor& in) { return step(in); }, {.passes = passes});
    for (int i = 0; i < 2; ++i) {
      manual_seed(seed);
      const Tensors got = compiled(x);
      ASSERT_EQ(got.size(), want.size());
      for (size_t k = 0; k < want.size(); ++k) {
        const std::vector<double> a = values(got[k].to(Device::cpu()).to(f64)), b = values(want[k]);
        ASSERT_EQ(a.size(), b.size());
        const double tolerance = *passes ? 0 : options.dtype == f64 ? 1e-9 : 1e-3;
        const bool narrow = options.dtype == f16 || options.dtype == bf16;
        for (size_t e = 0; e < a.size() && !(narrow && !*passes); ++e)
          ASSERT_LE(std::abs(a[e] - b[e]), tolerance * (1 + std::abs(b[e])))
              << "result " << k << ", element " << e << ", passes '" << passes << "'\n"
              << compiled.explain();
      }
    }
  }
}

TEST(RandomSteps, CompiledOnesAreTheEagerOnes) {
  for (const Device device : devices()) {
    const unsigned count = device.kind == DeviceKind::cpu ? 150 : 40;
    for (unsigned seed = 0; seed < count; ++seed)
      for (const DType dtype : {f32, bf16}) {
        SCOPED_TRACE("seed " + std::to_string(seed) + " on " + device.str() + ", " +
                     std::string(name(dtype)));
        expect_equal_steps(seed, {.dtype = dtype, .device = device});
        if (HasFatalFailure()) return;
      }
  }
}

}  // namespace
}  // namespace brim::contract
