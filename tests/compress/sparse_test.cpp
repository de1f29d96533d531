// Products with weights of kept columns: the same as with the dense weight, whatever the shapes.
#include <brim/autograd/autograd.h>
#include <brim/compress/prune.h>
#include <brim/core/random.h>
#include <brim/core/threads.h>
#include <brim/nn/container.h>
#include <brim/nn/conv.h>
#include <brim/nn/linear.h>
#include <brim/ops/create.h>
#include <brim/ops/matmul.h>
#include <brim/ops/sparse.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "compress/pruned_weight.h"
#include "message_of.h"

namespace brim {
namespace {

using tests::message_of;
using tests::pruned_weight;
using tests::shuffled_outputs;

double largest_difference(const Tensor& a, const Tensor& b) {
  const std::vector<float> x = a.to_vector<float>(), y = b.to_vector<float>();
  EXPECT_EQ(a.shape(), b.shape());
  double worst = 0, most = 1e-9;
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    worst = std::max(worst, static_cast<double>(std::fabs(x[i] - y[i])));
    most = std::max(most, static_cast<double>(std::fabs(y[i])));
  }
  return worst / most;
}

TEST(SparseWeight, IsDenseAgain) {
  for (const int64_t vector : {4, 8, 16, 32, 64})
    for (const Shape& shape : {Shape{32, 20}, Shape{37, 5}, Shape{3, 9}, Shape{64, 3, 3, 3},
                               Shape{1, 1}, Shape{0, 4}, Shape{40, 0}, Shape{20, 6, 1, 2}}) {
      const Tensor dense = pruned_weight(shape, vector, 0.7);
      const SparseWeight w = SparseWeight::encode(dense, vector);
      EXPECT_NO_THROW(w.check());
      EXPECT_EQ(w.dense().to_vector<float>(), dense.to_vector<float>()) << shape.str();
      EXPECT_EQ(w.dense().shape(), shape);
    }
  EXPECT_LT(SparseWeight::encode(pruned_weight({64, 512}, 32, 0.75), 32).density(), 0.35);
  const SparseWeight none = SparseWeight::encode(zeros({32, 8}), 32);
  EXPECT_EQ(none.values.numel(), 0);
  EXPECT_EQ(none.density(), 0);
}

TEST(SparseWeight, RefusesWhatIsNone) {
  EXPECT_THROW(SparseWeight::encode(zeros({4, 4}), 5), ValueError);
  EXPECT_THROW(SparseWeight::encode(zeros({4}), 4), ShapeError);
  EXPECT_THROW(SparseWeight::encode(zeros({4, 4}, {.dtype = f64}), 4), DTypeError);
  EXPECT_THROW(SparseWeight::encode(Tensor(), 4), Error);
  const SparseWeight good = SparseWeight::encode(pruned_weight({32, 20}, 32, 0.5), 32);
  const auto broken = [&](auto change) {
    SparseWeight w = good;
    change(w);
    return message_of<ValueError>([&] { w.check(); });
  };
  EXPECT_NE(broken([](SparseWeight& w) { w.vector = 16; }).find("no sparse weight"),
            std::string::npos);
  EXPECT_NE(broken([](SparseWeight& w) { w.values = Tensor(); }).find("no sparse weight"),
            std::string::npos);
  EXPECT_NE(broken([](SparseWeight& w) {
              w.shape = {64, 20};
            }).find("no sparse weight"),
            std::string::npos);
  EXPECT_NE(broken([](SparseWeight& w) { w.shape = {32, 2}; }).find("column"), std::string::npos);
  EXPECT_NE(broken([](SparseWeight& w) {
              w.starts = Tensor::from<int32_t>({0, 99999}, {2});
            }).find("starts"),
            std::string::npos);
}

TEST(SparseWeight, FindsOutputsThatKeepTheSameColumns) {
  for (const Shape& shape : {Shape{64, 100}, Shape{37, 50}, Shape{48, 6, 3, 3}}) {
    const Tensor neighbours = pruned_weight(shape, 8, 0.75), dense = shuffled_outputs(neighbours);
    const SparseWeight a = SparseWeight::encode(neighbours, 8);
    const SparseWeight b = SparseWeight::encode(dense, 8);
    EXPECT_FALSE(a.outputs.defined());
    EXPECT_TRUE(b.outputs.defined());
    EXPECT_NO_THROW(b.check());
    // The last group, of what is left, may be found in another place.
    EXPECT_NEAR(b.density(), a.density(), shape[0] % 8 == 0 ? 0 : 0.1) << shape.str();
    EXPECT_EQ(b.dense().to_vector<float>(), dense.to_vector<float>());
    EXPECT_EQ(b.bytes(), 4 * (b.values.numel() + b.columns.numel() + b.starts.numel() + shape[0]));
  }
  SparseWeight w = SparseWeight::encode(shuffled_outputs(pruned_weight({32, 20}, 8, 0.5)), 8);
  w.outputs = Tensor::from<int32_t>(std::vector<int32_t>(32, 3), {32});
  EXPECT_NE(message_of<ValueError>([&] { w.check(); }).find("leave 0 out"), std::string::npos);
  w.outputs = zeros({31}, {.dtype = i32});
  EXPECT_THROW(w.check(), ValueError);
}

TEST(SparseLayers, ComputeWithOutputsInAnyOrder) {
  manual_seed(7);
  const NoGrad scope;
  const Tensor w = shuffled_outputs(pruned_weight({70, 33}, 8, 0.7)), x = rand({50, 33}),
               bias = rand({70});
  EXPECT_LT(
      largest_difference(sparse_linear(x, SparseWeight::encode(w, 8), bias), linear(x, w, bias)),
      1e-5);
  const Tensor k = shuffled_outputs(pruned_weight({40, 6, 3, 3}, 8, 0.7)),
               picture = rand({2, 6, 9, 7});
  const Tensor more = rand({40});
  for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc})
    EXPECT_LT(largest_difference(sparse_conv2d(picture.to(format), SparseWeight::encode(k, 8), more,
                                               {.padding = 1}),
                                 conv2d(picture, k, more, {.padding = 1})),
              1e-5);
}

