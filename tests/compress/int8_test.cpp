// Layers in 8-bit integers: the sums are exact, whatever the shapes and instruction set.
#include <brim/autograd/autograd.h>
#include <brim/core/random.h>
#include <brim/core/threads.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/int8.h>
#include <brim/ops/matmul.h>
#include <brim/ops/reduce.h>
#include <brim/ops/shape.h>
#include <brim/ops/unary.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "message_of.h"

namespace brim {
namespace {

using tests::message_of;

Tensor bytes(const Shape& shape) { return (rand(shape) * 255.99).to(u8); }

/// What an exact computer makes of the same numbers: conv2d of f64.
Tensor exactly(const Tensor& q, QuantParams input, const Int8Weight& w, const Tensor& bias,
               const Conv2dOptions& how) {
  const Tensor x = (q.to(f64) - input.zero_point);
  const Tensor sums = conv2d(x, w.values.to(f64), {}, how);
  const Tensor scale = w.scales.to(f64) * static_cast<double>(input.scale);
  Tensor y = sums * scale.reshape({-1, 1, 1});
  if (bias.defined()) y = y + bias.to(f64).reshape({-1, 1, 1});
  return y.to(f32);
}

void expect_near(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.shape(), want.shape());
  const std::vector<float> a = got.to_vector<float>(), b = want.to_vector<float>();
  double most = 1e-9;
  for (const float v : b) most = std::max(most, static_cast<double>(std::fabs(v)));
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-6 * most) << i;
}

TEST(Quantize, RoundsAndHolds) {
  const QuantParams p{.scale = 0.5F, .zero_point = 10};
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const std::vector<float> x = {0,     0.24F,  0.25F, 0.75F, -0.25F, -5,   -6,
                                -1e9F, 122.5F, 123,   1e9F,  inf,    -inf, nan};
  const Tensor q = quantize(Tensor::from<float>(x, {14}), p);
  EXPECT_EQ(q.to_vector<uint8_t>(),
            (std::vector<uint8_t>{10, 10, 10, 12, 10, 0, 0, 0, 255, 255, 255, 255, 0, 0}));
  EXPECT_EQ(dequantize(q, p).to_vector<float>()[3], 1.0F);
  // In any length, format and view.
  for (const int64_t n : {0, 1, 15, 16, 17, 100, 70000}) {
    const Tensor many = randn({n}) * 20;
    const std::vector<float> in = many.to_vector<float>();
    const std::vector<uint8_t> out = quantize(many, p).to_vector<uint8_t>();
    for (size_t i = 0; i < in.size(); ++i)
      ASSERT_EQ(out[i], std::clamp(std::nearbyint(in[i] / 0.5F) + 10, 0.0F, 255.0F)) << i;
  }
  const Tensor picture = randn({2, 3, 5, 4}), nhwc = picture.to(MemoryFormat::nhwc);
  EXPECT_TRUE(quantize(nhwc, p).is_contiguous(MemoryFormat::nhwc));
  EXPECT_EQ(quantize(nhwc, p).to_vector<uint8_t>(), quantize(picture, p).to_vector<uint8_t>());
  EXPECT_EQ(quantize(picture.permute({3, 1, 0, 2}), p).to_vector<uint8_t>(),
            quantize(picture.permute({3, 1, 0, 2}).contiguous(), p).to_vector<uint8_t>());
}

