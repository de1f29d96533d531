// What moves elements.
#include <algorithm>

#include "deploy/engine/lowering.h"

namespace brim::deploy {
namespace {

Shape made_shape(const Lowering& to, const EngineNode& node) {
  return to.network.values[static_cast<size_t>(node.outputs[0])].shape;
}

/// Row-major strides.
std::vector<int64_t> strides_of(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = step;
    step *= dims[i];
  }
  return strides;
}

/// Sizes and strides aligned at the last axis.
rt::CopyAttributes walk_of(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides_x,
                           const std::vector<int64_t>& strides_y) {
  rt::CopyAttributes a{};
  std::fill_n(a.sizes, rt::kMaxRank, 1);
  const size_t shift = static_cast<size_t>(rt::kMaxRank) - sizes.size();
  std::ranges::copy(sizes, a.sizes + shift);
  std::ranges::copy(strides_x, a.strides_x + shift);
  std::ranges::copy(strides_y, a.strides_y + shift);
  return a;
}

void reshape(Lowering& to, const EngineNode& node) {
  const int id = node.inputs[0];
  const Shape from = to.network.shape(node, 0), shape = made_shape(to, node);
  // A row for each image, which a product can take as it lies: it becomes row-major if something
  // else wants it.
  if (from.rank() == 4 && to.is_nhwc(id) && shape.rank() == 2 && shape[0] == from[0])
    return to.set_image(node.outputs[0], id);
  to.set_plain(node.outputs[0], to.view(to.plain(id), dims_of(shape)));
}

void transpose(Lowering& to, const EngineNode& node) {
  std::vector<int> order;
  for (const int64_t axis : node.attribute<std::vector<int64_t>>("perm", {}))
    order.push_back(static_cast<int>(axis));
  to.set_plain(node.outputs[0], to.transposed(to.plain(node.inputs[0]), order));
}

void slice(Lowering& to, const EngineNode& node) {
  const std::vector<int64_t> starts = to.network.integers(node, 1),
                             axes = to.network.integers(node, 3),
                             steps = node.has(4) ? to.network.integers(node, 4)
                                                 : std::vector<int64_t>(starts.size(), 1);
  const uint32_t x = to.plain(node.inputs[0]);
  const std::vector<int64_t> from = to.value(x).dims, sizes = dims_of(made_shape(to, node));
  std::vector<int64_t> strides = strides_of(from);
  int64_t begin = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis =
        static_cast<size_t>(axes[i] < 0 ? axes[i] + static_cast<int64_t>(from.size()) : axes[i]);
    const int64_t start = starts[i] < 0 ? starts[i] + from[axis] : starts[i];
    begin += std::clamp<int64_t>(start, 0, from[axis] - 1) * strides[axis];
    strides[axis] *= steps[i];
  }
  rt::CopyAttributes a = walk_of(sizes, strides, strides_of(sizes));
  a.begin_x = begin;
  const uint32_t y = to.made(sizes, to.value(x).dtype);
  to.step(rt::OpCode::copy, {x}, y, a);
  to.set_plain(node.outputs[0], y);
}

void concat(Lowering& to, const EngineNode& node) {
  const Shape shape = made_shape(to, node);
  const int64_t given = node.attribute<int64_t>("axis", 0);
  auto axis = static_cast<size_t>(given < 0 ? given + shape.rank() : given);
  const bool is_image =
      shape.rank() == 4 && std::ranges::any_of(node.inputs, [&](int id) { return to.is_nhwc(id); });
  std::vector<int64_t> sizes = dims_of(shape);
  if (is_image) {
    sizes = {shape[0], shape[2], shape[3], shape[1]};
    axis = axis == 0 ? 0 : axis == 1 ? 3 : axis - 1;
  }
  const std::vector<int64_t> strides = strides_of(sizes);
  std::vector<uint32_t> parts;
  for (const int id : node.inputs) parts.push_back(is_image ? to.nhwc(id) : to.plain(id));
  const uint32_t y = to.made(sizes, to.value(parts[0]).dtype);
  int64_t at = 0;
  for (const uint32_t x : parts) {
    const std::vector<int64_t> dims = to.value(x).dims;
    rt::CopyAttributes a = walk_of(dims, strides_of(dims), strides);
    a.begin_y = at * strides[axis];
    to.step(rt::OpCode::copy, {x}, y, a);
    at += dims[axis];
  }
  is_image ? to.set_nhwc(node.outputs[0], y) : to.set_plain(node.outputs[0], y);
}

void expand(Lowering& to, const EngineNode& node) {
  const uint32_t x = to.plain(node.inputs[0]);
  const std::vector<int64_t> from = to.value(x).dims, sizes = dims_of(made_shape(to, node));
  std::vector<int64_t> strides(sizes.size(), 0);
  const std::vector<int64_t> own = strides_of(from);
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i] != 1) strides[sizes.size() - from.size() + i] = own[i];
  const uint32_t y = to.made(sizes, to.value(x).dtype);
  to.step(rt::OpCode::copy, {x}, y, walk_of(sizes, strides, strides_of(sizes)));
  to.set_plain(node.outputs[0], y);
}

void gather(Lowering& to, const EngineNode& node) {
  const uint32_t x = to.plain(node.inputs[0]), index = to.plain(node.inputs[1]);
  const uint32_t y = to.made(dims_of(made_shape(to, node)), to.value(x).dtype);
  int64_t axis = node.attribute<int64_t>("axis", 0);
  if (axis < 0) axis += to.network.shape(node, 0).rank();
  to.step(rt::OpCode::gather, {x, index}, y, rt::GatherAttributes{axis});
  to.set_plain(node.outputs[0], y);
}

const bool registered_moves =
    register_operator("Reshape", &reshape) && register_operator("Transpose", &transpose) &&
    register_operator("Slice", &slice) && register_operator("Concat", &concat) &&
    register_operator("Expand", &expand) && register_operator("Gather", &gather);

}  // namespace
}  // namespace brim::deploy
