// Layers in 8-bit integers, and f32 to u8.
#include "deploy/engine/operators/int8.h"

#include <cstdlib>

#include "backend/cpu/conv/winograd_tiles.h"
#include "deploy/engine/operators/left_side.h"
#include "deploy/engine/operators/windows.h"
#include "deploy/engine/weight_layout.h"
#include "rt/kernels/int8.h"

namespace brim::deploy {
namespace {

/// In as many numbers as the panels have outputs.
uint32_t add_outputs_of(Lowering& to, std::vector<float> numbers, int64_t outputs) {
  numbers.resize(static_cast<size_t>(rt::panels_of(outputs) * rt::kPanel), 0.0F);
  const auto count = static_cast<int64_t>(numbers.size());
  return to.constant(Tensor::from<float>(numbers, {count}), {count});
}

/// Weights, scales and what is added, behind x.
std::vector<uint32_t> operands_of(Lowering& to, const EngineNode& node, uint32_t x,
                                  const std::vector<uint8_t>& panels) {
  const EngineIntegers& weight = *to.network.values[static_cast<size_t>(node.inputs[1])].integers;
  const int64_t outputs = weight.scales.numel();
  std::vector<float> scales = weight.scales.to_vector<float>(), shifts;
  for (float& scale : scales) scale *= node.quantized_input->scale;
  if (node.has(2)) {
    BRIM_CHECK(to.network.is_constant(node, 2) && to.network.constant(node, 2).numel() == outputs,
               NotImplemented, "a bias that is computed, or of another size than its outputs");
    shifts = to.network.constant(node, 2).to(DType::f32).contiguous().to_vector<float>();
  }
  const auto bytes = static_cast<int64_t>(panels.size());
  return {x, to.constant(Tensor::from<uint8_t>(panels, {bytes}), {bytes}),
          add_outputs_of(to, scales, outputs), add_outputs_of(to, shifts, outputs)};
}

rt::Int8ConvolutionAttributes attributes_of(const EngineNode& node) {
  rt::Int8ConvolutionAttributes a = {.windows = {.low = node.low, .high = node.high},
                                     .zero_point = node.quantized_input->zero_point,
                                     .next = {}};
  if (node.quantized_output) a.next = quantize_attributes(*node.quantized_output);
  return a;
}

/// Whether Winograd's transform gives the sums of rows of such weights.
bool fit_winograd(const std::vector<int8_t>& weights, const Shape& w,
                  const rt::ConvolutionAttributes& windows) {
  rt::Int8Convolution k{};
  k.a = windows;
  k.o = w[0];
  k.c = w[1];
  if (!k.has_winograd()) return false;
  const auto row = static_cast<size_t>(w.numel() / w[0]);
  for (size_t begin = 0; begin < weights.size(); begin += row) {
    int64_t sum = 0;
    for (size_t i = begin; i < begin + row; ++i) sum += std::abs(int{weights[i]});
    if (sum > cpu::kMaxWinogradWeights) return false;
  }
  return true;
}

/// The step, whose results are f32, u8 or both, as `set(id of the network, result)` is told.
template <class Set>
void add_int8_step(Lowering& to, rt::OpCode op, const EngineNode& node,
                   std::vector<uint32_t> operands, const std::vector<int64_t>& dims,
                   const rt::Int8ConvolutionAttributes& a, const Set& set) {
  std::vector<uint32_t> results;
  if (node.is_kept) {
    results.push_back(to.made(dims));
    set(node.outputs[0], results.back());
  }
  if (node.quantized_output) {
    results.push_back(to.made(dims, rt::DType::u8));
    set(node.outputs[1], results.back());
  }
  to.step(op, std::move(operands), std::move(results), a);
}

void quantize_linear(Lowering& to, const EngineNode& node) {
  const std::optional<double> scale = to.network.number(node, 1), zero = to.network.number(node, 2);
  BRIM_CHECK(scale && zero && to.network.constant(node, 2).dtype() == DType::u8, NotImplemented,
             "other integers than u8 with one scale for a tensor");
  const rt::QuantizeAttributes a =
      quantize_attributes({static_cast<float>(*scale), static_cast<int32_t>(*zero)});
  const int id = node.inputs[0];
  const Shape shape = to.network.values[static_cast<size_t>(id)].shape;
  const bool is_image = to.is_nhwc(id);
  if (!is_image && shape.rank() == 4 && shape[1] == 3) {
    const uint32_t y = to.made({shape[0], shape[2], shape[3], shape[1]}, rt::DType::u8);
    to.step(rt::OpCode::quantize_colours, {to.plain(id)}, std::vector<uint32_t>{y}, a);
    to.set_nhwc(node.outputs[0], y);
    return;
  }
  const uint32_t x = is_image ? to.nhwc(id) : to.plain(id);
  const uint32_t y = to.made(to.value(x).dims, rt::DType::u8);
  to.step(rt::OpCode::quantize, {x}, std::vector<uint32_t>{y}, a);
  is_image ? to.set_nhwc(node.outputs[0], y) : to.set_plain(node.outputs[0], y);
}

const bool registered_int8 = register_operator("QuantizeLinear", &quantize_linear);

}  // namespace

rt::QuantizeAttributes quantize_attributes(QuantParams params) {
  return {.inverse = double{1 / params.scale}, .zero_point = params.zero_point};
}

void int8_convolution(Lowering& to, const EngineNode& node) {
  const Tensor& values = to.network.values[static_cast<size_t>(node.inputs[1])].integers->values;
  const Shape w = values.shape();
  BRIM_CHECK(w.rank() == 4, NotImplemented, "kernels of {} axes", w.rank() - 2);
  rt::Int8ConvolutionAttributes a = attributes_of(node);
  OnnxWindows(node).put_into(a.windows);
  const bool is_joined = a.windows.dilation_w == 1;  // columns
  const std::vector<int8_t> weights = values.to_vector<int8_t>();
  const std::vector<uint8_t> panels =
      panels_of_integers(weights, w[0], w[1], is_joined ? w[2] : w[2] * w[3], is_joined ? w[3] : 1);
  std::vector<uint32_t> operands = operands_of(to, node, to.nhwc(node.inputs[0]), panels);
  if (node.residual >= 0) operands.push_back(to.nhwc(node.residual));
  const Shape y = to.network.values[static_cast<size_t>(node.outputs[0])].shape;
  const rt::OpCode op = fit_winograd(weights, w, a.windows) ? rt::OpCode::int8_winograd
                                                            : rt::OpCode::int8_convolution;
  add_int8_step(to, op, node, std::move(operands), {y[0], y[2], y[3], y[1]}, a,
                [&](int id, uint32_t result) { to.set_nhwc(id, result); });
}

void int8_product(Lowering& to, const EngineNode& node) {
  const Tensor& values = to.network.values[static_cast<size_t>(node.inputs[1])].integers->values;
  const int64_t outputs = values.shape()[0], inputs = values.shape()[1];
  std::vector<int8_t> weights = values.to_vector<int8_t>();
  const uint32_t x = left_side(to, node, weights, outputs);
  const Shape shape = to.network.values[static_cast<size_t>(node.outputs[0])].shape;
  const int64_t rows = shape.numel() / outputs;
  std::vector<uint32_t> operands = operands_of(to, node, to.view(x, {1, 1, rows, inputs}),
                                               panels_of_integers(weights, outputs, inputs, 1, 1));
  const std::vector<int64_t> dims = {1, 1, rows, outputs};
  if (node.residual >= 0) operands.push_back(to.view(to.plain(node.residual), dims));
  add_int8_step(
      to, rt::OpCode::int8_convolution, node, std::move(operands), dims, attributes_of(node),
      [&](int id, uint32_t result) { to.set_plain(id, to.view(result, dims_of(shape))); });
}

}  // namespace brim::deploy
