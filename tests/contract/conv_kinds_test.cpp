// Contract cases of conv1d and conv_transpose2d, by their definitions.
#include <brim/ops/conv.h>
#include <brim/ops/create.h>
#include <brim/ops/matmul.h>

#include "contract/contract.h"
#include "contract/positions.h"
#include "distance.h"
#include "message_of.h"

namespace brim::contract {
namespace {

Tensor sequence_reference(const Tensor& x, const Tensor& w, const std::vector<double>& bias,
                          const Conv1dOptions& o) {
  const int64_t kernel = w.size(2), per_group = w.size(0) / o.groups, in = w.size(1);
  const int64_t length = (x.size(2) + 2 * o.padding - o.dilation * (kernel - 1) - 1) / o.stride + 1;
  const Reader rx(x), rw(w);
  return build({x.size(0), w.size(0), length}, [&](const Shape& p) {
    double y = bias.at(static_cast<size_t>(p[1]));
    for (int64_t c = 0; c < in; ++c)
      for (int64_t k = 0; k < kernel; ++k) {
        const int64_t at = p[2] * o.stride - o.padding + k * o.dilation;
        if (at >= 0 && at < x.size(2))
          y += rx({p[0], p[1] / per_group * in + c, at}) * rw({p[1], c, k});
      }
    return y;
  });
}

Case sequence(const Conv1dOptions& o, std::vector<std::vector<Input>> inputs) {
  return {.op = [o](Tensor x, Tensor w, Tensor b) { return conv1d(x, w, b, o); },
          .inputs = std::move(inputs),
          .reference = [o](Tensor x, Tensor w,
                           Tensor b) { return sequence_reference(x, w, values(b), o); },
          .tolerance = 1e-4};
}

CONTRACT(conv1d) {
  return sequence({}, {{{.shape = {2, 3, 9}}, {.shape = {4, 3, 3}}, {.shape = {4}}},
                       {{.shape = {1, 1, 1}}, {.shape = {1, 1, 1}}, {.shape = {1}}},
                       {{.shape = {0, 2, 5}}, {.shape = {3, 2, 2}}, {.shape = {3}}}});
}
CONTRACT(conv1d_strided) {
  return sequence({.stride = 2, .padding = 2, .dilation = 3},
                  {{{.shape = {2, 2, 10}}, {.shape = {3, 2, 3}}, {.shape = {3}}}});
}
CONTRACT(conv1d_grouped) {
  return sequence({.padding = 1, .groups = 2},
                  {{{.shape = {2, 4, 5}}, {.shape = {6, 2, 3}}, {.shape = {6}}}});
}

/// Each pixel of x adds the weight, times itself, to a window of the result.
Tensor transposed_reference(const Tensor& x, const Tensor& w, const std::vector<double>& bias,
                            const ConvTranspose2dOptions& o) {
  const int64_t per_group = w.size(1), in = x.size(1) / o.groups;
  const auto size = [](int64_t n, int64_t k, int64_t s, int64_t p, int64_t more, int64_t d) {
    return (n - 1) * s - 2 * p + d * (k - 1) + more + 1;
  };
  const Pair s = o.stride, p = o.padding, d = o.dilation, more = o.output_padding;
  const int64_t oh = size(x.size(2), w.size(2), s.h, p.h, more.h, d.h);
  const int64_t ow = size(x.size(3), w.size(3), s.w, p.w, more.w, d.w);
  const Shape to = {x.size(0), per_group * o.groups, oh, ow};
  const Reader rx(x), rw(w);
  std::vector<double> y;
  for_each_position(to, [&](const Shape& at) { y.push_back(bias.at(static_cast<size_t>(at[1]))); });
  for_each_position(x.shape(), [&](const Shape& at) {
    for_each_position({per_group, w.size(2), w.size(3)}, [&](const Shape& k) {
      const int64_t row = at[2] * s.h - p.h + k[1] * d.h, column = at[3] * s.w - p.w + k[2] * d.w;
      if (row < 0 || column < 0 || row >= oh || column >= ow) return;
      const int64_t channel = at[1] / in * per_group + k[0];
      y[static_cast<size_t>(((at[0] * to[1] + channel) * oh + row) * ow + column)] +=
          rx(at) * rw({at[1], k[0], k[1], k[2]});
    });
  });
  return array(y, to);
}

Case transposed(const ConvTranspose2dOptions& o, std::vector<std::vector<Input>> inputs) {
  return {.op = [o](Tensor x, Tensor w, Tensor b) { return conv_transpose2d(x, w, b, o); },
          .inputs = std::move(inputs),
          .reference = [o](Tensor x, Tensor w,
                           Tensor b) { return transposed_reference(x, w, values(b), o); },
          .tolerance = 1e-4};
}

CONTRACT(conv_transpose2d) {
  return transposed({}, {{{.shape = {2, 3, 4, 5}}, {.shape = {3, 4, 3, 2}}, {.shape = {4}}},
                         {{.shape = {1, 1, 1, 1}}, {.shape = {1, 1, 1, 1}}, {.shape = {1}}},
                         {{.shape = {0, 2, 3, 3}}, {.shape = {2, 3, 2, 2}}, {.shape = {3}}}});
}
CONTRACT(conv_transpose2d_strided) {
  return transposed({.stride = {2, 3}, .padding = {1, 0}, .output_padding = {1, 2}},
                    {{{.shape = {2, 2, 3, 4}}, {.shape = {2, 3, 4, 3}}, {.shape = {3}}}});
}
CONTRACT(conv_transpose2d_dilated) {
  return transposed({.padding = {2, 1}, .dilation = {2, 3}},
                    {{{.shape = {1, 2, 4, 3}}, {.shape = {2, 3, 3, 2}}, {.shape = {3}}}});
}
CONTRACT(conv_transpose2d_grouped) {
  return transposed({.stride = 2, .padding = 1, .groups = 2},
                    {{{.shape = {2, 4, 3, 3}}, {.shape = {4, 3, 4, 4}}, {.shape = {6}}}});
}
CONTRACT(conv_transpose2d_to_blocks) {  // strides as wide as the kernel
  return transposed({.stride = 2},
                    {{{.shape = {2, 3, 4, 5}}, {.shape = {3, 4, 2, 2}}, {.shape = {4}}}});
}
CONTRACT(conv_transpose2d_to_blocks_and_a_rest) {
  return transposed({.stride = {2, 3}, .output_padding = {1, 2}},
                    {{{.shape = {2, 3, 4, 5}}, {.shape = {3, 4, 2, 3}}, {.shape = {4}}}});
}

TEST(ConvKinds, BlocksOfManyPixelsInBothFormats) {
  manual_seed(1);
  const Tensor x = randn({2, 20, 60, 50}), w = randn({20, 24, 2, 2});
  const Tensor want = einsum("noij,ocab->nciajb", {x, w}).reshape({2, 24, 120, 100});
  for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc}) {
    const Tensor y = conv_transpose2d(x.to(format), w, {}, {.stride = 2});
    EXPECT_TRUE(y.is_contiguous(format));
    EXPECT_LT(tests::distance(y, want), 1e-4);
  }
}

