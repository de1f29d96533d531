// Pooling.
#include "deploy/engine/lowering.h"
#include "deploy/engine/operators/windows.h"

namespace brim::deploy {
namespace {

void pool(Lowering& to, const EngineNode& node, rt::OpCode op, const rt::PoolAttributes& a) {
  const Shape y_shape = to.network.values[static_cast<size_t>(node.outputs[0])].shape;
  BRIM_CHECK(y_shape.rank() == 4, NotImplemented, "pooling of {} axes", y_shape.rank());
  const uint32_t x = to.nhwc(node.inputs[0]);
  const uint32_t y = to.made({y_shape[0], y_shape[2], y_shape[3], y_shape[1]}, to.value(x).dtype);
  to.step(op, {x}, y, a);
  to.set_nhwc(node.outputs[0], y);
}

rt::PoolAttributes attributes_of(const EngineNode& node) {
  rt::PoolAttributes a = {.count_padding = node.attribute<int64_t>("count_include_pad", 0)};
  OnnxWindows(node).put_into(a);
  return a;
}

void max_pool(Lowering& to, const EngineNode& node) {
  pool(to, node, rt::OpCode::max_pool, attributes_of(node));
}
void average_pool(Lowering& to, const EngineNode& node) {
  pool(to, node, rt::OpCode::average_pool, attributes_of(node));
}
void global_average_pool(Lowering& to, const EngineNode& node) {
  const Shape x = to.network.shape(node, 0);
  BRIM_CHECK(x.rank() == 4, NotImplemented, "pooling of {} axes", x.rank());
  pool(to, node, rt::OpCode::average_pool, {.kernel_h = x[2], .kernel_w = x[3]});
}

const bool registered_pools = register_operator("MaxPool", &max_pool) &&
                              register_operator("AveragePool", &average_pool) &&
                              register_operator("GlobalAveragePool", &global_average_pool);

}  // namespace
}  // namespace brim::deploy
