// Layers in integers without their columns of zeros: the same bits as with them, whatever the
// shapes and instruction set.
#include <brim/autograd/autograd.h>
#include <brim/compress/quantize.h>
#include <brim/core/random.h>
#include <brim/core/threads.h>
#include <brim/nn/conv.h>
#include <brim/nn/linear.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/sparse_int8.h>
#include <brim/plan/compile.h>
#include <gtest/gtest.h>

#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "compress/pruned_weight.h"
#include "message_of.h"

namespace brim {
namespace {

using tests::message_of;
using tests::pruned_weight;
using tests::shuffled_outputs;

Tensor random_u8(const Shape& shape) { return (rand(shape) * 255.99).to(u8); }

/// Weights of both signs, with zeros in vectors.
Tensor signed_weight(const Shape& shape, int64_t vector, double sparsity, unsigned seed = 1) {
  return pruned_weight(shape, vector, sparsity, seed) * randn(shape);
}

void expect_same_linear(const Tensor& q, QuantParams input, const Int8Weight& w, int64_t vector,
                        const Tensor& bias) {
  const SparseInt8Weight sparse = SparseInt8Weight::encode(w, vector);
  const Int8Output next{.relu = true, .quantized = QuantParams{.scale = 0.7F, .zero_point = 9}};
  ASSERT_EQ(sparse_int8_linear(q, input, sparse, bias).to_vector<float>(),
            int8_linear(q, input, w, bias).to_vector<float>());
  ASSERT_EQ(sparse_int8_linear(q, input, sparse, bias, next).to_vector<uint8_t>(),
            int8_linear(q, input, w, bias, next).to_vector<uint8_t>());
}

void expect_same_conv(const Tensor& q, QuantParams input, const Int8Weight& w, int64_t vector,
                      const Tensor& bias, const Conv2dOptions& how) {
  const SparseInt8Weight sparse = SparseInt8Weight::encode(w, vector);
  const Int8Output next{.relu = true, .quantized = QuantParams{.scale = 0.7F, .zero_point = 9}};
  const Tensor got = sparse_int8_conv2d(q, input, sparse, bias, how);
  const Tensor want = int8_conv2d(q, input, w, bias, how);
  ASSERT_EQ(got.shape(), want.shape());
  ASSERT_EQ(got.strides(), want.strides());
  ASSERT_EQ(got.to_vector<float>(), want.to_vector<float>());
  ASSERT_EQ(sparse_int8_conv2d(q, input, sparse, bias, how, next).to_vector<uint8_t>(),
            int8_conv2d(q, input, w, bias, how, next).to_vector<uint8_t>());
}

TEST(SparseInt8Weight, IsDenseAgain) {
  for (const int64_t vector : {4, 8, 16, 32, 64})
    for (const Shape& shape : {Shape{32, 20}, Shape{37, 5}, Shape{3, 9}, Shape{64, 3, 3, 3},
                               Shape{1, 1}, Shape{0, 4}, Shape{40, 0}, Shape{20, 6, 1, 2}}) {
      SCOPED_TRACE(testing::Message() << shape.str() << " " << vector);
      const Int8Weight dense = Int8Weight::quantize(signed_weight(shape, vector, 0.7));
      const SparseInt8Weight w = SparseInt8Weight::encode(dense, vector);
      EXPECT_NO_THROW(w.check_structure());
      const Int8Weight again = w.int8();
      EXPECT_EQ(again.values.to_vector<int8_t>(), dense.values.to_vector<int8_t>());
      EXPECT_EQ(again.values.shape(), shape);
      EXPECT_EQ(w.sums.to_vector<int32_t>(), dense.sums.to_vector<int32_t>());
      EXPECT_EQ(w.dense().to_vector<float>(), dense.dense().to_vector<float>());
    }
  const Tensor corrected = randn({64});
  const Int8Weight q = Int8Weight::quantize(signed_weight({64, 512}, 32, 0.75));
  const SparseInt8Weight w =
      SparseInt8Weight::encode(Int8Weight::of(q.values, q.scales, corrected), 32);
  EXPECT_LT(w.density(), 0.35);
  EXPECT_EQ(w.int8().correction.to_vector<float>(), corrected.to_vector<float>());
  EXPECT_EQ(w.bytes(), w.values.numel() + 4 * (w.columns.numel() + 3 + 64 + 64));
  EXPECT_EQ(SparseInt8Weight::quantize(zeros({32, 8}), 32).density(), 0);
}

TEST(SparseInt8Weight, FindsGroupsAmongRoundedNumbers) {
  // Some of what is kept becomes zero in integers, so that outputs of a group differ.
  const Tensor neighbours = signed_weight({128, 300}, 16, 0.75);
  const SparseInt8Weight a = SparseInt8Weight::quantize(neighbours, 16);
  const SparseInt8Weight b = SparseInt8Weight::quantize(shuffled_outputs(neighbours), 16);
  EXPECT_TRUE(b.outputs.defined());
  EXPECT_EQ(b.density(), a.density());
}

TEST(SparseInt8Weight, RefusesWhatIsNone) {
  EXPECT_THROW(SparseInt8Weight::quantize(zeros({4, 4}), 5), ValueError);
  EXPECT_THROW(SparseInt8Weight::quantize(zeros({4}), 4), ShapeError);
  EXPECT_THROW(SparseInt8Weight::quantize(full({4, 4}, NAN), 4), ValueError);
  EXPECT_THROW(SparseInt8Weight::encode({}, 4), Error);
  const SparseInt8Weight good = SparseInt8Weight::quantize(signed_weight({32, 20}, 8, 0.5), 8);
  const auto broken = [&](const std::function<void(SparseInt8Weight&)>& change) {
    SparseInt8Weight w = good;
    change(w);
    return message_of<ValueError>([&] { (void)SparseInt8Weight::of(w); });
  };
  const auto expect = [&](const std::function<void(SparseInt8Weight&)>& change, const char* why) {
    EXPECT_NE(broken(change).find(why), std::string::npos) << broken(change);
  };
  expect([](SparseInt8Weight& w) { w.vector = 16; }, "no sparse weight");
  expect([](SparseInt8Weight& w) { w.vector = 7; }, "no sparse weight");
  expect([](SparseInt8Weight& w) { w.shape = {32, 2}; }, "column");
  expect([](SparseInt8Weight& w) { w.shape = {99, 20}; }, "no sparse weight");
  expect([](SparseInt8Weight& w) { w.values = w.values.to(f32); }, "no sparse weight");
  expect([](SparseInt8Weight& w) { w.values.fill_(-128); }, "-128");
  expect([](SparseInt8Weight& w) { w.scales = full({32}, NAN); }, "scale is nan");
  expect([](SparseInt8Weight& w) { w.scales = ones({31}); }, "scales");
  expect([](SparseInt8Weight& w) { w.correction = full({32}, NAN); }, "correction is nan");
  expect([](SparseInt8Weight& w) { w.starts = zeros({5}, {.dtype = i32}); }, "starts");
  expect([](SparseInt8Weight& w) { w.outputs = zeros({32}, {.dtype = i32}); }, "leave 1 out");
}

TEST(SparseInt8Linear, IsTheDenseOne) {
  manual_seed(1);
  const NoGrad scope;
  const QuantParams input{.scale = 0.03F, .zero_point = 77};
  for (const int64_t vector : {4, 8, 16, 32, 64})
    for (const int64_t rows : {0, 1, 2, 5, 6, 7, 16, 17, 63, 64, 65, 130})
      for (const auto& [in, out] : {std::pair<int64_t, int64_t>{100, 64},
                                    {33, 37},
                                    {1, 1},
                                    {7, 3},
                                    {530, 129},
                                    {0, 5},
                                    {5, 0}}) {
        SCOPED_TRACE(testing::Message() << vector << " " << rows << " " << in << " " << out);
        const Int8Weight w = Int8Weight::quantize(signed_weight({out, in}, vector, 0.6));
        const Tensor bias = rows % 2 ? randn({out}) : Tensor();
        ASSERT_NO_FATAL_FAILURE(expect_same_linear(random_u8({rows, in}), input, w, vector, bias));
      }
  const SparseInt8Weight w = SparseInt8Weight::quantize(signed_weight({16, 6}, 8, 0.5), 8);
  EXPECT_EQ(sparse_int8_linear(random_u8({2, 3, 6}), {}, w).shape(), (Shape{2, 3, 16}));
  EXPECT_EQ(sparse_int8_linear(random_u8({6}), {}, w).shape(), (Shape{16}));
  const Tensor view = random_u8({6, 9}).t();
  EXPECT_EQ(sparse_int8_linear(view, {}, w).to_vector<float>(),
            int8_linear(view, {}, w.int8()).to_vector<float>());
}

TEST(SparseInt8Linear, HoldsTheLargestSumsAndEveryZeroPoint) {
  const NoGrad scope;
  for (const int64_t rows : {1, 20})
    for (const float sign : {1.0F, -1.0F})
      for (const int zero_point : {0, 255}) {
        const Int8Weight w = Int8Weight::quantize(full({8, Int8Weight::kMaxInputs}, sign));
        const Tensor q = full({rows, Int8Weight::kMaxInputs}, 255 - zero_point).to(u8);
        ASSERT_NO_FATAL_FAILURE(
            expect_same_linear(q, {.scale = 1, .zero_point = zero_point}, w, 8, {}));
      }
}

TEST(SparseInt8Linear, DoesNotSaturatePairs) {
  // Instruction sets without sums in 32 bits add the products of two columns in 16 where they fit.
  const NoGrad scope;
  for (const int64_t columns : {2, 4, 9, 40, 700}) {
    std::vector<int8_t> values;
    const int8_t some[] = {64, 64, 65, -64, -64, -65, 127, 1, 2, -127, -1, -2, 0, 63, -63};
    for (int64_t i = 0; i < 16 * columns; ++i)
      values.push_back(some[static_cast<size_t>(i * i % 31 + i / 16) % std::size(some)]);
    const Int8Weight w = Int8Weight::of(Tensor::from<int8_t>(values, {16, columns}), ones({16}));
    for (const int64_t rows : {1, 9, 64})
      for (const int64_t vector : {4, 16}) {
        SCOPED_TRACE(testing::Message() << columns << " " << rows << " " << vector);
        const Tensor most = full({rows, columns}, 255).to(u8);
        ASSERT_NO_FATAL_FAILURE(expect_same_linear(most, {.scale = 1}, w, vector, {}));
        ASSERT_NO_FATAL_FAILURE(
            expect_same_linear(random_u8({rows, columns}), {.scale = 1}, w, vector, {}));
      }
  }
}

TEST(SparseInt8Linear, LeavesWholeGroupsOut) {
  const NoGrad scope;
  Tensor dense = signed_weight({40, 50}, 8, 0.5);
  dense.slice(0, 8, 24).fill_(0);
  for (const int64_t rows : {1, 30}) {
    const Tensor bias = randn({40}), q = random_u8({rows, 50});
    expect_same_linear(q, {.scale = 1, .zero_point = 3}, Int8Weight::quantize(dense), 8, bias);
    expect_same_linear(q, {.scale = 1, .zero_point = 3}, Int8Weight::quantize(zeros({40, 50})), 8,
                       bias);
  }
}

TEST(SparseInt8Conv, IsTheDenseOne) {
  manual_seed(2);
  const NoGrad scope;
  const std::vector<Conv2dOptions> how = {{},
                                          {.padding = 1},
                                          {.stride = 2, .padding = 1},
                                          {.stride = {3, 2}, .padding = {0, 2}},
                                          {.padding = {2, 1}, .dilation = 2},
                                          {.stride = 2, .padding = 2, .dilation = {1, 2}},
                                          {.stride = 40, .padding = 1}};
  for (const int64_t vector : {4, 8, 32})
    for (const Shape& weight : {Shape{40, 6, 3, 3}, Shape{32, 8, 1, 1}, Shape{3, 2, 3, 2},
                                Shape{70, 3, 5, 5}, Shape{16, 20, 3, 3}})
      for (const Conv2dOptions& o : how)
        for (const int64_t images : {0, 1, 3})
          for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc}) {
            SCOPED_TRACE(testing::Message() << vector << weight.str() << images << " stride "
                                            << o.stride.h << static_cast<int>(format));
            const Tensor q = random_u8({images, weight[1], 11, 19}).to(format);
            const Int8Weight w = Int8Weight::quantize(signed_weight(weight, vector, 0.7));
            const Tensor bias = images == 1 ? randn({weight[0]}) : Tensor();
            ASSERT_NO_FATAL_FAILURE(
                expect_same_conv(q, {.scale = 0.02F, .zero_point = 131}, w, vector, bias, o));
          }
}

