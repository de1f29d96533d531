// Views of random shapes and strides against their contiguous copies.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include <brim/autograd/autograd.h>
#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/create.h>
#include <brim/ops/reduce.h>
#include <brim/ops/shape.h>
#include <brim/ops/unary.h>

namespace brim {
namespace {

std::vector<float> values(const Tensor& x) { return x.to_vector<float>(); }

class Views : public ::testing::Test {
 protected:
  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  /// A tensor of 0, 1, 2, ... seen through a few random permutations, slices and expansions.
  Tensor random_view(int64_t least = 0) {
    Shape shape;
    for (int64_t d = pick(0, 4); d > 0; --d) shape.push_back(pick(least, 4));
    Tensor x = arange(shape.numel(), {.dtype = f32}).view(shape);
    for (int64_t steps = pick(0, 4); steps > 0; --steps) {
      const int rank = x.rank();
      if (rank == 0) break;
      const int axis = static_cast<int>(pick(0, rank - 1));
      switch (pick(0, 3)) {
        case 0:
          x = x.transpose(axis, static_cast<int>(pick(-rank, rank - 1)));
          break;
        case 1:
          x = x.slice(axis, pick(0, 1), x.size(axis), pick(1, 2));
          break;
        case 2:
          if (rank < 5) x = x.unsqueeze(axis);
          break;
        default:
          if (x.size(axis) == 1 && x.numel() < 500) {
            Shape wide = x.shape();
            wide[axis] = pick(std::max<int64_t>(least, 1), 3);
            x = x.expand(wide);
          }
      }
    }
    return x;
  }
  /// Another shape of as many elements.
  Shape random_factors(int64_t numel) {
    Shape shape;
    if (numel == 0) return {pick(0, 3), 0, pick(0, 3)};
    while (numel > 1 && shape.rank() < 6) {
      std::vector<int64_t> divisors;
      for (int64_t d = 1; d <= numel; ++d)
        if (numel % d == 0) divisors.push_back(d);
      const int64_t d = divisors[static_cast<size_t>(pick(0, std::ssize(divisors) - 1))];
      shape.push_back(d);
      numel /= d;
    }
    if (numel > 1) shape.push_back(numel);
    return shape;
  }
  std::mt19937 random_{1};
};

/// True when some strides show x's elements, in row-major order, in `shape`. By search: the stride
/// of an axis is the distance of its first two elements.
bool view_exists(const Tensor& x, const Shape& shape) {
  if (x.numel() == 0) return true;
  std::vector<int64_t> places;  // in memory, in row-major order of x
  for (int64_t i = 0; i < x.numel(); ++i) {
    int64_t rest = i, at = 0;
    for (int d = x.rank() - 1; d >= 0; --d) {
      at += rest % x.shape()[d] * x.strides()[d];
      rest /= x.shape()[d];
    }
    places.push_back(at);
  }
  const Strides dense = contiguous_strides(shape);
  for (int64_t i = 0; i < x.numel(); ++i) {
    int64_t rest = i, at = places[0];
    for (int d = shape.rank() - 1; d >= 0; --d) {
      const int64_t k = rest % shape[d];
      rest /= shape[d];
      if (k) at += k * (places[static_cast<size_t>(dense[d])] - places[0]);
    }
    if (at != places[static_cast<size_t>(i)]) return false;
  }
  return true;
}

TEST_F(Views, ReshapeEqualsThatOfTheContiguousCopy) {
  int views = 0, copies = 0;
  for (int i = 0; i < 4000; ++i) {
    const Tensor x = random_view();
    const Shape shape = random_factors(x.numel());
    SCOPED_TRACE(x.shape().str() + " strides " + x.strides().str() + " as " + shape.str());
    const Tensor y = x.reshape(shape);
    ASSERT_EQ(y.shape(), shape);
    ASSERT_EQ(values(y), values(x.contiguous()));
    if (view_exists(x, shape)) {
      ++views;
      ASSERT_EQ(y.storage(), x.storage());
      ASSERT_EQ(values(x.view(shape)), values(y));
    } else {
      ++copies;
      ASSERT_NE(y.storage(), x.storage());
      ASSERT_THROW(x.view(shape), ShapeError);
    }
  }
  EXPECT_GT(views, 500);
  EXPECT_GT(copies, 200);
}

TEST_F(Views, ContiguousIsKnown) {
  for (int i = 0; i < 2000; ++i) {
    const Tensor x = random_view();
    std::vector<float> in_memory(static_cast<size_t>(x.numel()));
    std::copy_n(static_cast<const float*>(x.raw()), x.is_contiguous() ? x.numel() : 0,
                in_memory.begin());
    if (x.is_contiguous()) {
      ASSERT_EQ(in_memory, values(x));
    }
    ASSERT_TRUE(x.contiguous().is_contiguous());
    ASSERT_EQ(values(x.contiguous()), values(x));
    if (x.numel() == 0) {
      ASSERT_TRUE(x.is_contiguous());
    }
  }
}

TEST_F(Views, OneSizeMayBeInferred) {
  for (int i = 0; i < 300; ++i) {
    const Tensor x = random_view(/*least=*/1);
    Shape shape = random_factors(x.numel());
    if (shape.empty() || x.numel() == 0) continue;
    const Shape want = shape;
    shape[static_cast<int>(pick(0, shape.rank() - 1))] = -1;
    ASSERT_EQ(x.reshape(shape).shape(), want);
  }
}

TEST_F(Views, PermuteRoundTrip) {
  for (int i = 0; i < 300; ++i) {
    const Tensor x = random_view();
    std::vector<int> axes(static_cast<size_t>(x.rank())), inverse(axes.size());
    std::iota(axes.begin(), axes.end(), 0);
    std::shuffle(axes.begin(), axes.end(), random_);
    for (size_t k = 0; k < axes.size(); ++k)
      inverse[static_cast<size_t>(axes[k])] = static_cast<int>(k);
    for (int& a : axes)
      if (pick(0, 1)) a -= x.rank();
    ASSERT_EQ(values(x.permute(axes).permute(inverse)), values(x));
  }
}

TEST_F(Views, GradientsOfRandomChains) {
  for (int i = 0; i < 30; ++i) {
    const unsigned seed = static_cast<unsigned>(i) + 100;
    Tensor x = rand({3, 1, 4}, {.dtype = f64, .requires_grad = true});
    const auto f = [&](const std::vector<Tensor>& in) {
      random_.seed(seed);
      Tensor y = in[0];
      for (int step = 0; step < 5; ++step) {
        const int axis = static_cast<int>(pick(0, y.rank() - 1));
        switch (pick(0, 6)) {
          case 0:
            y = y.transpose(axis, -1);
            break;
          case 1:
            y = y.slice(axis, pick(0, 1), y.size(axis), pick(1, 2));
            break;
          case 2:
            if (y.rank() < 5) y = y.unsqueeze(axis);
            break;
          case 3:
            if (y.size(axis) == 1) {
              Shape wide = y.shape();
              wide[axis] = 2;
              y = y.expand(wide);
            }
            break;
          case 4:
            y = y.reshape(random_factors(y.numel()));
            if (y.rank() == 0) y = y.unsqueeze(0);
            break;
          case 5:
            if (y.size(axis) > 0 && y.rank() > 1) y = y.select(axis, pick(0, y.size(axis) - 1));
            break;
          default:
            y = y * y;
        }
      }
      return std::vector<Tensor>{y};
    };
    ASSERT_NO_THROW(autograd::gradcheck(f, {x}, {.second_order = true})) << seed;
  }
}

TEST(View, ZeroSizes) {
  const Tensor x = zeros({2, 0, 3});
  EXPECT_EQ(x.reshape({0, 5}).shape(), (Shape{0, 5}));
  EXPECT_EQ(x.view({3, 0}).shape(), (Shape{3, 0}));
  EXPECT_EQ(x.t().reshape({0}).shape(), (Shape{0}));
  EXPECT_EQ(x.flatten().shape(), (Shape{0}));
  EXPECT_EQ(x.select(0, 1).shape(), (Shape{0, 3}));
  EXPECT_EQ(x.slice(0, 1, 1).shape(), (Shape{0, 0, 3}));
  EXPECT_EQ(zeros({1, 3}).expand({0, 3}).shape(), (Shape{0, 3}));
  EXPECT_THROW(x.reshape({-1, 0}), ShapeError);
  EXPECT_THROW(x.reshape({1}), ShapeError);
}

TEST(View, BadArguments) {
  const Tensor x = zeros({2, 3});
  EXPECT_THROW(x.view({4}), ShapeError);
  EXPECT_THROW(x.view({-1, -1}), ShapeError);
  EXPECT_THROW(x.view({-2, -3}), ShapeError);
  EXPECT_THROW(x.view({-1, 4}), ShapeError);
  EXPECT_THROW(x.view({int64_t{1} << 40, int64_t{1} << 40}), ShapeError);
  EXPECT_THROW(x.permute({0}), ShapeError);
  EXPECT_THROW(x.permute({0, 0}), ShapeError);
  EXPECT_THROW(x.permute({0, 2}), IndexError);
  EXPECT_THROW(x.transpose(0, 2), IndexError);
  EXPECT_THROW(x.expand({3}), ShapeError);
  EXPECT_THROW(x.expand({4, 3}), ShapeError);
  EXPECT_THROW(x.expand({-1, 2, 3}), ShapeError);
  EXPECT_THROW(ones({1}).expand({int64_t{1} << 32, int64_t{1} << 32}), ShapeError);
  EXPECT_THROW(x.squeeze(2), IndexError);
  EXPECT_THROW(x.unsqueeze(3), IndexError);
  EXPECT_THROW(x.slice(0, 0, 2, 0), ValueError);
  EXPECT_THROW(x.select(0, 2), IndexError);
  EXPECT_THROW(x.select(0, -3), IndexError);
  EXPECT_THROW(x.flatten(1, 0), IndexError);
  EXPECT_THROW(narrow(x, 0, 1, 2), IndexError);
  EXPECT_THROW(narrow(x, 1, 0, -1), IndexError);
  EXPECT_THROW(diagonal(x, 0, 1, 1), ShapeError);
  EXPECT_THROW(zeros({1, 1, 1, 1, 1, 1, 1, 1}).unsqueeze(0), ShapeError);
  EXPECT_THROW(Tensor().reshape({1}), ValueError);
}

TEST(View, ExtremeBounds) {
  const Tensor x = arange(5);
  EXPECT_EQ(x.slice(0, INT64_MIN, INT64_MAX, INT64_MAX).to_vector<int64_t>(),
            std::vector<int64_t>{0});
  EXPECT_EQ(x.slice(0, INT64_MAX, INT64_MIN).numel(), 0);
  EXPECT_EQ(x.slice(0, -2, INT64_MAX).to_vector<int64_t>(), (std::vector<int64_t>{3, 4}));
}

TEST(View, ElementwiseOpsKeepTheStridesOfDenseTensors) {
  const Tensor x = randn({4, 3, 5});
  const Tensor turned = x.permute({2, 0, 1});
  for (const Tensor& y : {relu(turned), turned + 1.0, turned * turned, turned > 0, isnan(turned)})
    EXPECT_EQ(y.strides(), turned.strides());
  EXPECT_EQ(values(turned + turned), values(turned.contiguous() * 2.0));
  EXPECT_EQ(relu(turned.unsqueeze(1)).strides(), turned.unsqueeze(1).strides());
  // Parts and expanded axes leave gaps, or lie on each other.
  for (const Tensor& y : {turned.slice(0, 1, 4), turned.unsqueeze(0).expand({2, 5, 4, 3})})
    EXPECT_TRUE(relu(y).is_contiguous());
  Tensor leaf = randn({3, 4});
  leaf.set_requires_grad();
  sum(square(leaf.t())).backward();
  EXPECT_EQ(values(leaf.grad()), values(leaf.detach() * 2.0));
}

TEST(View, WritesShowInTheBase) {
  const Tensor x = zeros({2, 3});
  x.t().select(0, 1).fill_(4);
  EXPECT_EQ(values(x), (std::vector<float>{0, 4, 0, 0, 4, 0}));
  x[1].view({3, 1}).copy_(ones({1, 1}));
  EXPECT_EQ(values(x), (std::vector<float>{0, 4, 0, 1, 1, 1}));
}

}  // namespace
}  // namespace brim
