// Convolutions and products, with weights as the runtime's kernels read them.

#include <algorithm>

#include "deploy/engine/faster_convolution.h"
#include "deploy/engine/lowering.h"
#include "deploy/engine/operators/int8.h"
#include "deploy/engine/operators/left_side.h"
#include "deploy/engine/operators/windows.h"
#include "deploy/engine/weight_layout.h"
#include "rt/kernels/convolution.h"
#include "rt/kernels/plane_convolution.h"

namespace brim::deploy {
namespace {

using Sizes = std::vector<int64_t>;

/// Of one pixel, until more is known.
rt::ConvolutionAttributes bounded(const EngineNode& node) {
  return {.low = node.low, .high = node.high};
}

/// Weights that the file holds, as numbers.
std::vector<float> weights_of(const Lowering& to, const EngineNode& node, size_t input) {
  BRIM_CHECK(to.network.is_constant(node, input), NotImplemented, "weights that are computed");
  return to.network.constant(node, input).to(DType::f32).contiguous().to_vector<float>();
}

uint32_t add_weights(Lowering& to, const std::vector<float>& numbers) {
  const auto count = static_cast<int64_t>(numbers.size());
  return to.constant(Tensor::from<float>(numbers, {count}), {count});
}

/// Of `groups` times `outputs`, or zeros, as many as panels have.
uint32_t add_bias(Lowering& to, const EngineNode& node, int64_t groups, int64_t outputs) {
  const std::vector<float> bias =
      node.has(2) ? weights_of(to, node, 2)
                  : std::vector<float>(static_cast<size_t>(groups * outputs), 0.0F);
  BRIM_CHECK(static_cast<int64_t>(bias.size()) == groups * outputs, NotImplemented,
             "a bias of another size than its outputs");
  return add_weights(to, panels_of_bias(bias, groups));
}

/// The result, in u8 where the node has it so, and which of the network's it is.
std::pair<uint32_t, int> depthwise_step(Lowering& to, const EngineNode& node,
                                        const std::vector<uint32_t>& operands,
                                        const std::vector<int64_t>& dims,
                                        const rt::ConvolutionAttributes& a) {
  const uint32_t y = to.made(dims, node.quantized_output ? rt::DType::u8 : rt::DType::f32);
  if (node.quantized_output)
    to.step(rt::OpCode::depthwise, operands, y,
            rt::QuantizedConvolutionAttributes{a, quantize_attributes(*node.quantized_output)});
  else
    to.step(rt::OpCode::depthwise, operands, y, a);
  return {y, node.outputs.back()};
}

void plane_convolution(Lowering& to, const EngineNode& node) {
  const Shape w = to.network.shape(node, 1);
  const int id = node.inputs[0];
  const OnnxWindows windows(node);
  const rt::PlaneConvolutionAttributes a = {.kernel_h = w[2],
                                            .kernel_w = w[3],
                                            .top = windows.pads[0],
                                            .left = windows.pads[1],
                                            .low = node.low,
                                            .high = node.high,
                                            .is_nhwc = to.is_nhwc(id),
                                            .is_pooled = node.is_pooled};
  std::vector<float> weights = tiles_of_weights(weights_of(to, node, 1), w[0], w.numel() / w[0]);
  std::vector<float> bias = node.has(2) ? weights_of(to, node, 2) : std::vector<float>();
  bias.resize(weights.size() / static_cast<size_t>(w.numel() / w[0]), 0.0F);
  const Shape shape = to.network.values[static_cast<size_t>(node.outputs[0])].shape;
  const uint32_t y = to.made({shape[0], shape[2], shape[3], shape[1]});
  to.step(rt::OpCode::plane_convolution,
          {a.is_nhwc ? to.nhwc(id) : to.plain(id), add_weights(to, weights), add_weights(to, bias)},
          y, a);
  to.set_nhwc(node.outputs[0], y);
}

void convolution(Lowering& to, const EngineNode& node) {
  if (node.quantized_input) return int8_convolution(to, node);
  if (convolves_planes(to.network, node)) return plane_convolution(to, node);
  const Shape w = to.network.shape(node, 1);
  BRIM_CHECK(w.rank() == 4, NotImplemented, "kernels of {} axes", w.rank() - 2);
  const int64_t groups = node.attribute<int64_t>("group", 1);
  const uint32_t x = to.nhwc(node.inputs[0]);
  const Shape shape = to.network.values[static_cast<size_t>(node.outputs[0])].shape;
  rt::ConvolutionAttributes a = bounded(node);
  OnnxWindows(node).put_into(a);
  a.groups = groups;
  const std::vector<float> weights = weights_of(to, node, 1);
  const int64_t inputs = w[1], outputs = w[0];
  std::vector<uint32_t> operands = {x};
  rt::OpCode op = rt::OpCode::convolution;
  if (groups == outputs && inputs == 1) {
    op = rt::OpCode::depthwise;
    operands.push_back(add_weights(to, taps_first(weights, outputs, w[2] * w[3])));
    operands.push_back(
        add_weights(to, node.has(2) ? weights_of(to, node, 2)
                                    : std::vector<float>(static_cast<size_t>(outputs), 0.0F)));
  } else {
    const ConvolutionSizes sizes = {.n = shape[0],
                                    .h = to.value(x).dims[1],
                                    .w = to.value(x).dims[2],
                                    .c = inputs * groups,
                                    .oh = shape[2],
                                    .ow = shape[3],
                                    .o = outputs};
    if (winograd_is_faster(a, sizes, to.threads, to.constant_bytes())) op = rt::OpCode::winograd;
    operands.push_back(add_weights(
        to, op == rt::OpCode::winograd
                ? winograd_weights(weights, outputs, inputs)
                : panels_of_weights(weights, groups, outputs / groups, inputs, w[2] * w[3])));
    operands.push_back(add_bias(to, node, groups, outputs / groups));
  }
  if (node.residual >= 0) operands.push_back(to.nhwc(node.residual));
  if (op == rt::OpCode::depthwise) {
    const auto [y, id] =
        depthwise_step(to, node, operands, {shape[0], shape[2], shape[3], shape[1]}, a);
    return to.set_nhwc(id, y);
  }
  const uint32_t y = to.made({shape[0], shape[2], shape[3], shape[1]});
  to.step(op, operands, y, a);
  to.set_nhwc(node.outputs[0], y);
}

/// Where windows do not overlap: a product for each pixel, whose outputs become a window.
void transposed_convolution(Lowering& to, const EngineNode& node) {
  const Shape w = to.network.shape(node, 1);
  const OnnxWindows windows(node);
  const bool is_apart = w.rank() == 4 && windows.strides == windows.kernel &&
                        windows.pads == Sizes{0, 0, 0, 0} && windows.dilations == Sizes{1, 1} &&
                        node.attribute<int64_t>("group", 1) == 1 &&
                        node.attribute("output_padding", Sizes{0, 0}) == Sizes{0, 0};
  BRIM_CHECK(is_apart, NotImplemented, "windows that overlap, or are padded or dilated");
  const int64_t inputs = w[0], outputs = w[1], taps = w[2] * w[3], all = taps * outputs;
  const std::vector<float> weights = weights_of(to, node, 1);
  const std::vector<float> bias =
      node.has(2) ? weights_of(to, node, 2) : std::vector<float>(static_cast<size_t>(outputs));
  // Rows (tap, output) of as many numbers as there are inputs.
  std::vector<float> rows(weights.size()), sums;
  for (int64_t c = 0; c < inputs; ++c)
    for (int64_t o = 0; o < outputs; ++o)
      for (int64_t t = 0; t < taps; ++t)
        rows[static_cast<size_t>((t * outputs + o) * inputs + c)] =
            weights[static_cast<size_t>((c * outputs + o) * taps + t)];
  for (int64_t t = 0; t < taps; ++t) sums.insert(sums.end(), bias.begin(), bias.end());
  const uint32_t x = to.nhwc(node.inputs[0]);
  const Sizes from = to.value(x).dims;
  const uint32_t products = to.made({from[0], from[1], from[2], all});
  to.step(rt::OpCode::convolution,
          {x, add_weights(to, panels_of_weights(rows, 1, all, inputs, 1)),
           add_weights(to, panels_of_bias(sums, 1))},
          products, bounded(node));
  const uint32_t y = to.transposed(
      to.view(products, {from[0], from[1], from[2], w[2], w[3], outputs}), {0, 1, 3, 2, 4, 5});
  to.set_nhwc(node.outputs[0], to.view(y, {from[0], from[1] * w[2], from[2] * w[3], outputs}));
}

/// A factor and a sum for each channel: a depthwise convolution of one pixel. (n, c) is an image of
/// one pixel each.
void affine(Lowering& to, const EngineNode& node) {
  const Shape shape = to.network.shape(node, 0);
  BRIM_CHECK(shape.rank() == 4 || shape.rank() == 2, NotImplemented,
             "batch norm of {} axes that no layer is before", shape.rank());
  rt::ConvolutionAttributes a = bounded(node);
  a.groups = shape[1];
  const bool is_image = shape.rank() == 4;
  const uint32_t x = is_image ? to.nhwc(node.inputs[0])
                              : to.view(to.plain(node.inputs[0]), {shape[0], 1, 1, shape[1]});
  const uint32_t scale = add_weights(to, weights_of(to, node, 1));
  const uint32_t shift = add_weights(to, weights_of(to, node, 2));
  const auto [y, id] = depthwise_step(to, node, {x, scale, shift}, to.value(x).dims, a);
  if (is_image)
    to.set_nhwc(id, y);
  else
    to.set_plain(id, to.view(y, dims_of(shape)));
}

/// Rows of x times a matrix of the file, (outputs, inputs) row by row.
void product(Lowering& to, const EngineNode& node, std::vector<float> weights, int64_t outputs) {
  const auto inputs = static_cast<int64_t>(weights.size()) / outputs;
  uint32_t x = left_side(to, node, weights, outputs);
  const Shape shape = to.network.values[static_cast<size_t>(node.outputs[0])].shape;
  const int64_t rows = shape.numel() / outputs;
  x = to.view(x, {1, 1, rows, inputs});
  std::vector<uint32_t> operands = {
      x, add_weights(to, panels_of_weights(weights, 1, outputs, inputs, 1)),
      add_bias(to, node, 1, outputs)};
  if (node.residual >= 0)
    operands.push_back(to.view(to.plain(node.residual), {1, 1, rows, outputs}));
  const uint32_t y = to.made({1, 1, rows, outputs});
  to.step(rt::OpCode::convolution, operands, y, bounded(node));
  to.set_plain(node.outputs[0], to.view(y, dims_of(shape)));
}

void gemm(Lowering& to, const EngineNode& node) {
  if (node.quantized_input) return int8_product(to, node);
  BRIM_CHECK(node.attribute<int64_t>("transB", 0) == 1, NotImplemented,
             "a matrix that is not transposed");
  product(to, node, weights_of(to, node, 1), to.network.shape(node, 1)[0]);
}

void matmul(Lowering& to, const EngineNode& node) {
  if (node.quantized_input) return int8_product(to, node);
  if (to.network.is_constant(node, 1) && to.network.shape(node, 1).rank() == 2) {
    const Tensor w = to.network.constant(node, 1).to(DType::f32).t().contiguous();
    return product(to, node, w.to_vector<float>(), w.shape()[0]);
  }
  const uint32_t a = to.plain(node.inputs[0]), b = to.plain(node.inputs[1]);
  const uint32_t y =
      to.made(dims_of(to.network.values[static_cast<size_t>(node.outputs[0])].shape));
  to.step(rt::OpCode::matmul, {a, b}, y);
  to.set_plain(node.outputs[0], y);
}

const bool registered_layers = register_operator("Conv", &convolution) &&
                               register_operator("ConvTranspose", &transposed_convolution) &&
                               register_operator("Affine", &affine) &&
                               register_operator("Gemm", &gemm) &&
                               register_operator("MatMul", &matmul);

}  // namespace

bool convolves_planes(const EngineNetwork& network, const EngineNode& node) {
  if (node.op != "Conv" || node.quantized_input || node.quantized_output || node.residual >= 0 ||
      !network.is_constant(node, 1))
    return false;
  const Shape w = network.shape(node, 1);
  const OnnxWindows windows(node);
  if (w.rank() != 4 || node.attribute<int64_t>("group", 1) != 1 || w[1] > rt::kMaxPlanes ||
      std::max(w[2], w[3]) > rt::kMaxPlaneWindow || windows.strides != Sizes{1, 1} ||
      windows.dilations != Sizes{1, 1})
    return false;
  // Vectors of AVX-512 that are multiplied for a row of sums, either way.
  constexpr int64_t kColumns = 32;
  const int64_t x_columns = network.shape(node, 0)[3];
  const int64_t columns = x_columns + windows.pads[1] + windows.pads[3] - w[3] + 1;
  const int64_t of_columns = (columns + kColumns - 1) / kColumns * 2 * rt::plane_outputs(w[0]);
  return 4 * of_columns <= 3 * columns * rt::panels_of(w[0]);
}
}  // namespace brim::deploy
