// pixel_shuffle and pixel_unshuffle: blocks of channels as blocks of pixels, and back
#include <brim/ops/shape.h>

#include "ops/checks.h"

namespace brim {
namespace {

void check_image(const char* op, const Tensor& x, int64_t factor) {
  ops::check_defined(op, x);
  BRIM_CHECK(x.rank() >= 3, ShapeError, "[{}] expects x (.., C, H, W), got shape {}", op,
             x.shape().str());
  BRIM_CHECK(factor >= 1, ValueError, "[{}] factor {} must be 1 or more", op, factor);
}

/// All leading axes as one, and the shape of x with these sizes at its end.
Shape stacked(const Tensor& x, std::initializer_list<int64_t> sizes) {
  Shape shape = {1};
  for (int i = 0; i + 3 < x.rank(); ++i) shape[0] *= x.shape()[i];
  for (int64_t size : sizes) shape.push_back(size);
  return shape;
}
Shape with_image(Shape shape, int64_t c, int64_t h, int64_t w) {
  const int rank = shape.rank();
  shape[rank - 3] = c, shape[rank - 2] = h, shape[rank - 1] = w;
  return shape;
}

}  // namespace

Tensor pixel_shuffle(const Tensor& x, int64_t factor) {
  check_image("pixel_shuffle", x, factor);
  const int64_t r = factor, h = x.size(-2), w = x.size(-1);
  BRIM_CHECK(x.size(-3) % (r * r) == 0, ShapeError,
             "[pixel_shuffle] {} channels of shape {} are no multiple of factor^2 = {}", x.size(-3),
             x.shape().str(), r * r);
  const int64_t c = x.size(-3) / (r * r);
  return x.reshape(stacked(x, {c, r, r, h, w}))
      .permute({0, 1, 4, 2, 5, 3})
      .reshape(with_image(x.shape(), c, h * r, w * r));
}

Tensor pixel_unshuffle(const Tensor& x, int64_t factor) {
  check_image("pixel_unshuffle", x, factor);
  const int64_t r = factor, c = x.size(-3);
  BRIM_CHECK(x.size(-2) % r == 0 && x.size(-1) % r == 0, ShapeError,
             "[pixel_unshuffle] height and width of shape {} are no multiples of factor {}",
             x.shape().str(), r);
  const int64_t h = x.size(-2) / r, w = x.size(-1) / r;
  return x.reshape(stacked(x, {c, h, r, w, r}))
      .permute({0, 1, 3, 5, 2, 4})
      .reshape(with_image(x.shape(), c * r * r, h, w));
}

}  // namespace brim
