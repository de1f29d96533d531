// Images of other sizes, by steps that there are: nearest pixels are looked up, linear ones are
// products with a matrix for each axis. Both take images as they lie, nhwc.
#include <algorithm>
#include <cmath>

#include "backend/options/resize.h"
#include "deploy/engine/lowering.h"

namespace brim::deploy {
namespace {

struct ResizedAxis : backend::ResizeAxis {
  std::vector<int64_t> nearest() const {
    std::vector<int64_t> all;
    for (int64_t i = 0; i < to; ++i) all.push_back(ResizeAxis::nearest<float>(i));
    return all;
  }
  /// (to, from): what elements count for.
  Tensor linear(bool align_corners) const {
    std::vector<float> all(static_cast<size_t>(to * from), 0.0F);
    const double last = static_cast<double>(from - 1);
    for (int64_t i = 0; i < to; ++i) {
      const auto at = static_cast<double>(i);
      const double corner = to > 1 ? at * last / static_cast<double>(to - 1) : 0;
      const double x = std::clamp(align_corners ? corner : (at + 0.5) * step - 0.5, 0.0, last);
      const auto first = static_cast<int64_t>(std::floor(x));
      const double share = x - static_cast<double>(first);
      float* const row = all.data() + i * from;
      row[first] += static_cast<float>(1 - share);
      if (first + 1 < from) row[first + 1] += static_cast<float>(share);
    }
    return Tensor::from<float>(all, {to, from});
  }
};

/// x: (n, h, w, c).
uint32_t looked_up(Lowering& to, uint32_t x, int64_t axis, const ResizedAxis& resized) {
  std::vector<int64_t> dims = to.value(x).dims;
  dims[static_cast<size_t>(axis)] = resized.to;
  const uint32_t index =
      to.constant(Tensor::from<int64_t>(resized.nearest(), {resized.to}), {resized.to});
  const uint32_t y = to.made(dims, to.value(x).dtype);
  to.step(rt::OpCode::gather, {x, index}, y, rt::GatherAttributes{axis});
  return y;
}

uint32_t multiplied(Lowering& to, uint32_t x, int64_t axis, const Tensor& matrix) {
  const std::vector<int64_t> from = to.value(x).dims;
  std::vector<int64_t> dims = from;
  dims[static_cast<size_t>(axis)] = matrix.size(0);
  const bool is_rows = axis == 1;
  const int64_t batch = is_rows ? from[0] : from[0] * from[1];
  const int64_t inner = is_rows ? from[2] * from[3] : from[3];
  const uint32_t y = to.made({batch, matrix.size(0), inner});
  to.step(
      rt::OpCode::matmul,
      {to.constant(matrix, dims_of(matrix.shape())), to.view(x, {batch, matrix.size(1), inner})},
      y);
  return to.view(y, dims);
}

void resize(Lowering& to, const EngineNode& node) {
  const Shape from = to.network.shape(node, 0);
  const Shape shape = to.network.values[static_cast<size_t>(node.outputs[0])].shape;
  const auto mode = node.attribute<std::string>("mode", "nearest");
  const auto way = node.attribute<std::string>("coordinate_transformation_mode", "half_pixel");
  const bool is_nearest = mode == "nearest" && way == "asymmetric" &&
                          node.attribute<std::string>("nearest_mode", "") == "floor";
  const bool is_linear = mode == "linear" && (way == "half_pixel" || way == "align_corners");
  const auto axes = node.attribute<std::vector<int64_t>>("axes", {});
  BRIM_CHECK(from.rank() == 4 && axes == std::vector<int64_t>({2, 3}) && (is_nearest || is_linear),
             NotImplemented, "other ways than nearest and bilinear, of other values than images");
  std::vector<float> scales;
  if (node.has(2)) scales = to.network.constant(node, 2).to_vector<float>();
  uint32_t x = to.nhwc(node.inputs[0]);
  // Columns first: there are fewer rows then.
  for (const int axis : {3, 2}) {
    ResizedAxis resized = {{from[axis], shape[axis], 0}};
    resized.step = scales.size() == 2
                       ? 1 / static_cast<double>(scales[static_cast<size_t>(axis) - 2])
                       : static_cast<double>(resized.from) / static_cast<double>(resized.to);
    if (resized.from == resized.to && resized.step == 1) continue;
    x = is_nearest ? looked_up(to, x, axis - 1, resized)
                   : multiplied(to, x, axis - 1, resized.linear(way == "align_corners"));
  }
  to.set_nhwc(node.outputs[0], x);
}

const bool registered_resize = register_operator("Resize", &resize);

}  // namespace
}  // namespace brim::deploy
