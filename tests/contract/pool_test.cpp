// Contract cases of pooling, by the definition.
#include <brim/ops/create.h>
#include <brim/ops/pool.h>

#include <cmath>

#include "contract/contract.h"

namespace brim::contract {
namespace {

/// Reduces the elements of each window; padding elements are skipped.
template <class Reduce>
Tensor windows(const Tensor& x, Pair kernel, Pair stride, Pair padding, Pair dilation, int64_t oh,
               int64_t ow, const Reduce& reduce) {
  const int64_t planes = x.size(0) * x.size(1), h = x.size(2), w = x.size(3);
  const std::vector<double> v = values(x);
  std::vector<double> y;
  for (int64_t p = 0; p < planes; ++p)
    for (int64_t r = 0; r < oh; ++r)
      for (int64_t s = 0; s < ow; ++s) {
        std::vector<double> window;
        for (int64_t a = 0; a < kernel.h; ++a)
          for (int64_t b = 0; b < kernel.w; ++b) {
            const int64_t iy = r * stride.h - padding.h + a * dilation.h;
            const int64_t ix = s * stride.w - padding.w + b * dilation.w;
            if (iy >= 0 && ix >= 0 && iy < h && ix < w)
              window.push_back(v[static_cast<size_t>((p * h + iy) * w + ix)]);
          }
        y.push_back(reduce(window));
      }
  return array(y, {x.size(0), x.size(1), oh, ow});
}

CONTRACT(max_pool2d) {
  return {
      .op = [](Tensor x) { return max_pool2d(x, 2); },
      .inputs = {{{.shape = {2, 3, 6, 4}}},
                 {{.shape = {1, 2, 5, 11}}},
                 {{.shape = {1, 1, 4, 38}}},
                 {{.shape = {0, 3, 6, 4}}}},
      .reference =
          [](Tensor x) { return windows(x, 2, 2, 0, 1, x.size(2) / 2, x.size(3) / 2, largest); }};
}
CONTRACT(max_pool2d_overlapping) {
  return {.op =
              [](Tensor x) {
                return max_pool2d(x, {3, 2}, {.stride = {2, 1}, .padding = 1});
              },
          .inputs = {{{.shape = {2, 2, 7, 5}}}},
          .reference =
              [](Tensor x) {
                return windows(x, {3, 2}, {2, 1}, 1, 1, 4, 6, largest);
              }};
}
CONTRACT(max_pool2d_dilated_ceil) {
  return {.op =
              [](Tensor x) {
                return max_pool2d(x, 2, {.stride = 2, .dilation = 2, .ceil_mode = true});
              },
          .inputs = {{{.shape = {1, 2, 6, 6}}}},
          .reference = [](Tensor x) { return windows(x, 2, 2, 0, 2, 3, 3, largest); }};
}
// Indices of the second are more than a byte holds.
CONTRACT(max_pool2d_of_the_largest_byte) {
  return {.op =
              [](Tensor x) {
                return max_pool2d(x, {15, 17}, {.stride = {2, 1}, .padding = {1, 2}});
              },
          .inputs = {{{.shape = {1, 2, 16, 17}}}},
          .reference =
              [](Tensor x) {
                return windows(x, {15, 17}, {2, 1}, {1, 2}, 1, 2, 5, largest);
              }};
}
CONTRACT(max_pool2d_beyond_a_byte) {
  return {.op =
              [](Tensor x) {
                return max_pool2d(x, {16, 16}, {.stride = {1, 2}, .padding = {0, 1}});
              },
          .inputs = {{{.shape = {2, 2, 17, 18}}}},
          .reference =
              [](Tensor x) {
                return windows(x, 16, {1, 2}, {0, 1}, 1, 2, 3, largest);
              }};
}
// More outputs in a row, or channels, than are taken at a time.
CONTRACT(max_pool2d_of_long_rows) {
  return {
      .op = [](Tensor x) { return max_pool2d(x, 3, {.stride = 1, .padding = 1}); },
      .inputs = {{{.shape = {1, 1, 2, 300}}}, {{.shape = {1, 300, 2, 2}}}},
      .reference = [](Tensor x) { return windows(x, 3, 1, 1, 1, x.size(2), x.size(3), largest); }};
}
CONTRACT(avg_pool2d) {
  return {.op =
              [](Tensor x) {
                return avg_pool2d(x, {2, 3});
              },
          .inputs = {{{.shape = {2, 3, 5, 7}}}, {{.shape = {0, 3, 5, 7}}}},
          .reference =
              [](Tensor x) {
                return windows(x, {2, 3}, {2, 3}, 0, 1, 2, 2,
                               [](const auto& w) { return total(w) / 6; });
              }};
}
CONTRACT(avg_pool2d_padded) {
  return {.op = [](Tensor x) { return avg_pool2d(x, 3, {.stride = 2, .padding = 1}); },
          .inputs = {{{.shape = {1, 2, 5, 7}}}},
          .reference =
              [](Tensor x) {
                return windows(x, 3, 2, 1, 1, 3, 4, [](const auto& w) { return total(w) / 9; });
              }};
}
CONTRACT(avg_pool2d_without_padding_in_the_count) {
  return {.op =
              [](Tensor x) {
                return avg_pool2d(x, 3, {.stride = 2, .padding = 1, .count_include_pad = false});
              },
          .inputs = {{{.shape = {1, 2, 5, 7}}}},
          .reference =
              [](Tensor x) {
                return windows(x, 3, 2, 1, 1, 3, 4, [](const auto& w) {
                  return total(w) / static_cast<double>(w.size());
                });
              }};
}
CONTRACT(adaptive_avg_pool2d) {
  return {.op =
              [](Tensor x) {
                return adaptive_avg_pool2d(x, {3, 2});
              },
          .inputs = {{{.shape = {2, 2, 6, 4}}}},
          .reference =
              [](Tensor x) {
                return windows(x, 2, 2, 0, 1, 3, 2, [](const auto& w) { return total(w) / 4; });
              }};
}
CONTRACT(adaptive_avg_pool2d_to_one) {
  return {
      .op = [](Tensor x) { return adaptive_avg_pool2d(x, 1); },
      .inputs = {{{.shape = {2, 2, 5, 3}}}},
      .reference =
          [](Tensor x) {
            return windows(x, {5, 3}, 1, 0, 1, 1, 1, [](const auto& w) { return total(w) / 15; });
          }};
}

// Windows larger than a padded side, which ceil_mode lets reach beyond it by less than the stride.
CONTRACT(avg_pool2d_beyond_the_end) {
  return {
      .op =
          [](Tensor x) {
            const AvgPool2dOptions options{.stride = {2, 3}, .padding = {0, 1}, .ceil_mode = true};
            AvgPool2dOptions inside = options;
            inside.count_include_pad = false;
            return Tensors{avg_pool2d(x, {4, 7}, options), avg_pool2d(x, {4, 7}, inside)};
          },
      .inputs = {{{.shape = {2, 3, 3, 3}}}},
      .reference =
          [](Tensor x) {
            const auto mean_of = [&](double count) {
              return windows(x, {4, 7}, {2, 3}, {0, 1}, 1, 1, 1,
                             [=](const auto& w) { return total(w) / count; });
            };
            return Tensors{mean_of(3 * 5), mean_of(9)};  // padding counts, what is beyond not
          }};
}
CONTRACT(max_pool2d_beyond_the_end) {
  return {.op = [](Tensor x) { return max_pool2d(x, 4, {.stride = 2, .ceil_mode = true}); },
          .inputs = {{{.shape = {2, 3, 3, 3}}}},
          .reference = [](Tensor x) { return windows(x, 4, 2, 0, 1, 1, 1, largest); }};
}

TEST(MaxPool2d, KeepsNaN) {
  Tensor x = zeros({1, 1, 2, 32});
  x.slice(3, 5, 6).fill_(std::nan(""));
  const std::vector<float> y = max_pool2d(x, 2).to_vector<float>();
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[1], 0);
}

TEST(MaxPool2d, TheFirstOfEqualsCarriesTheGradient) {
  Tensor x = zeros({1, 1, 2, 2}, {.requires_grad = true});
  max_pool2d(x, 2).backward(ones({1, 1, 1, 1}));
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{1, 0, 0, 0}));
}

TEST(Pool, ErrorsSayWhatDoesNotFit) {
  const Tensor x = zeros({1, 1, 3, 3});
  EXPECT_THROW(max_pool2d(x, 4), ShapeError);
  EXPECT_THROW(max_pool2d(x, 5, {.stride = 2, .ceil_mode = true}), ShapeError);
  EXPECT_THROW(max_pool2d(x, 2, {.padding = 2}), ValueError);
  EXPECT_THROW(avg_pool2d(x, 2, {.stride = -1}), ValueError);
  EXPECT_THROW(max_pool2d(zeros({3, 3}), 2), ShapeError);
  EXPECT_THROW(max_pool2d(x.to(i32), 2), DTypeError);
  for (const Shape& nothing : {Shape{1, 1, 0, 4}, Shape{1, 1, 4, 0}}) {
    EXPECT_THROW(max_pool2d(zeros(nothing), 2, {.padding = 1}), ShapeError);
    EXPECT_THROW(avg_pool2d(zeros(nothing), 2, {.padding = 1}), ShapeError);
  }
  EXPECT_EQ(max_pool2d(zeros({0, 1, 4, 4}), 2).shape(), Shape({0, 1, 2, 2}));
}

}  // namespace
}  // namespace brim::contract
