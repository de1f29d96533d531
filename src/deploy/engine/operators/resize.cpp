// Images of other sizes: nearest pixels are looked up, an axis after the other, bilinear ones are a
// step of their own. Both take images as they lie, nhwc.
#include <algorithm>

#include "backend/options/resize.h"
#include "deploy/engine/lowering.h"

namespace brim::deploy {
namespace {

struct ResizedAxis : backend::ResizeAxis {
  bool stays() const { return from == to && step == 1; }
  std::vector<int64_t> nearest() const {
    std::vector<int64_t> all;
    for (int64_t i = 0; i < to; ++i) all.push_back(ResizeAxis::nearest<float>(i));
    return all;
  }
  /// The element at or before each of the result, and the share of the next one, as brim's own
  /// kernels have them: behind the last one both are that one.
  void linear(bool align_corners, std::vector<int64_t>& before, std::vector<float>& share) const {
    const double corners = to > 1 ? static_cast<double>(from - 1) / static_cast<double>(to - 1) : 0;
    for (int64_t i = 0; i < to; ++i) {
      const auto at = static_cast<double>(i);
      const double place = align_corners ? at * corners : std::max((at + 0.5) * step - 0.5, 0.0);
      before.push_back(std::min(static_cast<int64_t>(place), from - 1));
      share.push_back(static_cast<float>(place - static_cast<double>(before.back())));
    }
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

/// x: (n, h, w, c).
uint32_t between(Lowering& to, uint32_t x, const ResizedAxis& rows, const ResizedAxis& columns,
                 bool align_corners) {
  std::vector<uint32_t> inputs = {x};
  for (const ResizedAxis* axis : {&rows, &columns}) {
    std::vector<int64_t> before;
    std::vector<float> share;
    axis->linear(align_corners, before, share);
    inputs.push_back(to.constant(Tensor::from<int64_t>(before, {axis->to}), {axis->to}));
    inputs.push_back(to.constant(Tensor::from<float>(share, {axis->to}), {axis->to}));
  }
  const std::vector<int64_t>& dims = to.value(x).dims;
  const uint32_t y = to.made({dims[0], rows.to, columns.to, dims[3]});
  to.step(rt::OpCode::resize, inputs, y);
  return y;
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
  const auto axis_of = [&](int axis) {
    ResizedAxis resized = {{from[axis], shape[axis], 0}};
    resized.step = scales.size() == 2
                       ? 1 / static_cast<double>(scales[static_cast<size_t>(axis) - 2])
                       : static_cast<double>(resized.from) / static_cast<double>(resized.to);
    return resized;
  };
  const ResizedAxis rows = axis_of(2), columns = axis_of(3);
  uint32_t x = to.nhwc(node.inputs[0]);
  if (is_nearest) {
    // Columns first: there are fewer rows then.
    if (!columns.stays()) x = looked_up(to, x, 2, columns);
    if (!rows.stays()) x = looked_up(to, x, 1, rows);
  } else if (!rows.stays() || !columns.stays()) {
    x = between(to, x, rows, columns, way == "align_corners");
  }
  to.set_nhwc(node.outputs[0], x);
}

const bool registered_resize = register_operator("Resize", &resize);

}  // namespace
}  // namespace brim::deploy