TEST(SparseInt8Conv, TakesImagesOfAnySize) {
  manual_seed(3);
  const NoGrad scope;
  const Int8Weight w = Int8Weight::quantize(signed_weight({24, 5, 3, 3}, 8, 0.6));
  const Int8Weight point = Int8Weight::quantize(signed_weight({24, 5, 1, 1}, 8, 0.6));
  for (const int zero_point : {0, 255})
    for (const int64_t images : {1, 2, 9, 40})
      for (const int64_t size : {1, 2, 3, 7, 8, 16, 30})
        for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc}) {
          SCOPED_TRACE(testing::Message() << images << " " << size << static_cast<int>(format));
          const Tensor q = random_u8({images, 5, size, size + 1}).to(format);
          const QuantParams input{.scale = 0.5F, .zero_point = zero_point};
          ASSERT_NO_FATAL_FAILURE(expect_same_conv(q, input, w, 8, {}, {.padding = 1}));
          ASSERT_NO_FATAL_FAILURE(expect_same_conv(q, input, point, 8, {}, {}));
          ASSERT_NO_FATAL_FAILURE(expect_same_conv(q, input, point, 8, {}, {.stride = 2}));
        }
}

TEST(SparseInt8Layers, ComputeWithOutputsInAnyOrder) {
  manual_seed(4);
  const NoGrad scope;
  const QuantParams input{.scale = 0.5F, .zero_point = 100};
  const Int8Weight w = Int8Weight::quantize(shuffled_outputs(signed_weight({70, 33}, 8, 0.7)));
  ASSERT_TRUE(SparseInt8Weight::encode(w, 8).outputs.defined());
  for (const int64_t rows : {1, 4, 50})
    expect_same_linear(random_u8({rows, 33}), input, w, 8, randn({70}));
  const Int8Weight k = Int8Weight::quantize(shuffled_outputs(signed_weight({40, 6, 3, 3}, 8, 0.7)));
  ASSERT_TRUE(SparseInt8Weight::encode(k, 8).outputs.defined());
  for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc}) {
    expect_same_conv(random_u8({2, 6, 9, 7}).to(format), input, k, 8, randn({40}), {.padding = 1});
    expect_same_conv(random_u8({1, 6, 3, 5}).to(format), input, k, 8, randn({40}), {});
  }
}

