// Contract cases of what writes into parts, of windows, and of blocks of pixels.
#include <brim/ops/conv.h>
#include <brim/ops/create.h>
#include <brim/ops/matmul.h>
#include <brim/ops/shape.h>

#include "contract/contract.h"
#include "contract/harness.h"
#include "contract/positions.h"
#include "message_of.h"

namespace brim::contract {
namespace {

CONTRACT(slice_scatter) {
  return {.op = [](Tensor x, Tensor s) { return slice_scatter(x, s, 1, -4, 6, 2); },
          .inputs = {{{.shape = {2, 7}}, {.shape = {2, 2}}},
                     {{.shape = {3, 5, 2}}, {.shape = {3, 2, 2}}},
                     {{.shape = {2, 0}}, {.shape = {2, 0}}}},
          .reference =
              [](Tensor x, Tensor s) {
                const Reader rx(x), rs(s);
                const int64_t start = std::max<int64_t>(0, x.size(1) - 4), stop = 6;
                return build(x.shape(), [&](Shape p) {
                  const int64_t at = p[1] - start;
                  if (at < 0 || at % 2 != 0 || p[1] >= stop) return rx(p);
                  p[1] = at / 2;
                  return rs(p);
                });
              },
          .dtypes = kAllDTypes};
}

CONTRACT(select_scatter) {
  return {.op = [](Tensor x, Tensor s) { return select_scatter(x, s, 1, -2); },
          .inputs = {{{.shape = {2, 3}}, {.shape = {2}}},
                     {{.shape = {3, 2, 4}}, {.shape = {3, 4}}},
                     {{.shape = {0, 2}}, {.shape = {0}}}},
          .reference =
              [](Tensor x, Tensor s) {
                const Reader rx(x), rs(s);
                return build(x.shape(), [&](Shape p) {
                  if (p[1] != x.size(1) - 2) return rx(p);
                  p.erase(1);
                  return rs(p);
                });
              },
          .dtypes = kAllDTypes};
}

TEST(SliceScatter, ErrorsNameThePart) {
  const Tensor x = zeros({3, 4});
  EXPECT_EQ(tests::message_of([&] {
              slice_scatter(x, zeros({3, 3}), 1, 0, 2);
            }),
            "[slice_scatter] source of shape (3, 3) for a part of shape (3, 2); expand or reshape "
            "it");
  EXPECT_THROW(select_scatter(x, zeros({4}, {.dtype = f64}), 0, 1), DTypeError);
  EXPECT_THROW(select_scatter(x, zeros({4}), 0, 3), IndexError);
}

/// Windows along `axis`, by the definition.
Tensor windows_of(const Tensor& x, int axis, int64_t size, int64_t step) {
  const Reader r(x);
  Shape to = with_size(x.shape(), axis, (x.size(axis) - size) / step + 1);
  to.push_back(size);
  return build(to, [&](Shape p) {
    p[axis] = p[axis] * step + p.back();
    p.erase(p.rank() - 1);
    return r(p);
  });
}

CONTRACT(unfold) {
  return {.op = [](Tensor x) { return unfold(x, -1, 3, 2); },
          .inputs = {{{.shape = {8}}},
                     {{.shape = {2, 3}}},
                     {{.shape = {2, 2, 9}}},
                     {{.shape = {0, 4}}}},
          .reference = [](Tensor x) { return windows_of(x, x.rank() - 1, 3, 2); },
          .dtypes = kAllDTypes};
}

// Each element is in several windows, or in none.
CONTRACT(unfold_overlapping) {
  return {
      .op =
          [](Tensor x) {
            return Tensors{unfold(x, 0, 4, 1), unfold(x, 0, 2, 3), unfold(x, 1, 0, 1)};
          },
      .inputs = {{{.shape = {7, 2}}}, {{.shape = {4, 3, 2}}}},
      .reference =
          [](Tensor x) {
            return Tensors{windows_of(x, 0, 4, 1), windows_of(x, 0, 2, 3), windows_of(x, 1, 0, 1)};
          },
      .dtypes = kSummedDTypes};
}

TEST(Unfold, ErrorsSayWhatFits) {
  const Tensor x = zeros({2, 3});
  EXPECT_EQ(tests::message_of([&] { unfold(x, 1, 4, 1); }),
            "[unfold] windows of 4 elements, 1 apart, along axis 1 of shape (2, 3); size must be 0 "
            "to 3, step 1 or more");
  EXPECT_THROW(unfold(x, 1, 2, 0), ValueError);
  EXPECT_THROW(unfold(x, 2, 1, 1), IndexError);
  EXPECT_EQ(unfold(x, 1, 2, 1).storage(), x.storage());
}

Tensor columns_of(const Tensor& x, Pair kernel, const Im2colOptions& o) {
  const int64_t n = x.size(0), c = x.size(1), h = x.size(2), w = x.size(3);
  const int64_t oh = (h + 2 * o.padding.h - o.dilation.h * (kernel.h - 1) - 1) / o.stride.h + 1;
  const int64_t ow = (w + 2 * o.padding.w - o.dilation.w * (kernel.w - 1) - 1) / o.stride.w + 1;
  const Reader r(x);
  return build({n, c * kernel.h * kernel.w, oh * ow}, [&](const Shape& p) {
    const int64_t ky = p[1] / kernel.w % kernel.h, kx = p[1] % kernel.w;
    const int64_t iy = p[2] / ow * o.stride.h - o.padding.h + ky * o.dilation.h;
    const int64_t ix = p[2] % ow * o.stride.w - o.padding.w + kx * o.dilation.w;
    const bool inside = iy >= 0 && ix >= 0 && iy < h && ix < w;
    return inside ? r({p[0], p[1] / (kernel.h * kernel.w), iy, ix}) : 0.0;
  });
}

Case columns(Pair kernel, const Im2colOptions& o, std::vector<std::vector<Input>> inputs) {
  return {.op = [=](Tensor x) { return im2col(x, kernel, o); },
          .inputs = std::move(inputs),
          .reference = [=](Tensor x) { return columns_of(x, kernel, o); },
          .dtypes = kNumbers};
}

CONTRACT(im2col) {
  return columns({3, 2}, {},
                 {{{.shape = {2, 3, 5, 4}}}, {{.shape = {1, 1, 3, 2}}}, {{.shape = {0, 2, 4, 4}}}});
}
CONTRACT(im2col_padded) {
  return columns(3, {.stride = {2, 1}, .padding = {1, 2}, .dilation = {1, 2}},
                 {{{.shape = {2, 2, 5, 6}}}, {{.shape = {1, 1, 1, 1}}}});
}

TEST(Im2col, MultipliesToAConvolution) {
  const Tensor x = randn({2, 3, 6, 5}), w = randn({4, 3, 3, 2});
  const Tensor product = matmul(w.reshape({4, -1}), im2col(x, {3, 2}, {.padding = 1}));
  const Tensor want = conv2d(x, w, {}, {.padding = 1});
  expect_near(product.reshape(want.shape()), want, 1e-5, "product");
}

TEST(Im2col, ErrorsSayWhatDoesNotFit) {
  EXPECT_THROW(im2col(zeros({3, 4, 4}), 2), ShapeError);
  EXPECT_THROW(im2col(zeros({1, 3, 4, 4}), 5), ShapeError);
  EXPECT_THROW(im2col(zeros({1, 3, 4, 4}), 0), ValueError);
  EXPECT_THROW(im2col(zeros({1, 3, 4, 4}), 2, {.padding = -1}), ValueError);
}

CONTRACT(pixel_shuffle) {
  return {.op = [](Tensor x) { return pixel_shuffle(x, 2); },
          .inputs = {{{.shape = {4, 2, 3}}}, {{.shape = {2, 8, 1, 3}}}, {{.shape = {0, 4, 2, 2}}}},
          .reference =
              [](Tensor x) {
                const Reader r(x);
                Shape to = x.shape();
                const int c = x.rank() - 3, h = c + 1, w = c + 2;
                to[c] /= 4, to[h] *= 2, to[w] *= 2;
                return build(to, [&](Shape p) {
                  p[c] = p[c] * 4 + p[h] % 2 * 2 + p[w] % 2;
                  p[h] /= 2, p[w] /= 2;
                  return r(p);
                });
              },
          .dtypes = kAllDTypes};
}

CONTRACT(pixel_unshuffle) {
  return {.op = [](Tensor x) { return pixel_unshuffle(x, 3); },
          .inputs = {{{.shape = {1, 3, 6}}}, {{.shape = {2, 2, 6, 3}}}, {{.shape = {2, 0, 3, 3}}}},
          .reference =
              [](Tensor x) {
                const Reader r(x);
                Shape to = x.shape();
                const int c = x.rank() - 3, h = c + 1, w = c + 2;
                to[c] *= 9, to[h] /= 3, to[w] /= 3;
                return build(to, [&](Shape p) {
                  p[h] = p[h] * 3 + p[c] % 9 / 3;
                  p[w] = p[w] * 3 + p[c] % 3;
                  p[c] /= 9;
                  return r(p);
                });
              },
          .dtypes = kAllDTypes};
}

TEST(PixelShuffle, ErrorsSayWhatDoesNotDivide) {
  EXPECT_THROW(pixel_shuffle(zeros({6, 2, 2}), 2), ShapeError);
  EXPECT_THROW(pixel_shuffle(zeros({4, 2}), 2), ShapeError);
  EXPECT_THROW(pixel_shuffle(zeros({4, 2, 2}), 0), ValueError);
  EXPECT_THROW(pixel_unshuffle(zeros({1, 3, 4}), 2), ShapeError);
}

}  // namespace
}  // namespace brim::contract