TEST(SparseLinear, IsLinear) {
  manual_seed(1);
  const NoGrad scope;
  for (const int64_t vector : {4, 8, 16, 32, 64})
    for (const int64_t rows : {0, 1, 2, 3, 7, 48, 49, 130})
      for (const auto& [in, out] :
           {std::pair<int64_t, int64_t>{100, 64}, {33, 37}, {1, 1}, {7, 3}, {0, 5}, {5, 0}}) {
        const Tensor x = rand({rows, in}), dense = pruned_weight({out, in}, vector, 0.6);
        const Tensor bias = rows % 2 ? rand({out}) : Tensor();
        const SparseWeight w = SparseWeight::encode(dense, vector);
        EXPECT_LT(largest_difference(sparse_linear(x, w, bias), linear(x, dense, bias)), 1e-5)
            << vector << " " << rows << " " << in << " " << out;
      }
  const SparseWeight w = SparseWeight::encode(pruned_weight({16, 6}, 8, 0.5), 8);
  EXPECT_EQ(sparse_linear(rand({2, 3, 6}), w).shape(), (Shape{2, 3, 16}));
  EXPECT_EQ(sparse_linear(rand({6}), w).shape(), (Shape{16}));
  const Tensor view = rand({6, 4}).t();
  EXPECT_LT(largest_difference(sparse_linear(view, w), linear(view, w.dense())), 1e-5);
}

