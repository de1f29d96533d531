// Contract cases of convolution, by the definition.
#include <brim/autograd/autograd.h>
#include <brim/core/allocator.h>
#include <brim/ops/conv.h>
#include <brim/ops/create.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>

#include <cmath>

#include "contract/contract.h"
#include "message_of.h"
#include "threads.h"

namespace brim::contract {
namespace {

Tensor reference(const Tensor& x, const Tensor& w, const std::vector<double>& bias,
                 const Conv2dOptions& o) {
  const int64_t n = x.size(0), h = x.size(2), wd = x.size(3), out = w.size(0);
  const int64_t c = w.size(1), kh = w.size(2), kw = w.size(3), per_group = out / o.groups;
  const int64_t oh = (h + 2 * o.padding.h - o.dilation.h * (kh - 1) - 1) / o.stride.h + 1;
  const int64_t ow = (wd + 2 * o.padding.w - o.dilation.w * (kw - 1) - 1) / o.stride.w + 1;
  const std::vector<double> vx = values(x), vw = values(w);
  std::vector<double> y(static_cast<size_t>(n * out * oh * ow));
  size_t at = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t f = 0; f < out; ++f)
      for (int64_t r = 0; r < oh; ++r)
        for (int64_t s = 0; s < ow; ++s, ++at) {
          if (!bias.empty()) y[at] = bias[static_cast<size_t>(f)];
          for (int64_t k = 0; k < c * kh * kw; ++k) {
            const int64_t ky = k / kw % kh, kx = k % kw, ch = f / per_group * c + k / (kh * kw);
            const int64_t iy = r * o.stride.h - o.padding.h + ky * o.dilation.h;
            const int64_t ix = s * o.stride.w - o.padding.w + kx * o.dilation.w;
            if (iy < 0 || ix < 0 || iy >= h || ix >= wd) continue;
            y[at] += vx[static_cast<size_t>(((i * x.size(1) + ch) * h + iy) * wd + ix)] *
                     vw[static_cast<size_t>(f * c * kh * kw + k)];
          }
        }
  return array(y, {n, out, oh, ow});
}

Case conv(const Conv2dOptions& o, std::vector<std::vector<Input>> inputs) {
  return {.op = [o](Tensor x, Tensor w, Tensor b) { return conv2d(x, w, b, o); },
          .inputs = std::move(inputs),
          .reference = [o](Tensor x, Tensor w, Tensor b) { return reference(x, w, values(b), o); },
          .tolerance = 1e-4};
}

CONTRACT(conv2d) {
  return conv({}, {{{.shape = {2, 3, 7, 6}}, {.shape = {4, 3, 3, 2}}, {.shape = {4}}},
                   {{.shape = {1, 1, 1, 1}}, {.shape = {1, 1, 1, 1}}, {.shape = {1}}},
                   {{.shape = {3, 2, 5, 9}}, {.shape = {9, 2, 5, 1}}, {.shape = {9}}},
                   {{.shape = {0, 3, 7, 6}}, {.shape = {4, 3, 3, 2}}, {.shape = {4}}}});
}
CONTRACT(conv2d_padded) {
  return conv({.padding = {1, 2}},
              {{{.shape = {2, 2, 5, 4}}, {.shape = {3, 2, 3, 3}}, {.shape = {3}}},
               {{.shape = {1, 2, 2, 1}}, {.shape = {2, 2, 1, 1}}, {.shape = {2}}}});
}
CONTRACT(conv2d_strided) {
  return conv({.stride = {2, 3}, .padding = 1},
              {{{.shape = {2, 2, 8, 7}}, {.shape = {3, 2, 3, 2}}, {.shape = {3}}},
               {{.shape = {1, 2, 7, 9}}, {.shape = {2, 2, 1, 1}}, {.shape = {2}}}});
}
CONTRACT(conv2d_dilated) {
  return conv({.stride = 2, .padding = 2, .dilation = {2, 3}},
              {{{.shape = {1, 2, 9, 10}}, {.shape = {3, 2, 3, 3}}, {.shape = {3}}}});
}
CONTRACT(conv2d_grouped) {
  return conv({.padding = 1, .groups = 2},
              {{{.shape = {2, 4, 4, 5}}, {.shape = {6, 2, 3, 3}}, {.shape = {6}}}});
}
CONTRACT(conv2d_depthwise) {
  return conv({.stride = 2, .padding = 1, .groups = 3},
              {{{.shape = {2, 3, 6, 5}}, {.shape = {3, 1, 3, 3}}, {.shape = {3}}}});
}

CONTRACT(conv2d_without_bias) {
  return {.op = [](Tensor x, Tensor w) { return conv2d(x, w); },
          .inputs = {{{.shape = {5, 3, 12, 12}}, {.shape = {10, 3, 5, 5}}}},
          .reference = [](Tensor x, Tensor w) { return reference(x, w, {}, {}); },
          .tolerance = 1e-4,
          .second_order = false};
}

TEST(Conv2d, NonContiguousFormatsGiveTheSame) {
  const Tensor x = randn({2, 3, 6, 5}), w = randn({4, 3, 3, 3});
  const std::vector<float> y = conv2d(x, w).to_vector<float>();
  EXPECT_EQ(conv2d(x.to(MemoryFormat::nhwc), w.to(MemoryFormat::nhwc)).to_vector<float>(), y);
  EXPECT_EQ(conv2d(x.to(MemoryFormat::chwn), w).to_vector<float>(), y);
}

// Weights may be nhwc, whatever the input is, and give their format to their gradient.
TEST(Conv2d, WeightsOfAnyFormatGiveTheSame) {
  for (const Conv2dOptions& o :
       {Conv2dOptions{.padding = 1}, Conv2dOptions{.stride = {2, 1}, .groups = 2}}) {
    const Tensor x = randn({2, 4, 7, 6}), w = randn({6, 4 / o.groups, 3, 2});
    const auto run = [&](const Tensor& input, const Tensor& weight, Device device, DType dtype) {
      const Tensor a = input.to(device).to(dtype).clone().set_requires_grad();
      const Tensor b = weight.to(device).to(dtype).clone().set_requires_grad();
      EXPECT_EQ(b.is_contiguous(), weight.is_contiguous());
      const Tensor y = conv2d(a, b, {}, o);
      sum(square(y)).backward();
      EXPECT_EQ(b.grad().is_contiguous(), weight.is_contiguous());
      std::vector<std::vector<double>> all;
      for (const Tensor& t : {y.detach(), a.grad(), b.grad()}) all.push_back(values(t));
      return all;
    };
    for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::cuda, DeviceKind::sim})
      for (const DType dtype : {f32, f64, f16, bf16})
        for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc}) {
          if (Device::count(kind) == 0) continue;
          const Device device(kind, 0);
          const auto want = run(x.to(format), w, Device::cpu(), f64);
          const auto got = run(x.to(format), w.to(MemoryFormat::nhwc), device, dtype);
          const double tolerance = size_of(dtype) == 2 ? 0.05 : 1e-4;
          for (size_t k = 0; k < want.size(); ++k) {
            ASSERT_EQ(got[k].size(), want[k].size());
            for (size_t i = 0; i < want[k].size(); ++i)
              EXPECT_NEAR(got[k][i], want[k][i], tolerance * (10 + std::abs(want[k][i])))
                  << device.str() << " " << name(dtype) << ", result " << k << " at " << i;
          }
        }
  }
}