TEST(Quantize, OfRangesHasZero) {
  EXPECT_EQ(QuantParams::of_range(0, 255), (QuantParams{1, 0}));
  EXPECT_EQ(QuantParams::of_range(-1, 1).zero_point, 128);
  EXPECT_EQ(QuantParams::of_range(3, 6).zero_point, 0);
  EXPECT_EQ(QuantParams::of_range(-6, -3).zero_point, 255);
  EXPECT_EQ(QuantParams::of_range(0, 0), QuantParams());
  EXPECT_THROW(QuantParams::of_range(1, 0), ValueError);
  EXPECT_THROW(QuantParams::of_range(0, INFINITY), ValueError);
  EXPECT_THROW(QuantParams::of_range(NAN, 1), ValueError);
  const Tensor x = zeros({1});
  EXPECT_THROW(quantize(x, {.scale = 0}), ValueError);
  EXPECT_THROW(quantize(x, {.scale = -1}), ValueError);
  EXPECT_THROW(quantize(x, {.scale = NAN}), ValueError);
  EXPECT_THROW(quantize(x, {.scale = 1, .zero_point = 256}), ValueError);
  EXPECT_THROW(quantize(x.to(f64), {}), DTypeError);
  EXPECT_THROW(dequantize(x, {}), DTypeError);
  EXPECT_THROW(quantize(zeros({1}).set_requires_grad(true), {}), ValueError);
}

TEST(FakeQuantize, PassesGradientsThatAreInside) {
  const QuantParams p{.scale = 1, .zero_point = 100};
  const Tensor x =
      Tensor::from<float>({-101, -100.4F, 0.3F, 155.4F, 156, 7}, {6}).set_requires_grad(true);
  const Tensor y = fake_quantize(x, p);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{-100, -100, 0, 155, 155, 7}));
  sum(y).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{0, 1, 1, 1, 0, 1}));

  const Tensor turned = x.detach().reshape({2, 3}).t().set_requires_grad(true);  // a view
  const Tensor z = fake_quantize(turned, p);
  EXPECT_EQ(z.to_vector<float>(), (std::vector<float>{-100, 155, -100, 155, 0, 7}));
  sum(z).backward();
  EXPECT_EQ(turned.grad().to_vector<float>(), (std::vector<float>{0, 1, 1, 0, 1, 1}));

  const Tensor w = randn({5, 3, 2, 2}).set_requires_grad(true);
  const Tensor rounded = fake_quantize_weight(w);
  EXPECT_EQ(rounded.to_vector<float>(), Int8Weight::quantize(w).dense().to_vector<float>());
  sum(rounded).backward();
  EXPECT_EQ(w.grad().to_vector<float>(), ones({5, 3, 2, 2}).to_vector<float>());
  EXPECT_EQ(fake_quantize_weight(zeros({2, 2})).to_vector<float>(), std::vector<float>(4, 0.0F));
}

TEST(Int8Weight, IsNear) {
  const Tensor w = Tensor::from<float>({1, -2, 0.5F, 0, 0, 0, -127, 1, 2}, {3, 3});
  const Int8Weight q = Int8Weight::quantize(w);
  EXPECT_EQ(q.values.to_vector<int8_t>(), (std::vector<int8_t>{64, -127, 32, 0, 0, 0, -127, 1, 2}));
  EXPECT_EQ(q.scales.to_vector<float>(), (std::vector<float>{2.0F / 127, 0, 1}));
  EXPECT_EQ(q.sums.to_vector<int32_t>(), (std::vector<int32_t>{-31, 0, -124}));
  EXPECT_EQ(Int8Weight::quantize(q.dense()).values.to_vector<int8_t>(),
            q.values.to_vector<int8_t>());
  EXPECT_THROW(Int8Weight::quantize(zeros({3})), ShapeError);
  EXPECT_THROW(Int8Weight::quantize(zeros({3, 3}, {.dtype = f64})), DTypeError);
  EXPECT_THROW(Int8Weight::quantize(full({3, 3}, NAN)), ValueError);
  EXPECT_THROW(Int8Weight::quantize(zeros({1, Int8Weight::kMaxInputs + 1})), ValueError);
  EXPECT_THROW(Int8Weight::of(full({1, 1}, -128).to(i8), ones({1})), ValueError);
  EXPECT_THROW(Int8Weight::of(ones({1, 1}).to(i8), full({1}, -1)), ValueError);
  EXPECT_THROW(Int8Weight::of(ones({1, 1}).to(i8), ones({2})), ValueError);
  EXPECT_THROW(Int8Weight::of(ones({1, 1}), ones({1})), ValueError);
}

