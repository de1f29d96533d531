// Tensor: making, reading, devices and dtypes, layouts, writing in place.
#include <gtest/gtest.h>

#include <functional>
#include <sstream>

#include <brim/core/print.h>
#include <brim/core/tensor.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>

#include "message_of.h"

namespace brim {
namespace {

using tests::message_of;

std::vector<float> values(const Tensor& x) { return x.to_vector<float>(); }

TEST(Tensor, From) {
  EXPECT_EQ(Tensor::from<float>({1, 2, 3, 4}, {2, 2}).to_vector<float>(),
            (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(Tensor::from(std::vector<int64_t>{5}, {}).item<int64_t>(), 5);
  EXPECT_EQ(Tensor::from(std::vector<float>(), {0, 3}).numel(), 0);
  EXPECT_EQ(message_of([] {
              Tensor::from<float>({1, 2, 3}, {2, 2});
            }),
            "[from] 3 values do not fill shape (2, 2)");
  EXPECT_THROW(Tensor::from<float>({1, 2}, {-1, -2}), ShapeError);
  EXPECT_THROW(Tensor::from(std::vector<float>(), {int64_t{1} << 32, int64_t{1} << 32}),
               ShapeError);
}

TEST(Tensor, Bool) {
  const std::vector<bool> v = {true, false, true};
  const Tensor x = Tensor::from(v, {3});
  EXPECT_EQ(x.dtype(), bool_);
  EXPECT_EQ(x.to_vector<bool>(), v);
  EXPECT_EQ(Tensor::from<bool>({true, false}, {2}).to_vector<bool>(),
            (std::vector<bool>{true, false}));
  EXPECT_EQ(Tensor::from<float>({0.5f, 0, -1}, {3}).to(bool_).to_vector<bool>(), v);
  EXPECT_TRUE(Tensor::from<float>({0.5f}, {}).item<bool>());
  EXPECT_FALSE(zeros({1}).item<bool>());
}

template <class T>
constexpr bool kTakesMixedNumbers = requires {
  T::from({int64_t{0}, 1}, {2});
};
static_assert(!kTakesMixedNumbers<Tensor>, "they would become a tensor of bool");

TEST(Tensor, UndefinedOnesAreErrors) {
  Tensor u;
  const Tensor x = zeros({2});
  const std::vector<std::function<void()>> uses = {
      [&] { u.fill_(0); },
      [&] { u.copy_(x); },
      [&] { (void)u.clone(); },
      [&] { (void)u.to(f64); },
      [&] { (void)u.contiguous(); },
      [&] { (void)u.to(Device::cpu()); },
      [&] { (void)u.requires_grad(); },
      [&] { u.set_requires_grad(); },
      [&] { u.backward(); },
      [&] { (void)u.detach(); },
      [&] { (void)u.grad(); },
      [&] { u.set_grad({}); },
      [&] { (void)u.is_leaf(); },
      [&] { u.retain_grad(); },
      [&] { (void)u.item(); },
      [&] { (void)u.to_vector<float>(); },
      [&] { (void)u.data<float>(); },
      [&] { (void)u.size(0); },
      [&] { u.set_data(x); },
      [&] { (void)empty_like(u); },
      [&] { u.add_(x); },
      [&] { u.mul_(2); },
      [&] { u += 2; },
      [&] { u -= x; },
      [&] { u /= 2; },
      [&] { (void)u.cpu(); },
      [&] { (void)u.sum(); },
      [&] { (void)u.mean(); },
      [&] { (void)u.max(); },
      [&] { (void)u.min(); },
      [&] { (void)u.argmax(); },
      [&] { (void)u.argmin(); },
      [&] { (void)u.matmul(x); },
      [&] { u.remove_hook(1); },
      [&] { (void)u.register_hook({}); },
      [&] { (void)u.shape(); },
      [&] { (void)u.strides(); },
      [&] { (void)u.rank(); },
      [&] { (void)u.numel(); },
      [&] { (void)u.offset(); },
      [&] { (void)u.dtype(); },
      [&] { (void)u.device(); },
      [&] { (void)u.storage(); },
      [&] { (void)u.raw(); },
      [&] { (void)u.is_contiguous(); },
      [&] { (void)u.is_contiguous(MemoryFormat::nhwc); },
      [&] { (void)u.alias({}, {}, 0); },
      [&] { u.record_stream(Stream()); },
      [&] { (void)u.squeeze(); },
      [&] { (void)u.unsqueeze(0); },
      [&] { (void)u.expand({1}); },
      [&] { (void)u[0]; },
      [&] { u.fill_(1); },
      [&] { u.copy_(x); },
      [&] { u.div_(x); },
      [&] { u.mul_(x); },
      [&] { u.uniform_(); },
      [&] { u.normal_(); },
      [&] { x.clone().copy_(u); },
      [&] { x.clone().add_(u); },
      [&] { x.clone().mul_(u); },
      [&] { x.clone().div_(u); },
      [&] { x.clone().set_data(u); },
      [&] { u.zero_grad(); },
      [&] { (void)u.copy_to(Device::cpu()); }};
  for (size_t i = 0; i < uses.size(); ++i) EXPECT_THROW(uses[i](), ValueError) << i;
  EXPECT_EQ(u.str(), "Tensor(undefined)");
}

TEST(Tensor, ItemIsTheOnlyElement) {
  for (int i = 0; is_computed(static_cast<DType>(i)); ++i) {
    const Tensor x = ones({1, 1}, {.dtype = static_cast<DType>(i)});
    EXPECT_EQ(x.item(), 1);
    EXPECT_EQ(x.item<int64_t>(), 1);
    EXPECT_EQ(x.item<float>(), 1);
  }
  EXPECT_EQ(Tensor::from<int64_t>({INT64_MAX}, {}).item<int64_t>(), INT64_MAX);
  EXPECT_EQ(message_of([] {
              zeros({2, 3}).item();
            }),
            "[item] a tensor of shape (2, 3) has 6 elements, not one; index or reduce it first");
  EXPECT_THROW(zeros({0}).item(), ShapeError);
}

TEST(Tensor, HostAccessIsTyped) {
  const Tensor x = ones({2});
  EXPECT_EQ(x.data<float>()[1], 1);
  EXPECT_EQ(message_of([&] { x.data<double>(); }),
            "[data] the tensor is f32, not f64; cast with x.to(f64)");
  EXPECT_THROW(x.to_vector<int64_t>(), DTypeError);
}

TEST(Tensor, ToReturnsTheSameTensorWhenNothingChanges) {
  const Tensor x = ones({2, 3});
  EXPECT_TRUE(x.to(Device::cpu()).is_same(x));
  EXPECT_TRUE(x.to(f32).is_same(x));
  EXPECT_TRUE(x.to(MemoryFormat::nchw).is_same(x));
  EXPECT_TRUE(x.contiguous().is_same(x));
  EXPECT_FALSE(x.to(f64).is_same(x));
  EXPECT_FALSE(x.t().contiguous().is_same(x));
  EXPECT_THROW(x.to(Device(DeviceKind::cpu, 1)), DeviceError);
}

TEST(Tensor, CopyToAlwaysCopies) {
  const Tensor x = ones({2});
  Tensor y = x.copy_to(Device::cpu()), z = x.clone();
  EXPECT_NE(y.storage(), x.storage());
  EXPECT_NE(z.storage(), x.storage());
  y.fill_(5);
  z.fill_(6);
  EXPECT_EQ(values(x), (std::vector<float>{1, 1}));
}

TEST(Tensor, Casts) {
  const Tensor x = Tensor::from<float>({-1.5f, 300, 2.7f, 0}, {4});
  EXPECT_EQ(x.to(i64).to_vector<int64_t>(), (std::vector<int64_t>{-1, 300, 2, 0}));
  EXPECT_EQ(x.to(u8).to_vector<uint8_t>(), (std::vector<uint8_t>{255, 44, 2, 0}));
  EXPECT_EQ(x.to(bool_).to(f32).to_vector<float>(), (std::vector<float>{1, 1, 1, 0}));
  EXPECT_EQ(x.to(f16).to(f64).to_vector<double>()[2], 2.69921875);
}

/// Casts by vectors, with a tail, of dense numbers and of every third one.
TEST(Tensor, CastsOfEdges) {
  constexpr float kBig = 9223372036854775808.0f;  // 2^63
  const std::vector<float> edges = {
      0.0f,   -0.0f,          0.9f,      -0.9f,        255.5f, -256.0f, 2e9f,  -2e9f,
      3e9f,   0x1.fffffep30f, -0x1p31f,  4.2949673e9f, 1e12f,  kBig,    -kBig, 1e30f,
      -1e30f, INFINITY,       -INFINITY, NAN,          1e-45f, 123.0f,  -1.0f};
  for (const int64_t step : {1, 3}) {
    std::vector<float> spread(edges.size() * static_cast<size_t>(step), 7.0f);
    for (size_t i = 0; i < edges.size(); ++i) spread[i * static_cast<size_t>(step)] = edges[i];
    const int64_t n = static_cast<int64_t>(spread.size());
    const Tensor x = Tensor::from(spread, {n}).slice(0, 0, n, step);
    const auto u = x.to(u8).to_vector<uint8_t>();
    const auto i = x.to(i8).to_vector<int8_t>();
    const auto b = x.to(bool_).to_vector<bool>();
    for (size_t k = 0; k < edges.size(); ++k) {
      const float v = edges[k];
      const int64_t whole = v >= kBig    ? std::numeric_limits<int64_t>::max()
                            : v <= -kBig ? std::numeric_limits<int64_t>::min()
                            : v == v     ? static_cast<int64_t>(v)
                                         : 0;
      EXPECT_EQ(u[k], static_cast<uint8_t>(whole)) << v;
      EXPECT_EQ(i[k], static_cast<int8_t>(whole)) << v;
      EXPECT_EQ(b[k], v != 0) << v;
    }
  }
}

TEST(Tensor, CastsKeepTheOrderOfDenseAxes) {
  const Tensor x = arange(24, {.dtype = f32}).view({2, 3, 4});
  for (const DType dtype : {f64, f16, bf16, i64, u8}) {
    const Tensor turned = x.permute({2, 0, 1}), y = turned.to(dtype);
    EXPECT_EQ(y.strides(), turned.strides());
    EXPECT_EQ(values(y.to(f32)), values(turned));
    const Tensor part = x.slice(2, 0, 4, 2);
    EXPECT_TRUE(part.to(dtype).is_contiguous());
    EXPECT_EQ(values(part.to(dtype).to(f32)), values(part));
    EXPECT_TRUE(x.slice(0, 0, 1).expand({5, 3, 4}).to(dtype).is_contiguous());
  }
}

TEST(Tensor, MemoryFormatsKeepTheMeaningOfAnIndex) {
  const Tensor x = arange(2 * 3 * 4 * 5, {.dtype = f32}).view({2, 3, 4, 5});
  for (MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc, MemoryFormat::chwn}) {
    const Tensor y = x.to(format);
    EXPECT_TRUE(y.is_contiguous(format));
    EXPECT_EQ(y.shape(), x.shape());
    EXPECT_EQ(values(y), values(x));
    EXPECT_EQ(y[1][2][3][4].item(), 119);
    EXPECT_TRUE(y.to(format).is_same(y));
    EXPECT_TRUE(y.clone().is_contiguous(format));
    EXPECT_TRUE((y + y).is_contiguous(format));
  }
  EXPECT_EQ(x.to(MemoryFormat::nhwc).strides(), (Strides{60, 1, 15, 3}));
  EXPECT_EQ(x.to(MemoryFormat::chwn).strides(), (Strides{1, 40, 10, 2}));
  EXPECT_THROW(zeros({2, 3}).to(MemoryFormat::nhwc), ShapeError);
  EXPECT_TRUE(zeros({2, 0, 4, 5}).to(MemoryFormat::chwn).is_contiguous());
}

TEST(Tensor, EmptyTensorsAreContiguous) {
  EXPECT_TRUE(zeros({3, 0}).t().is_contiguous());
  EXPECT_TRUE(zeros({4, 4}).slice(1, 0, 2).slice(0, 1, 1).is_contiguous());
}

TEST(Tensor, CopyBroadcastsAndCasts) {
  Tensor x = zeros({2, 3}, {.dtype = i64});
  x.copy_(Tensor::from<double>({1.9, 2, 3}, {3}));
  EXPECT_EQ(x.to_vector<int64_t>(), (std::vector<int64_t>{1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(message_of([&] { x.copy_(zeros({2})); }).substr(0, 7), "[copy_]");
  EXPECT_THROW(x.copy_(zeros({4, 2, 3})), ShapeError);
  EXPECT_THROW(x.copy_(Tensor()), ValueError);
}

TEST(Tensor, CopyBetweenOverlappingViews) {
  for (int64_t n : {10, 100000}) {
    const Tensor x = arange(n, {.dtype = f32});
    x.slice(0, 1, n).copy_(x.slice(0, 0, n - 1));
    const std::vector<float> v = values(x);
    ASSERT_EQ(v[0], 0);
    for (int64_t i = 1; i < n; ++i) ASSERT_EQ(v[static_cast<size_t>(i)], static_cast<float>(i - 1));
  }
  Tensor m = Tensor::from<float>({1, 2, 3, 4}, {2, 2});
  m.copy_(m.t());
  EXPECT_EQ(values(m), (std::vector<float>{1, 3, 2, 4}));
}

TEST(Tensor, WritesIntoExpandedMemoryAreErrors) {
  Tensor x = zeros({3}).expand({2, 3});
  EXPECT_THROW(x.add_(ones({2, 3})), ValueError);
  EXPECT_THROW(x.mul_(2), ValueError);
  EXPECT_THROW(x.copy_(ones({2, 3})), ValueError);
  EXPECT_NO_THROW(zeros({1, 3}).expand({1, 3}).add_(ones({1, 3})));
}

TEST(Tensor, SetDataKeepsTheIdentity) {
  Tensor x = ones({2}, {.requires_grad = true});
  const Tensor same = x;
  x.set_data(zeros({3}, {.dtype = f64}));
  EXPECT_EQ(same.shape(), (Shape{3}));
  EXPECT_EQ(same.dtype(), f64);
  EXPECT_TRUE(same.requires_grad());
}

TEST(Tensor, WrapsForeignMemory) {
  float data[4] = {1, 2, 3, 4};
  bool released = false;
  {
    const Ref<Storage> storage =
        Storage::wrap(data, sizeof data, Device::cpu(), [&] { released = true; });
    Ref<TensorImpl> impl(new TensorImpl);
    impl->shape = {4};
    impl->strides = {1};
    impl->storage = storage;
    EXPECT_EQ((Tensor(impl) * 2).to_vector<float>(), (std::vector<float>{2, 4, 6, 8}));
    EXPECT_FALSE(released);
  }
  EXPECT_TRUE(released);
}

TEST(Tensor, Printing) {
  std::ostringstream out;
  out << Tensor::from<float>({1, 2.5f, 3, 4}, {2, 2}) << ' ' << zeros({2, 0}) << ' '
      << zeros({1000}, {.dtype = i64}) << ' ' << Tensor::from<bool>({true}, {}) << ' ' << Tensor();
  EXPECT_EQ(out.str(),
            "Tensor((2, 2) f32 on cpu: [[1, 2.5], [3, 4]]) Tensor((2, 0) f32 on cpu: [[], []]) "
            "Tensor((1000) i64 on cpu) Tensor(() bool on cpu: true) Tensor(undefined)");
  out.str("");
  out << Shape{1, 2} << ' ' << f16 << ' ' << Device("cuda:1") << ' '
      << Tensor::from<int64_t>({INT64_MAX}, {1});
  EXPECT_EQ(out.str(), "(1, 2) f16 cuda:1 Tensor((1) i64 on cpu: [9223372036854775807])");
}

}  // namespace
}  // namespace brim