TEST(SparseInt8Layers, DoNotDependOnThreads) {
  const NoGrad scope;
  const Tensor q = random_u8({4, 16, 20, 20}), rows = random_u8({3, 400});
  const SparseInt8Weight w = SparseInt8Weight::quantize(signed_weight({64, 16, 3, 3}, 32, 0.7), 32);
  const SparseInt8Weight fc = SparseInt8Weight::quantize(signed_weight({512, 400}, 16, 0.7), 16);
  std::vector<std::vector<float>> all, linear;
  const int before = num_threads();
  for (const int threads : {1, 2, 5}) {
    set_num_threads(threads);
    all.push_back(sparse_int8_conv2d(q, {}, w, {}, {.padding = 1}).to_vector<float>());
    linear.push_back(sparse_int8_linear(rows, {}, fc).to_vector<float>());
  }
  set_num_threads(before);
  for (const size_t i : {1u, 2u}) {
    EXPECT_EQ(all[0], all[i]);
    EXPECT_EQ(linear[0], linear[i]);
  }
}

TEST(SparseInt8Layers, SayWhatIsWrong) {
  const SparseInt8Weight w = SparseInt8Weight::quantize(signed_weight({8, 6}, 4, 0.5), 4),
                         k = SparseInt8Weight::quantize(signed_weight({8, 6, 3, 3}, 4, 0.5), 4);
  EXPECT_NE(message_of<DTypeError>([&] {
              sparse_int8_linear(zeros({1, 6}), {}, w);
            }).find("quantize()"),
            std::string::npos);
  EXPECT_THROW(sparse_int8_linear(random_u8({1, 5}), {}, w), ShapeError);
  EXPECT_THROW(sparse_int8_linear(random_u8({1, 6}), {}, k), ShapeError);
  EXPECT_THROW(sparse_int8_linear(random_u8({1, 6}), {}, {}), ValueError);
  EXPECT_THROW(sparse_int8_linear(random_u8({1, 6}), {.scale = 0}, w), ValueError);
  EXPECT_THROW(sparse_int8_linear(random_u8({1, 6}), {}, w, zeros({5})), ShapeError);
  EXPECT_THROW(sparse_int8_linear(random_u8({1, 6}), {}, w, zeros({8}).set_requires_grad(true)),
               ValueError);
  EXPECT_THROW(sparse_int8_conv2d(random_u8({1, 5, 8, 8}), {}, k), ShapeError);
  EXPECT_THROW(sparse_int8_conv2d(random_u8({1, 6, 2, 2}), {}, k), ShapeError);
  EXPECT_THROW(sparse_int8_conv2d(random_u8({1, 12, 8, 8}), {}, k, {}, {.groups = 2}),
               NotImplemented);
  // Tensors that do not belong together.
  for (const std::function<void(SparseInt8Weight&)>& change :
       {std::function<void(SparseInt8Weight&)>([](SparseInt8Weight& s) { s.vector = 8; }),
        std::function<void(SparseInt8Weight&)>([](SparseInt8Weight& s) { s.sums = Tensor(); }),
        std::function<void(SparseInt8Weight&)>([](SparseInt8Weight& s) { s.packed = s.values; }),
        std::function<void(SparseInt8Weight&)>([](SparseInt8Weight& s) { s.scales = ones({3}); }),
        std::function<void(SparseInt8Weight&)>([](SparseInt8Weight& s) {
          s.columns = full({s.columns.numel()}, 99999, {.dtype = i32});
        }),
        std::function<void(SparseInt8Weight&)>([](SparseInt8Weight& s) {
          s.starts = full({s.starts.numel()}, -1, {.dtype = i32});
        })}) {
    SparseInt8Weight broken = w;
    change(broken);
    EXPECT_THROW(sparse_int8_linear(random_u8({1, 6}), {}, broken), ValueError);
    EXPECT_THROW(sparse_int8_linear(random_u8({9, 6}), {}, broken), ValueError);
  }
}

