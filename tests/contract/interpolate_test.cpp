// Contract cases of interpolate, by its definition.
#include <brim/ops/create.h>
#include <brim/ops/interpolate.h>

#include <cmath>

#include "contract/contract.h"
#include "contract/positions.h"
#include "message_of.h"

namespace brim::contract {
namespace {

/// The place in x of an element of the result.
double place(int64_t i, int64_t from, int64_t to, const InterpolateOptions& o, bool by_size) {
  const bool doubled = o.mode == Interpolation::nearest && (to == from || to == 2 * from);
  const double step =
      by_size || doubled ? static_cast<double>(from) / static_cast<double>(to) : 1 / o.scale;
  if (o.mode == Interpolation::nearest) return std::floor(static_cast<double>(i) * step);
  if (!o.align_corners) return std::max(0.0, (static_cast<double>(i) + 0.5) * step - 0.5);
  return to > 1 ? static_cast<double>(i * (from - 1)) / static_cast<double>(to - 1) : 0;
}

Tensor reference(const Tensor& x, const InterpolateOptions& o) {
  const int64_t h = x.size(2), w = x.size(3);
  const bool by_size = o.size.h != 0;
  const auto scaled = [&](int64_t n) {
    return static_cast<int64_t>(std::floor(static_cast<double>(n) * o.scale));
  };
  const int64_t oh = by_size ? o.size.h : scaled(h), ow = by_size ? o.size.w : scaled(w);
  const Reader r(x);
  return build({x.size(0), x.size(1), oh, ow}, [&](const Shape& p) {
    const double row = place(p[2], h, oh, o, by_size), column = place(p[3], w, ow, o, by_size);
    const int64_t top = std::min(static_cast<int64_t>(row), h - 1);
    const int64_t left = std::min(static_cast<int64_t>(column), w - 1);
    const double v = row - static_cast<double>(top), u = column - static_cast<double>(left);
    const int64_t below = std::min(top + 1, h - 1), right = std::min(left + 1, w - 1);
    if (o.mode == Interpolation::nearest) return r({p[0], p[1], top, left});
    return (1 - v) * ((1 - u) * r({p[0], p[1], top, left}) + u * r({p[0], p[1], top, right})) +
           v * ((1 - u) * r({p[0], p[1], below, left}) + u * r({p[0], p[1], below, right}));
  });
}

Case resized(const InterpolateOptions& o) {
  return {.op = [o](Tensor x) { return interpolate(x, o); },
          .inputs = {{{.shape = {2, 3, 4, 6}}},
                     {{.shape = {1, 1, 2, 2}}},
                     {{.shape = {0, 2, 3, 2}}},
                     {{.shape = {1, 2, 7, 2}}}},
          .reference = [o](Tensor x) { return reference(x, o); },
          .tolerance_f16 = 4e-3,
          .tolerance_bf16 = 3.2e-2};
}

CONTRACT(interpolate_twice) { return resized({.scale = 2}); }
CONTRACT(interpolate_nearest) { return resized({.size = {3, 7}}); }
CONTRACT(interpolate_by_a_fraction) { return resized({.scale = 1.5}); }
CONTRACT(interpolate_by_more_than_twice) { return resized({.scale = 2.25}); }
CONTRACT(interpolate_smaller) { return resized({.scale = 0.5}); }
CONTRACT(interpolate_bilinear) {
  return resized({.size = {5, 3}, .mode = Interpolation::bilinear});
}
CONTRACT(interpolate_bilinear_scaled) {
  return resized({.scale = 2.5, .mode = Interpolation::bilinear});
}
CONTRACT(interpolate_corners) {
  return resized({.size = {6, 1}, .mode = Interpolation::bilinear, .align_corners = true});
}

TEST(Interpolate, ErrorsSayWhatToGive) {
  using tests::message_of;
  const Tensor x = zeros({1, 1, 2, 3});
  EXPECT_EQ(message_of([&] { interpolate(x, {}); }),
            "[interpolate] give either the size of the result or a scale");
  EXPECT_THROW(interpolate(x, {.size = 2, .scale = 2}), ValueError);
  EXPECT_THROW(interpolate(x, {.size = {2, 0}}), ValueError);
  EXPECT_THROW(interpolate(x, {.scale = -1}), ValueError);
  EXPECT_EQ(message_of([&] { interpolate(x, {.scale = 0.4}); }),
            "[interpolate] height of shape (1, 1, 2, 3) would become 0; both must be 1 or more");
  EXPECT_THROW(interpolate(zeros({2, 3}), {.scale = 2}), ShapeError);
  EXPECT_THROW(interpolate(zeros({1, 1, 2, 3}, {.dtype = i64}), {.scale = 2}), DTypeError);
}

}  // namespace
}  // namespace brim::contract