TEST(Conv2d, OutOfMemoryInAnyPlaceIsThrown) {
  const tests::Threads guard(2);
  const Tensor x = randn({16, 16, 32, 32});
  Tensor w = randn({16, 16, 3, 3}).set_requires_grad();
  const Conv2dOptions options{.padding = 1};
  const Tensor y = conv2d(x, w, {}, options), dy = ones(y.shape());
  Allocator& memory = Allocator::of(Device::cpu());
  const auto with_room = [&](int64_t bytes, const auto& f) {
    memory.release_cached();
    std::vector<Tensor> fill;  // what lies free beside tensors
    memory.set_limit(memory.stats().live + memory.stats().cached);
    for (int64_t size = 1 << 24; size >= 8192; size /= 2) try {
        while (true) fill.push_back(Tensor::empty({size}, u8, Device::cpu()));
      } catch (const OutOfMemory&) {
      }
    memory.set_limit(memory.stats().live + bytes);
    EXPECT_THROW(f(), OutOfMemory) << bytes;
    memory.set_limit(0);
  };
  // Enough for the result, then for ever more of the scratch memory.
  for (int64_t scratch : {0, 20'000, 100'000, 150'000})
    with_room(y.numel() * 4 + scratch, [&] {
      const NoGrad none;
      conv2d(x, w, {}, options);
    });
  for (int64_t scratch : {0, 40'000, 150'000, 400'000})
    with_room(w.numel() * 4 + scratch, [&] { y.backward(dy, {.retain_graph = true}); });
  y.backward(dy);
  EXPECT_TRUE(w.grad().defined());
}

TEST(Conv2d, ErrorsSayWhatDoesNotFit) {
  const Tensor x = zeros({1, 3, 4, 4}), w = zeros({2, 3, 5, 5});
  const auto message = [&](const Tensor& a, const Tensor& b, const Conv2dOptions& o) {
    return tests::message_of([&] { conv2d(a, b, {}, o); });
  };
  EXPECT_NE(message(x, w, {}).find("spans 5 elements in height, but x has 4"), std::string::npos);
  EXPECT_NE(message(x, zeros({2, 4, 3, 3}), {}).find("x (1, 3, 4, 4) has 3 channels"),
            std::string::npos);
  EXPECT_NE(message(x, w, {.stride = 0}).find("stride 0"), std::string::npos);
  EXPECT_NE(message(x, w, {.groups = 2}).find("2 groups"), std::string::npos);
  EXPECT_NE(message(zeros({3, 4, 4}), w, {}).find("x (N, C, H, W)"), std::string::npos);
}

}  // namespace
}  // namespace brim::contract