TEST(SparseInt8Layers, AreTheSameOnVirtualAccelerators) {
  const NoGrad scope;
  const Device device = Device::sim(0);
  const Tensor q = random_u8({9, 40}), pictures = random_u8({2, 4, 6, 6});
  const SparseInt8Weight w = SparseInt8Weight::quantize(signed_weight({64, 40}, 32, 0.5), 32);
  const SparseInt8Weight k = SparseInt8Weight::quantize(signed_weight({32, 4, 3, 3}, 32, 0.5), 32);
  EXPECT_EQ(sparse_int8_linear(q.to(device), {}, w.to(device)).to_vector<float>(),
            sparse_int8_linear(q, {}, w).to_vector<float>());
  EXPECT_EQ(sparse_int8_conv2d(pictures.to(device), {}, k.to(device)).to_vector<float>(),
            sparse_int8_conv2d(pictures, {}, k).to_vector<float>());
  EXPECT_THROW((void)sparse_int8_linear(q, {}, w.to(device)), DeviceError);
}

TEST(SparseInt8Layers, EndWithGradientsChangesAndUseDense) {
  manual_seed(5);
  nn::Linear layer({.in = 40, .out = 32});
  nn::Conv2d conv({.in = 4, .out = 16, .kernel = 3, .padding = 1});
  {
    const NoGrad scope;
    layer.weight.copy_(signed_weight({32, 40}, 8, 0.7));
    conv.weight.copy_(signed_weight({16, 4, 3, 3}, 8, 0.7));
  }
  const QuantParams input = QuantParams::of_range(-3, 3);
  const Tensor x = randn({4, 40}), picture = randn({2, 4, 6, 5});
  const auto now = [&] {
    const NoGrad scope;
    return layer(x).to_vector<float>();
  };
  const std::vector<float> plain = now();
  const SparseInt8Weight w = SparseInt8Weight::quantize(layer.weight, 8);
  layer.use_sparse_int8(w, input);
  EXPECT_NE(layer.str().find("sparse int8"), std::string::npos) << layer.str();
  {
    const NoGrad scope;
    EXPECT_EQ(now(),
              int8_linear(quantize(x, input), input, w.int8(), layer.bias).to_vector<float>());
    const SparseInt8Weight k = SparseInt8Weight::quantize(conv.weight, 8);
    conv.use_sparse_int8(k, input);
    EXPECT_NE(conv.str().find("sparse int8"), std::string::npos);
    for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc}) {
      const Tensor y = conv(picture.to(format));
      EXPECT_TRUE(y.is_contiguous(format) || y.is_contiguous(MemoryFormat::nhwc));
      EXPECT_EQ(y.to_vector<float>(),
                int8_conv2d(quantize(picture, input), input, k.int8(), conv.bias, {.padding = 1})
                    .to_vector<float>());
    }
  }
  EXPECT_EQ(layer(x).to_vector<float>(), plain);  // gradients are wanted
  compress::use_dense(layer);
  EXPECT_EQ(now(), plain);
  layer.use_sparse_int8(w, input);
  EXPECT_NE(now(), plain);
  {
    const NoGrad scope;
    layer.weight.mul_(1);  // written
  }
  EXPECT_EQ(now(), plain);

  EXPECT_THROW(layer.use_sparse_int8({}, input), ValueError);
  EXPECT_THROW(layer.use_sparse_int8(w, {.scale = 0}), ValueError);
  EXPECT_THROW(layer.use_sparse_int8(SparseInt8Weight::quantize(zeros({32, 4}), 8), input),
               ValueError);
  nn::Conv2d grouped({.in = 4, .out = 4, .kernel = 1, .groups = 2});
  EXPECT_THROW(grouped.use_sparse_int8(SparseInt8Weight::quantize(zeros({4, 2, 1, 1}), 4), input),
               NotImplemented);
}

TEST(SparseInt8Layers, AreSeenByCompiledSteps) {
  manual_seed(6);
  const NoGrad scope;
  nn::Linear layer({.in = 64, .out = 32});
  layer.weight.copy_(signed_weight({32, 64}, 8, 0.7));
  const Tensor x = randn({8, 64});
  auto step = compile([&](const Tensor& in) { return layer(in); });
  const std::vector<float> dense = step(x).to_vector<float>();
  layer.use_sparse_int8(SparseInt8Weight::quantize(layer.weight, 8), QuantParams::of_range(-3, 3));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(step(x).to_vector<float>(), layer(x).to_vector<float>());
  EXPECT_NE(layer(x).to_vector<float>(), dense);
  layer.weight.copy_(randn({32, 64}));
  EXPECT_EQ(step(x).to_vector<float>(), layer(x).to_vector<float>());
}

}  // namespace
}  // namespace brim
