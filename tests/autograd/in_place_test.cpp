// Writing in place where gradients are recorded: what is recorded, and what is refused.
#include <gtest/gtest.h>

#include <brim/autograd/autograd.h>
#include <brim/brim.h>

#include "autograd/leaf.h"
#include "message_of.h"

namespace brim {
namespace {

using Tensors = std::vector<Tensor>;
using tests::leaf;

/// First and second derivatives of a function of two leaves, (2, 3) and (3).
void check(const std::function<Tensor(const Tensor& a, const Tensor& b)>& f) {
  const Tensors x = {leaf({1, -2, 3, 0.5, 4, -1.5}, {2, 3}), leaf({2, -3, 1.5})};
  autograd::gradcheck([&](const Tensors& in) { return Tensors{f(in[0], in[1])}; }, x,
                      {.second_order = true});
}

TEST(InPlace, WritesIntoWhatAnOpMadeAreRecorded) {
  check([](Tensor a, Tensor b) { return ((a * 2) += b) * a; });
  check([](Tensor a, Tensor b) { return ((a * 2) -= b) * a; });
  check([](Tensor a, Tensor b) { return (a * a).add_(b, -3) * b; });
  check([](Tensor a, Tensor b) { return ((a * a) *= b) * a; });
  check([](Tensor a, Tensor b) { return ((a * a) /= b) * a; });
  check([](Tensor a, Tensor b) { return (((((a * b) += 2) -= 0.5) *= 3) /= 4) * a; });
  check([](Tensor a, Tensor b) { return (a * b).copy_(b * b) * a; });
  check([](Tensor a, Tensor b) { return (a * b).fill_(3) * a * b; });
}

TEST(InPlace, WritesIntoTensorsWithoutGradientAreRecorded) {
  check([](Tensor a, Tensor b) {
    Tensor y = ones({2, 3}, {.dtype = f64});
    y *= a * a;
    y += b;
    return y * y;
  });
  check([](Tensor a, Tensor b) {
    Tensor y = zeros({4, 2, 3}, {.dtype = f64});
    return y.copy_(a * b) * b;
  });
  Tensor y = zeros({2}, {.dtype = f64}), x = leaf({1, 2});
  y += x;
  EXPECT_TRUE(y.requires_grad());
  EXPECT_FALSE(y.is_leaf());
}

TEST(InPlace, ATensorMayBeItsOwnSource) {
  check([](Tensor a, Tensor b) {
    Tensor y = a * b;
    return y += y;
  });
  check([](Tensor a, Tensor b) {
    Tensor y = a * b;
    return y *= y;
  });
  check([](Tensor a, Tensor b) {
    Tensor y = a * b;
    return y.div_(y) * a;
  });
}

TEST(InPlace, CopiesCastTheirGradient) {
  Tensor x = Tensor::from<float>({1, 2}, {2}).set_requires_grad();
  Tensor y = zeros({3, 2}, {.dtype = f64});
  sum(y.copy_(x)).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{3, 3}));
  Tensor whole = zeros({2}, {.dtype = i64});
  whole.copy_(x);
  EXPECT_FALSE(whole.requires_grad());
  EXPECT_EQ(whole.to_vector<int64_t>(), (std::vector<int64_t>{1, 2}));
}

TEST(InPlace, CopiesBetweenDevicesAreRecorded) {
  if (Device::count("sim") == 0) GTEST_SKIP() << "no virtual accelerator";
  Tensor x = leaf({1, 2});
  Tensor y = zeros({2}, {.dtype = f64, .device = "sim:0"});
  sum(y.copy_(x) * 3).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{3, 3}));
}

TEST(InPlace, RetainedGradientsFollowTheTensor) {
  Tensor x = leaf({1, 2});
  {
    Tensor y = x * 2;
    y.retain_grad();
    y += x;
    sum(y * 5).backward();
    EXPECT_EQ(y.grad().to_vector<double>(), (std::vector<double>{5, 5}));
  }
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{15, 15}));
}

TEST(InPlace, LeavesThatRequireAGradientAreRefused) {
  Tensor x = leaf({1, 2});
  const std::function<void()> writes[] = {[&] { x += x; },     [&] { x += 1; },
                                          [&] { x *= x; },     [&] { x /= 2; },
                                          [&] { x.fill_(1); }, [&] { x.copy_(zeros_like(x)); }};
  for (const auto& write : writes) {
    const std::string message = tests::message_of(write);
    EXPECT_NE(message.find("a leaf that requires a gradient"), std::string::npos) << message;
  }
  EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{1, 2}));
  const NoGrad guard;
  x += x;
  EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{2, 4}));
}

// A view's history, or its base's, would be that of the old numbers.
TEST(InPlace, MemoryThatOthersShareIsRefused) {
  Tensor x = leaf({1, 2, 3, 4}, {2, 2}), row = leaf({5, 6});
  Tensor y = x * 2;
  const std::function<void()> writes[] = {[&] { y[0] += row; }, [&] { y.t().copy_(x); },
                                          [&] {
                                            const Tensor view = y[1];
                                            y += x;
                                          },
                                          [&] {
                                            Tensor z = exp(x);  // whose gradient keeps it
                                            z += 1;
                                          }};
  for (const auto& write : writes) {
    const std::string message = tests::message_of(write);
    EXPECT_NE(message.find("other tensors share"), std::string::npos) << message;
    EXPECT_NE(message.find("slice_scatter"), std::string::npos) << message;
  }
  y += x;  // nobody does any more
  EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{3, 6, 9, 12}));
}

TEST(InPlace, OverwritingWhatAGradientNeedsIsNoticed) {
  Tensor x = leaf({1, 2});
  Tensor y = x * 2;
  const Tensor z = sum(y * y);
  y += 1;
  EXPECT_THROW(z.backward(), AutogradError);
}

TEST(InPlace, QuotientsNeedFloats) {
  Tensor x = Tensor::from<int64_t>({4, 6}, {2});
  EXPECT_THROW(x /= 2, DTypeError);
  EXPECT_THROW(x /= x, DTypeError);
  EXPECT_THROW(x += 0.5, DTypeError);
  x += 3;
  x.sub_(x);
  EXPECT_EQ(x.to_vector<int64_t>(), (std::vector<int64_t>{0, 0}));
}

TEST(InPlace, PartsOfPlainTensorsMayBeWritten) {
  Tensor y = zeros({2, 2});
  y[0] += 3;
  y[1].copy_(ones({2}));
  y.slice(1, 0, 1) *= Tensor::from<float>({2}, {1});
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{6, 3, 2, 1}));
}

TEST(InPlace, CompiledStepsDoTheSame) {
  const auto make = [](Tensor& w) {
    return [&w](const Tensor& x) {
      w.zero_grad();
      Tensor h = x * w;
      h += w;
      h *= h;
      Tensor total = zeros({3});
      total += h;
      const Tensor loss = sum(total);
      loss.backward();
      return std::vector{loss, w.grad()};
    };
  };
  const Tensor x = Tensor::from<float>({1, 2, -3}, {3});
  Tensor w = Tensor::from<float>({0.5, -1, 2}, {3}).set_requires_grad();
  const Tensors eager = make(w)(x);
  auto step = compile(make(w));
  for (int i = 0; i < 3; ++i) {
    const Tensors got = step(x);
    for (size_t k = 0; k < got.size(); ++k)
      EXPECT_EQ(got[k].to_vector<float>(), eager[k].to_vector<float>());
  }
}

}  // namespace
}  // namespace brim