TEST(ConvKinds, WithoutBiasAndInNhwc) {
  const Tensor x = randn({2, 3, 4, 5}), w = randn({3, 4, 3, 2});
  const Tensor want = conv_transpose2d(x, w, zeros({4}), {.stride = 2});
  EXPECT_EQ(conv_transpose2d(x, w, {}, {.stride = 2}).to_vector<float>(), want.to_vector<float>());
  const Tensor nhwc = conv_transpose2d(x.to(MemoryFormat::nhwc), w, {}, {.stride = 2});
  for (size_t i = 0; i < static_cast<size_t>(want.numel()); ++i)
    EXPECT_NEAR(nhwc.to_vector<float>()[i], want.to_vector<float>()[i], 1e-5);
  const Tensor s = randn({2, 3, 9}), v = randn({4, 3, 3});
  EXPECT_EQ(conv1d(s, v).to_vector<float>(), conv1d(s, v, zeros({4})).to_vector<float>());
}

TEST(ConvKinds, ErrorsSayWhatDoesNotFit) {
  using tests::message_of;
  const Tensor s = zeros({1, 3, 4}), x = zeros({1, 3, 4, 4});
  EXPECT_EQ(message_of([&] {
              conv1d(s, zeros({2, 3, 5}));
            }),
            "[conv1d] x (1, 3, 4) with weight (2, 3, 5): the kernel spans 5 elements in length, "
            "but x has 4 with its padding; use a smaller kernel or more padding");
  EXPECT_EQ(message_of([&] {
              conv1d(s, zeros({2, 4, 3}));
            }),
            "[conv1d] x (1, 3, 4) has 3 channels, but weight (2, 4, 3) with 1 group(s) expects 4");
  EXPECT_NE(message_of([&] {
              conv1d(x, zeros({2, 3, 3}));
            }).find("x (N, C, L)"),
            std::string::npos);
  EXPECT_THROW(conv1d(s, zeros({2, 3, 3}), zeros({3})), ShapeError);
  EXPECT_THROW(conv1d(s, zeros({2, 3, 3}), {}, {.stride = 0}), ValueError);
  EXPECT_NE(message_of([&] {
              conv_transpose2d(x, zeros({4, 3, 3, 3}));
            }).find("has 3 channels"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              conv_transpose2d(x, zeros({3, 2, 3, 3}), zeros({3}));
            }).find("expected (2)"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              conv_transpose2d(x, zeros({3, 2, 3, 3}), {}, {.output_padding = 1});
            }).find("output_padding 1 must be below the stride 1"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              conv_transpose2d(x, zeros({3, 2, 1, 1}), {}, {.padding = 2});
            }).find("would have 0 elements in height"),
            std::string::npos);
}

}  // namespace
}  // namespace brim::contract