TEST(SparseConv, IsConvolution) {
  manual_seed(2);
  const NoGrad scope;
  const std::vector<Conv2dOptions> how = {
      {}, {.padding = 1}, {.stride = 2, .padding = 1}, {.padding = {2, 1}, .dilation = 2}};
  for (const int64_t vector : {8, 32})
    for (const Shape& weight : {Shape{40, 6, 3, 3}, Shape{32, 5, 1, 1}, Shape{3, 2, 3, 2}})
      for (const Conv2dOptions& o : how)
        for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc}) {
          const Tensor x = rand({3, weight[1], 9, 11}).to(format);
          const Tensor dense = pruned_weight(weight, vector, 0.7), bias = rand({weight[0]});
          const Tensor y = sparse_conv2d(x, SparseWeight::encode(dense, vector), bias, o);
          EXPECT_LT(largest_difference(y, conv2d(x, dense, bias, o)), 1e-5)
              << vector << " " << weight.str();
          EXPECT_TRUE(y.is_contiguous(format)) << weight.str();
        }
  const SparseWeight w = SparseWeight::encode(pruned_weight({8, 4, 3, 3}, 8, 0.5), 8);
  EXPECT_EQ(sparse_conv2d(zeros({0, 4, 5, 5}), w).shape(), (Shape{0, 8, 3, 3}));
  EXPECT_THROW(sparse_conv2d(zeros({1, 3, 5, 5}), w), ShapeError);
  EXPECT_THROW(sparse_conv2d(zeros({1, 4, 2, 2}), w), ShapeError);
  EXPECT_THROW(sparse_conv2d(zeros({1, 4, 5, 5}), w, {}, {.groups = 2}), NotImplemented);
}

TEST(SparseConv, DoesNotDependOnThreads) {
  manual_seed(3);
  const NoGrad scope;
  const Tensor x = rand({4, 16, 20, 20});
  const SparseWeight w = SparseWeight::encode(pruned_weight({64, 16, 3, 3}, 32, 0.75), 32);
  const int before = num_threads();
  set_num_threads(1);
  const std::vector<float> one = sparse_conv2d(x, w, {}, {.padding = 1}).to_vector<float>();
  set_num_threads(3);
  EXPECT_EQ(sparse_conv2d(x, w, {}, {.padding = 1}).to_vector<float>(), one);
  set_num_threads(before);
}

TEST(SparseOps, LoseNoGradient) {
  const SparseWeight w = SparseWeight::encode(pruned_weight({16, 6}, 8, 0.5), 8);
  const Tensor x = rand({2, 6}, {.requires_grad = true});
  const std::string what = message_of<ValueError>([&] { (void)sparse_linear(x, w); });
  EXPECT_NE(what.find("NoGrad"), std::string::npos) << what;
  const NoGrad scope;
  EXPECT_NO_THROW((void)sparse_linear(x, w));
  EXPECT_THROW((void)sparse_linear(rand({2, 7}), w), ShapeError);
  EXPECT_THROW((void)sparse_linear(rand({2, 6}), w, rand({3})), ShapeError);
  EXPECT_THROW((void)sparse_linear(rand({2, 6}, {.dtype = f64}), w), DTypeError);
  EXPECT_THROW((void)sparse_linear(rand({2, 6}), SparseWeight()), ValueError);
  SparseWeight wrong = w;
  wrong.columns = full({w.columns.numel()}, 100000, {.dtype = i32});
  EXPECT_THROW((void)sparse_linear(rand({2, 6}), wrong), ValueError);
  wrong = w;
  wrong.starts = full({w.starts.numel()}, -1, {.dtype = i32});
  EXPECT_THROW((void)sparse_linear(rand({2, 6}), wrong), ValueError);
  wrong = w;
  wrong.vector = 32;
  EXPECT_THROW((void)sparse_linear(rand({2, 6}), wrong), ValueError);
}

TEST(SparseOps, AreTheSameOnVirtualAccelerators) {
  const NoGrad scope;
  const Device device = Device::sim(0);
  const Tensor x = rand({5, 40});
  const SparseWeight w = SparseWeight::encode(pruned_weight({64, 40}, 32, 0.5), 32);
  EXPECT_EQ(sparse_linear(x.to(device), w.to(device)).to(Device::cpu()).to_vector<float>(),
            sparse_linear(x, w).to_vector<float>());
  EXPECT_THROW((void)sparse_linear(x, w.to(device)), DeviceError);
  const Tensor pictures = rand({2, 4, 6, 6});
  const SparseWeight conv = SparseWeight::encode(pruned_weight({32, 4, 3, 3}, 32, 0.5), 32);
  EXPECT_EQ(
      sparse_conv2d(pictures.to(device), conv.to(device)).to(Device::cpu()).to_vector<float>(),
      sparse_conv2d(pictures, conv).to_vector<float>());
}

}  // namespace
}  // namespace brim