TEST(Int8Linear, IsExact) {
  manual_seed(1);
  const NoGrad scope;
  const QuantParams input{.scale = 0.03F, .zero_point = 77};
  for (const int64_t rows : {0, 1, 2, 3, 7, 48, 49, 130})
    for (const auto& [in, out] : {std::pair<int64_t, int64_t>{100, 64},
                                  {33, 37},
                                  {1, 1},
                                  {7, 3},
                                  {64, 129},
                                  {0, 5},
                                  {5, 0}}) {
      SCOPED_TRACE(testing::Message() << rows << " " << in << " " << out);
      const Tensor q = bytes({rows, in}), bias = rows % 2 ? randn({out}) : Tensor();
      const Int8Weight w = Int8Weight::quantize(randn({out, in}));
      const Tensor sums = linear(q.to(f64) - input.zero_point, w.values.to(f64));
      Tensor want = sums * (w.scales.to(f64) * static_cast<double>(input.scale));
      if (bias.defined()) want = want + bias.to(f64);
      ASSERT_NO_FATAL_FAILURE(expect_near(int8_linear(q, input, w, bias), want.to(f32)));
    }
  // The largest sums.
  const int64_t most = Int8Weight::kMaxInputs;
  const Int8Weight ones_ = Int8Weight::quantize(ones({2, most}));
  const Tensor y = int8_linear(full({1, most}, 255).to(u8), {1, 0}, ones_);
  EXPECT_NEAR(y.to_vector<float>()[0], 255.0 * static_cast<double>(most), 255);
  EXPECT_EQ(int8_linear(bytes({2, 3, 6}), {}, Int8Weight::quantize(randn({4, 6}))).shape(),
            (Shape{2, 3, 4}));
  const Tensor view = bytes({6, 4}).t();
  const Int8Weight w = Int8Weight::quantize(randn({4, 6}));
  EXPECT_EQ(int8_linear(view, {}, w).to_vector<float>(),
            int8_linear(view.contiguous(), {}, w).to_vector<float>());
}

TEST(Int8Conv, IsExact) {
  manual_seed(2);
  const NoGrad scope;
  const QuantParams input{.scale = 0.02F, .zero_point = 131};
  const std::vector<Conv2dOptions> how = {
      {}, {.padding = 1}, {.stride = 2, .padding = 1}, {.padding = {2, 1}, .dilation = 2}};
  for (const Shape& weight : {Shape{40, 6, 3, 3}, Shape{32, 8, 1, 1}, Shape{3, 2, 3, 2},
                              Shape{70, 3, 5, 5}, Shape{16, 16, 3, 3}})
    for (const Conv2dOptions& o : how)
      for (const int64_t images : {0, 1, 3})
        for (const bool is_nhwc : {false, true}) {
          SCOPED_TRACE(testing::Message() << weight.str() << images << is_nhwc);
          Tensor q = bytes({images, weight[1], 11, 9});
          if (is_nhwc) q = q.to(MemoryFormat::nhwc);
          const Tensor bias = images == 1 ? randn({weight[0]}) : Tensor();
          const Int8Weight w = Int8Weight::quantize(randn(weight));
          const Tensor want = exactly(q, input, w, bias, o);
          const Tensor got = int8_conv2d(q, input, w, bias, o);
          EXPECT_TRUE(!is_nhwc || images == 0 || got.is_contiguous(MemoryFormat::nhwc));
          ASSERT_NO_FATAL_FAILURE(expect_near(got, want));

          const Int8Output next{.relu = true,
                                .quantized = QuantParams{.scale = 0.05F, .zero_point = 3}};
          ASSERT_EQ(int8_conv2d(q, input, w, bias, o, next).to_vector<uint8_t>(),
                    quantize(relu(got), *next.quantized).to_vector<uint8_t>());
          ASSERT_EQ(int8_conv2d(q, input, w, bias, o, {.relu = true}).to_vector<float>(),
                    relu(got).to_vector<float>());
        }
}

