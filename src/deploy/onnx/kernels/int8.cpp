// Layers in 8-bit integers as QDQ: integers between QuantizeLinear and DequantizeLinear, and the
// layer in f32 behind them, which ONNX Runtime and TensorRT join to one in integers.
#include <brim/ops/binary.h>
#include <brim/ops/create.h>

#include <algorithm>

#include "backend/options/int8.h"
#include "deploy/onnx/kernels/layers.h"

namespace brim::deploy {
namespace {

using backend::Int8Call;

/// Scale and zero point, as the file has them.
struct OnnxQuantization {
  Value scale, zero;
  explicit OnnxQuantization(Translated& t, QuantParams params) {
    if (!t.symmetric_int8) {
      scale = t.graph.scalar(params.scale, DType::f32);
      zero = t.graph.scalar(params.zero_point, DType::u8);
      return;
    }
    const float reach = std::max(-params.min(), params.max());
    scale = t.graph.scalar(reach / 127, DType::f32);
    zero = t.graph.scalar(0, DType::i8);
  }
};

Value quantized(Translated& t, const Value& x, QuantParams params) {
  const OnnxQuantization q(t, params);
  return t.graph.add("QuantizeLinear", {x, q.scale, q.zero}, {x.shape, q.zero.dtype});
}

Value dequantized(Translated& t, const Value& x, QuantParams params) {
  const OnnxQuantization q(t, params);
  return t.graph.add("DequantizeLinear", {x, q.scale, q.zero}, {x.shape, DType::f32});
}

/// The operands of the layer in f32.
struct Int8Operands {
  Value x, weight, bias;
};

Int8Operands operands_of(Translated& t, const Value& x) {
  const Translated::Int8Layer layer = t.int8_layer();
  BRIM_CHECK(layer.weight, NotImplemented,
             "its weight is of no nn::Linear or nn::Conv2d of the network");
  const Int8Weight& w = *layer.weight;
  // A scale of 0 tells an output of zeros alone: TensorRT wants one above it.
  std::vector<float> scales = w.scales.to_vector<float>();
  for (float& scale : scales)
    if (scale == 0) scale = 1;
  const int64_t outputs = w.shape()[0];
  const Value values = t.graph.initializer(layer.name + ".values", w.values);
  const Value scale =
      t.graph.initializer(layer.name + ".scales", Tensor::from<float>(scales, {outputs}));
  const Value zeros_of =
      t.graph.initializer(layer.name + ".zeros", zeros({outputs}, {.dtype = DType::i8}));
  Int8Operands all{.x = dequantized(t, x, t.option<Int8Call>().input),
                   .weight = t.graph.add("DequantizeLinear", {values, scale, zeros_of},
                                         {values.shape, DType::f32}, {{"axis", int64_t{0}}}),
                   .bias = {}};
  if (!w.correction.defined()) {
    if (t.has("bias")) all.bias = t.in("bias");
    return all;
  }
  const Tensor bias = t.constant("bias");
  const std::string name = layer.name + ".correction";
  if (bias.defined() || !t.has("bias")) {
    all.bias = t.graph.initializer(name, bias.defined() ? bias + w.correction : w.correction);
  } else {
    const Value computed = t.in("bias");
    all.bias = t.graph.add("Add", {computed, t.graph.initializer(name, w.correction)},
                           {computed.shape, DType::f32});
  }
  return all;
}

/// What comes behind the layer.
Value finished(Translated& t, Value y) {
  const Int8Call& call = t.option<Int8Call>();
  if (call.relu) y = t.graph.add("Relu", {y}, {y.shape, y.dtype});
  return call.output ? quantized(t, y, *call.output) : y;
}

void int8_linear(Translated& t) {
  const Int8Operands o = operands_of(t, t.in_rows("x"));
  t.out_rows("y", finished(t, linear_product(t.graph, o.x, o.weight, o.bias)));
}

void int8_conv2d(Translated& t) {
  const Int8Operands o = operands_of(t, t.in("x"));
  t.out("y", finished(t, t.graph.add("Conv", {o.x, o.weight, o.bias}, {t.shape("y"), DType::f32},
                                     convolution_attributes(t.sizes<backend::ConvGeometry>()))));
}

void quantize(Translated& t) { t.out("y", quantized(t, t.in("x"), t.option<QuantParams>())); }
void dequantize(Translated& t) { t.out("y", dequantized(t, t.in("x"), t.option<QuantParams>())); }

const bool registered_int8 =
    register_translation("quantize", "QuantizeLinear", &quantize) &&
    register_translation("dequantize", "DequantizeLinear", &dequantize) &&
    register_translation("int8_linear", "DequantizeLinear of both operands, then as linear",
                         &int8_linear) &&
    register_translation("int8_conv2d", "DequantizeLinear of both operands, Conv", &int8_conv2d);

}  // namespace
}  // namespace brim::deploy
