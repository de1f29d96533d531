// Products and convolutions.
#include "deploy/onnx/kernels/layers.h"
#include "backend/options/geometry.h"

namespace brim::deploy {

std::vector<Attribute> convolution_attributes(const backend::ConvGeometry& g) {
  using Sizes = std::vector<int64_t>;
  return {{"kernel_shape", Sizes{g.kh, g.kw}},
          {"strides", Sizes{g.stride.h, g.stride.w}},
          {"pads", Sizes{g.padding.h, g.padding.w, g.padding.h, g.padding.w}},
          {"dilations", Sizes{g.dilation.h, g.dilation.w}},
          {"group", g.groups}};
}

Value linear_product(OnnxGraph& graph, const Value& x, const Value& weight, const Value& bias) {
  Extents shape = x.shape;
  shape.back() = weight.shape[0];
  const Output y{shape, x.dtype};
  if (x.shape.size() == 2) return graph.add("Gemm", {x, weight, bias}, y, {{"transB", int64_t{1}}});
  const Value product = graph.add("MatMul", {x, graph.transpose(weight, {1, 0})}, y);
  return bias.name.empty() ? product : graph.add("Add", {product, bias}, y);
}

namespace {

using backend::ConvGeometry;

void linear(Translated& t) {
  const Value x = t.in_rows("x"), weight = t.in("weight");
  const Value bias = t.has("bias") ? t.in("bias") : Value();
  t.out_rows("y", linear_product(t.graph, x, weight, bias));
  t.keep_product("y", {.x = x, .weight = weight, .bias = bias});
}

void matmul(Translated& t) {
  const Window b = t.window("b");
  if (b.shape.size() > 2) {
    t.out("y", t.graph.add("MatMul", {t.in_broadcast("a"), t.in_broadcast("b")}, t.like("y")));
    return;
  }
  const Value x = t.in_rows("a");
  Extents shape = x.shape;
  shape.back() = b.shape[1];
  t.out_rows("y", t.graph.add("MatMul", {x, t.in("b")}, {shape, x.dtype}));
}

void conv2d(Translated& t) {
  t.out("y",
        t.graph.add("Conv", {t.in("x"), t.in("weight"), t.has("bias") ? t.in("bias") : Value()},
                    t.like("y"), convolution_attributes(t.sizes<ConvGeometry>())));
}

/// The convolution's gradient of x, which is what a transposed one computes.
void conv_transpose2d(Translated& t) {
  const ConvGeometry& g = t.sizes<ConvGeometry>();
  std::vector<Attribute> attributes = convolution_attributes(g);
  const auto rest = [](int64_t size, int64_t out, int64_t stride, int64_t padding, int64_t dilation,
                       int64_t kernel) {
    return size - ((out - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1);
  };
  attributes.push_back(
      {"output_padding",
       std::vector<int64_t>{rest(g.h, g.oh, g.stride.h, g.padding.h, g.dilation.h, g.kh),
                            rest(g.w, g.ow, g.stride.w, g.padding.w, g.dilation.w, g.kw)}});
  t.out("dx", t.graph.add("ConvTranspose", {t.in("dy"), t.in("weight")}, t.like("dx"),
                          std::move(attributes)));
}

const bool registered_layers =
    register_translation("linear", "Gemm; of more axes Transpose, MatMul, Add", &linear) &&
    register_translation("matmul", "MatMul", &matmul) &&
    register_translation("conv2d", "Conv", &conv2d) &&
    register_translation("conv2d_grad_x", "ConvTranspose", &conv_transpose2d);

}  // namespace
}  // namespace brim::deploy
