// One element, or one row, at a time.
#include <algorithm>
#include <cmath>

#include "deploy/engine/lowering.h"

namespace brim::deploy {
namespace {

using rt::BinaryFormula;
using rt::UnaryFormula;

using rt::kInfinity;

const Shape& output_shape(const Lowering& to, const EngineNode& node) {
  return to.network.values[static_cast<size_t>(node.outputs[0])].shape;
}

void check_f32(const Lowering& to, int id) {
  const DType dtype = to.network.values[static_cast<size_t>(id)].dtype;
  BRIM_CHECK(dtype == DType::f32, NotImplemented, "numbers of {}", name(dtype));
}

void unary_step(Lowering& to, const EngineNode& node, UnaryFormula formula, double a = 0,
                double b = 0) {
  const int id = node.inputs[0];
  check_f32(to, id);
  const bool is_image = to.is_nhwc(id);
  const uint32_t x = is_image ? to.nhwc(id) : to.plain(id);
  const uint32_t y = to.made(to.value(x).dims);
  to.step(rt::OpCode::unary, {x}, y, rt::UnaryAttributes{formula, a, b});
  is_image ? to.set_nhwc(node.outputs[0], y) : to.set_plain(node.outputs[0], y);
}

template <UnaryFormula formula>
void unary(Lowering& to, const EngineNode& node) {
  unary_step(to, node, formula);
}

void relu(Lowering& to, const EngineNode& node) {
  unary_step(to, node, UnaryFormula::clip, 0, kInfinity);
}

void clip(Lowering& to, const EngineNode& node) {
  const auto bound = [&](size_t i, double otherwise) {
    if (!node.has(i)) return otherwise;
    const std::optional<double> number = to.network.number(node, i);
    BRIM_CHECK(number, NotImplemented, "bounds that are computed");
    return *number;
  };
  unary_step(to, node, UnaryFormula::clip, bound(1, -kInfinity), bound(2, kInfinity));
}

void leaky_relu(Lowering& to, const EngineNode& node) {
  unary_step(to, node, UnaryFormula::leaky_relu, double{node.attribute<float>("alpha", 0.01F)});
}
void elu(Lowering& to, const EngineNode& node) {
  unary_step(to, node, UnaryFormula::elu, double{node.attribute<float>("alpha", 1.0F)});
}
void gelu(Lowering& to, const EngineNode& node) {
  const bool is_tanh = node.attribute<std::string>("approximate", "none") == "tanh";
  unary_step(to, node, is_tanh ? UnaryFormula::gelu_tanh : UnaryFormula::gelu);
}

/// An operand as nhwc: images, and what is broadcast over them.
uint32_t image_operand(Lowering& to, int id) {
  const EngineValue& v = to.network.values[static_cast<size_t>(id)];
  if (v.shape.rank() == 4) return to.nhwc(id);
  if (v.shape.numel() == 1) return to.view(to.plain(id), {1, 1, 1, 1});
  // (c, 1, 1), (h, w), (w)
  Shape whole = v.shape;
  while (whole.rank() < 4) whole.insert(0, 1);
  if (v.constant.defined()) {
    const Tensor x = v.constant.reshape(whole).permute({0, 2, 3, 1});
    return to.constant(x, dims_of(x.shape()));
  }
  return to.transposed(to.view(to.plain(id), dims_of(whole)), {0, 2, 3, 1});
}

void binary_step(Lowering& to, const EngineNode& node, BinaryFormula formula, int a_id, int b_id) {
  const Shape& shape = output_shape(to, node);
  const bool is_image = shape.rank() == 4 && (to.is_nhwc(a_id) || to.is_nhwc(b_id));
  const auto operand = [&](int id) { return is_image ? image_operand(to, id) : to.plain(id); };
  const uint32_t a = operand(a_id), b = operand(b_id);
  const uint32_t y =
      is_image ? to.made({shape[0], shape[2], shape[3], shape[1]}) : to.made(dims_of(shape));
  to.step(rt::OpCode::binary, {a, b}, y, rt::BinaryAttributes{formula, node.low, node.high});
  is_image ? to.set_nhwc(node.outputs[0], y) : to.set_plain(node.outputs[0], y);
}

template <BinaryFormula formula>
void binary(Lowering& to, const EngineNode& node) {
  check_f32(to, node.outputs[0]);
  binary_step(to, node, formula, node.inputs[0], node.inputs[1]);
}

/// A constant mask, and -infinity where it is false, as of attention: the smaller of x and a bound,
/// which is infinity where the mask is true.
void where(Lowering& to, const EngineNode& node) {
  const std::optional<double> otherwise = to.network.number(node, 2);
  BRIM_CHECK(to.network.is_constant(node, 0) && otherwise == -kInfinity, NotImplemented,
             "other choices than between x and -infinity by a constant mask");
  const Tensor mask = to.network.constant(node, 0);
  std::vector<float> bounds;
  for (const uint8_t visible : mask.to(DType::u8).to_vector<uint8_t>())
    bounds.push_back(static_cast<float>(visible ? kInfinity : -kInfinity));
  const Shape& shape = output_shape(to, node);
  const uint32_t bound =
      to.constant(Tensor::from<float>(bounds, mask.shape()), dims_of(mask.shape()));
  const uint32_t x = to.plain(node.inputs[1]), y = to.made(dims_of(shape));
  to.step(rt::OpCode::binary, {x, bound}, y, rt::BinaryAttributes{BinaryFormula::min});
  to.set_plain(node.outputs[0], y);
}

template <bool logarithm>
void softmax(Lowering& to, const EngineNode& node) {
  const Shape& shape = output_shape(to, node);
  int64_t axis = node.attribute<int64_t>("axis", -1);
  if (axis < 0) axis += shape.rank();
  const int id = node.inputs[0];
  check_f32(to, id);
  const rt::SoftmaxAttributes a = {.logarithm = logarithm};
  if (axis == 1 && shape.rank() == 4) {
    const uint32_t x = to.nhwc(id), y = to.made(to.value(x).dims);
    to.step(rt::OpCode::softmax, {x}, y, a);
    return to.set_nhwc(node.outputs[0], y);
  }
  // The axis goes to the end, and back.
  std::vector<int> order, back(static_cast<size_t>(shape.rank()));
  for (int i = 0; i < shape.rank(); ++i)
    if (i != axis) order.push_back(i);
  order.push_back(static_cast<int>(axis));
  for (size_t i = 0; i < order.size(); ++i)
    back[static_cast<size_t>(order[i])] = static_cast<int>(i);
  const uint32_t x = to.transposed(to.plain(id), order), y = to.made(to.value(x).dims);
  to.step(rt::OpCode::softmax, {x}, y, a);
  to.set_plain(node.outputs[0], to.transposed(y, back));
}

void layer_norm(Lowering& to, const EngineNode& node) {
  const Shape& weight = to.network.shape(node, 1);
  const int64_t axis = node.attribute<int64_t>("axis", -1);
  BRIM_CHECK(axis == -weight.rank(), NotImplemented, "other axes than the last");
  std::vector<uint32_t> operands = {to.plain(node.inputs[0]), to.plain(node.inputs[1])};
  if (node.has(2)) operands.push_back(to.plain(node.inputs[2]));
  const uint32_t y = to.made(dims_of(output_shape(to, node)));
  to.step(rt::OpCode::layer_norm, operands, y,
          rt::LayerNormAttributes{double{node.attribute<float>("epsilon", 1e-5F)}});
  to.set_plain(node.outputs[0], y);
}

/// Groups are rows, whatever axes are behind them; what their elements are multiplied with and what
/// is added are constants for each.
void instance_norm(Lowering& to, const EngineNode& node) {
  const Shape& shape = output_shape(to, node);
  const int64_t groups = shape[1], size = shape.numel() / shape[0] / groups;
  const uint32_t rows = to.view(to.plain(node.inputs[0]), {shape[0], groups, size});
  uint32_t y = to.made(to.value(rows).dims);
  to.step(rt::OpCode::layer_norm, {rows}, y,
          rt::LayerNormAttributes{double{node.attribute<float>("epsilon", 1e-5F)}});
  const auto join = [&](size_t input, BinaryFormula formula, float nothing) {
    BRIM_CHECK(to.network.is_constant(node, input), NotImplemented, "factors that are computed");
    const Tensor& each = to.network.constant(node, input);
    if (std::ranges::count(each.to_vector<float>(), nothing) == groups) return;
    const uint32_t x = y;
    y = to.made(to.value(x).dims);
    to.step(rt::OpCode::binary, {x, to.constant(each, {groups, 1})}, y,
            rt::BinaryAttributes{formula});
  };
  join(1, BinaryFormula::mul, 1);
  join(2, BinaryFormula::add, 0);
  to.set_plain(node.outputs[0], to.view(y, dims_of(shape)));
}

const bool registered_unary = register_operator("Relu", &relu) &&
                              register_operator("Clip", &clip) &&
                              register_operator("LeakyRelu", &leaky_relu) &&
                              register_operator("Elu", &elu) && register_operator("Gelu", &gelu) &&
                              register_operator("Sigmoid", &unary<UnaryFormula::sigmoid>) &&
                              register_operator("Silu", &unary<UnaryFormula::silu>) &&
                              register_operator("Tanh", &unary<UnaryFormula::tanh>) &&
                              register_operator("Exp", &unary<UnaryFormula::exp>) &&
                              register_operator("Log", &unary<UnaryFormula::log>) &&
                              register_operator("Sqrt", &unary<UnaryFormula::sqrt>) &&
                              register_operator("Reciprocal", &unary<UnaryFormula::reciprocal>) &&
                              register_operator("Neg", &unary<UnaryFormula::neg>) &&
                              register_operator("Abs", &unary<UnaryFormula::abs>) &&
                              register_operator("Erf", &unary<UnaryFormula::erf>) &&
                              register_operator("Softplus", &unary<UnaryFormula::softplus>);

const bool registered_binary = register_operator("Add", &binary<BinaryFormula::add>) &&
                               register_operator("Sub", &binary<BinaryFormula::sub>) &&
                               register_operator("Mul", &binary<BinaryFormula::mul>) &&
                               register_operator("Div", &binary<BinaryFormula::div>) &&
                               register_operator("Max", &binary<BinaryFormula::max>) &&
                               register_operator("Min", &binary<BinaryFormula::min>) &&
                               register_operator("Where", &where);

const bool registered_rows = register_operator("Softmax", &softmax<false>) &&
                             register_operator("LogSoftmax", &softmax<true>) &&
                             register_operator("LayerNormalization", &layer_norm) &&
                             register_operator("InstanceNormalization", &instance_norm);

}  // namespace
}  // namespace brim::deploy
