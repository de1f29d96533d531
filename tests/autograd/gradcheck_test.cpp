// gradcheck accepts right gradients and names what is wrong in others.
#include <gtest/gtest.h>

#include <brim/autograd/autograd.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>

#include "autograd/leaf.h"
#include "autograd/node.h"

namespace brim {
namespace {

using Tensors = std::vector<Tensor>;
using tests::leaf;

TEST(Gradcheck, AcceptsRightGradients) {
  const Tensors in = {leaf({1, 2, 3, 4, 5, 6}, {2, 3}), leaf({3, 2, 5}, {3})};
  const auto f = [](const Tensors& x) { return Tensors{x[0] * x[1], div(x[0], x[1])}; };
  EXPECT_NO_THROW(autograd::gradcheck(f, in, {.second_order = true}));
  EXPECT_EQ(in[0].to_vector<double>(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_FALSE(in[0].grad().defined());
}

TEST(Gradcheck, AcceptsViewsAndIndices) {
  Tensor x = Tensor::from<double>({1, 2, 3, 4, 5, 6}, {2, 3}).t().set_requires_grad();
  const Tensor ids = Tensor::from<int64_t>({1, 2}, {2});
  EXPECT_NO_THROW(autograd::gradcheck(
      [](const Tensors& in) {
        return Tensors{in[0] * in[0], in[1]};
      },
      {x, ids}, {.second_order = true}));
}

/// x^2 with a gradient of `factor` x.
Tensor wrong_square(const Tensor& x, double factor) {
  return autograd::with_grad("wrong", (x * x).detach(), {x},
                             [x = autograd::Saved(x), factor](autograd::GradCall& g) {
                               g.set(0, g.dy() * g[x] * factor);
                             });
}

TEST(Gradcheck, NamesTheMismatch) {
  const Tensors in = {leaf({1}, {1}), leaf({1, 2, 0, 5}, {2, 2})};
  try {
    autograd::gradcheck(
        [](const Tensors& x) {
          return Tensors{x[0] * 2, wrong_square(x[1], 3)};
        },
        in);
    FAIL() << "no error";
  } catch (const AutogradError& e) {
    const std::string what = e.what();
    EXPECT_NE(what.find("first gradient of input 1 at (0, 0)"), std::string::npos) << what;
  }
}

TEST(Gradcheck, FindsWrongSecondDerivatives) {
  const auto f = [](const Tensors& in) {
    const Tensor x = in[0];
    return Tensors{autograd::with_grad(
        "wrong", (x * x).detach(), {x}, [x = autograd::Saved(x)](autograd::GradCall& g) {
          g.set(0, g.dy() * g[x].detach() * 2);  // right value, lost history
        })};
  };
  const Tensors in = {leaf({1, 2}, {2})};
  EXPECT_NO_THROW(autograd::gradcheck(f, in));
  EXPECT_THROW(autograd::gradcheck(f, in, {.second_order = true}), AutogradError);
}

TEST(Gradcheck, RejectsInputsItCannotPerturb) {
  const auto f = [](const Tensors& x) { return x; };
  EXPECT_THROW(autograd::gradcheck(f, {ones({2}, {.requires_grad = true})}), DTypeError);
  EXPECT_THROW(
      autograd::gradcheck(f, {ones({1}, {.dtype = f64}).expand({3}).detach().set_requires_grad()}),
      ValueError);
}

}  // namespace
}  // namespace brim