TEST(Int8Conv, DoesNotDependOnThreads) {
  const NoGrad scope;
  const Tensor q = bytes({4, 16, 20, 20});
  const Int8Weight w = Int8Weight::quantize(randn({32, 16, 3, 3}));
  std::vector<std::vector<float>> all;
  const int before = num_threads();
  for (const int threads : {1, 2, 5}) {
    set_num_threads(threads);
    all.push_back(int8_conv2d(q, {}, w, {}, {.padding = 1}).to_vector<float>());
  }
  set_num_threads(before);
  EXPECT_EQ(all[0], all[1]);
  EXPECT_EQ(all[0], all[2]);
}

/// In nhwc, where it may be Winograd's, as in nchw, where it is not. With VNNI direct sums are so
/// fast that it takes about twenty whole tiles of 4 x 4 outputs to be Winograd's.
void expect_same_in_nhwc(const Tensor& q, int32_t zero_point, const Tensor& values,
                         int64_t padding) {
  const Tensor scales = rand({values.size(0)}) * 0.01 + 0.001, bias = randn({values.size(0)});
  const Int8Weight w = Int8Weight::of(values, scales);
  const QuantParams input{.scale = 0.02F, .zero_point = zero_point};
  const Conv2dOptions how{.padding = padding};
  const Tensor nhwc = q.to(MemoryFormat::nhwc);
  EXPECT_EQ(int8_conv2d(nhwc, input, w, bias, how).to_vector<float>(),
            int8_conv2d(q, input, w, bias, how).to_vector<float>());
  const Int8Output next{.relu = true, .quantized = QuantParams{.scale = 0.1F, .zero_point = 3}};
  EXPECT_EQ(int8_conv2d(nhwc, input, w, bias, how, next).to_vector<uint8_t>(),
            int8_conv2d(q, input, w, bias, how, next).to_vector<uint8_t>());
}

TEST(Int8Winograd, IsExact) {
  manual_seed(12);
  struct Case {
    Shape q, weight;
    int64_t padding;
  };
  const Case cases[] = {
      {{2, 16, 16, 16}, {16, 16, 3, 3}, 1}, {{1, 32, 33, 18}, {48, 32, 3, 3}, 1},
      {{3, 64, 14, 14}, {80, 64, 3, 3}, 0}, {{1, 16, 9, 41}, {64, 16, 3, 3}, 2},
      {{24, 96, 7, 7}, {112, 96, 3, 3}, 1}, {{1, 208, 21, 20}, {32, 208, 3, 3}, 1},
      {{40, 16, 3, 16}, {32, 16, 3, 3}, 1}, {{2, 160, 16, 16}, {256, 160, 3, 3}, 1},
      {{40, 16, 3, 3}, {32, 16, 3, 3}, 1},   // a part of a tile each: not with VNNI
      {{64, 32, 1, 2}, {16, 32, 3, 3}, 1}};  // nowhere: direct sums of the same call
  for (const Case& c : cases)
    for (const int32_t zero_point : {0, 77, 255})
      expect_same_in_nhwc(bytes(c.q), zero_point, Int8Weight::quantize(randn(c.weight)).values,
                          c.padding);
}

TEST(Int8Winograd, HoldsTheLargestSums) {
  // 224 channels of 127 are nearly the most that it takes; 240 are more.
  for (const int64_t channels : {224, 240})
    for (const float value : {-127.0F, 127.0F}) {
      const Tensor values = full({32, channels, 3, 3}, value).to(i8);
      for (const float x : {0.0F, 255.0F})
        for (const int32_t zero_point : {0, 255})
          expect_same_in_nhwc(full({1, channels, 19, 20}, x).to(u8), zero_point, values, 1);
    }
  // Ends of the range side by side: the largest transforms.
  manual_seed(13);
  const auto sign = [](const Shape& shape) { return (rand(shape) * 1.99).to(u8).to(f32); };
  const Tensor values = (sign({16, 48, 3, 3}) * 254 - 127).to(i8);
  expect_same_in_nhwc((sign({2, 48, 24, 24}) * 255).to(u8), 128, values, 1);
}

TEST(Int8Winograd, DoesNotDependOnThreads) {
  manual_seed(14);
  const QuantParams input{.scale = 0.02F, .zero_point = 9};
  const int threads = num_threads();
  for (const Shape& shape : {Shape{1, 128, 20, 16}, Shape{4, 32, 20, 20}}) {
    const Tensor q = bytes(shape).to(MemoryFormat::nhwc);
    const Int8Weight w = Int8Weight::quantize(randn({128, shape[1], 3, 3}));
    std::vector<float> of_one;
    for (const int count : {1, 2, 5}) {
      set_num_threads(count);
      const auto y = int8_conv2d(q, input, w, {}, {.padding = 1}).to_vector<float>();
      if (count == 1) of_one = y;
      EXPECT_EQ(y, of_one) << count;
    }
  }
  set_num_threads(threads);
}

TEST(Int8Layers, RefuseTensorsThatDoNotBelongTogether) {
  const Int8Weight good = Int8Weight::quantize(randn({4, 6}));
  const auto error = [&](const std::function<void(Int8Weight&)>& change) {
    Int8Weight w = good;
    change(w);
    return message_of<ValueError>([&] { int8_linear(bytes({1, 6}), {}, w); });
  };
  for (const std::function<void(Int8Weight&)>& change :
       {std::function<void(Int8Weight&)>([](Int8Weight& w) { w.scales = ones({100}); }),
        std::function<void(Int8Weight&)>([](Int8Weight& w) { w.sums = Tensor(); }),
        std::function<void(Int8Weight&)>([](Int8Weight& w) { w.packed = w.values; }),
        std::function<void(Int8Weight&)>([](Int8Weight& w) { w.correction = ones({3}); })})
    EXPECT_NE(error(change).find("no weight"), std::string::npos);
  EXPECT_EQ(good.to(Device::cpu()).values.to_vector<int8_t>(), good.values.to_vector<int8_t>());
}

TEST(Int8Layers, SayWhatIsWrong) {
  const Int8Weight w = Int8Weight::quantize(randn({4, 6})),
                   k = Int8Weight::quantize(randn({4, 6, 3, 3}));
  EXPECT_NE(message_of<DTypeError>([&] {
              int8_linear(zeros({1, 6}), {}, w);
            }).find("quantize()"),
            std::string::npos);
  EXPECT_THROW(int8_linear(bytes({1, 5}), {}, w), ShapeError);
  EXPECT_THROW(int8_linear(bytes({1, 6}), {}, k), ShapeError);
  EXPECT_THROW(int8_linear(bytes({1, 6}), {}, {}), ValueError);
  EXPECT_THROW(int8_linear(bytes({1, 6}), {.scale = 0}, w), ValueError);
  EXPECT_THROW(int8_linear(bytes({1, 6}), {}, w, zeros({5})), ShapeError);
  EXPECT_THROW(int8_linear(bytes({1, 6}), {}, w, zeros({4}).set_requires_grad(true)), ValueError);
  EXPECT_THROW(int8_conv2d(bytes({1, 5, 8, 8}), {}, k), ShapeError);
  EXPECT_THROW(int8_conv2d(bytes({1, 6, 2, 2}), {}, k), ShapeError);
  EXPECT_THROW(int8_conv2d(bytes({1, 12, 8, 8}), {}, k, {}, {.groups = 2}), NotImplemented);
}

}  // namespace
}  // namespace brim
