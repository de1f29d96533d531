// Normalisation and softmax.
#include <initializer_list>

#include "backend/options/norm_params.h"
#include "deploy/onnx/translation.h"

namespace brim::deploy {
namespace {

void batch_norm(Translated& t) {
  const auto& p = t.option<backend::BatchNormParams>();
  BRIM_CHECK(!p.training && t.has("fixed_mean"), NotImplemented,
             "it normalises by the statistics of the batch, as in training");
  const Extents channels = {t.shape("x")[1]};
  const DType parameters = t.dtype("fixed_mean");
  t.out("y", t.graph.add(
                 "BatchNormalization",
                 {t.in("x"), t.in_or("weight", 1, channels, parameters),
                  t.in_or("bias", 0, channels, parameters), t.in("fixed_mean"), t.in("fixed_var")},
                 t.like("y"), {{"epsilon", static_cast<float>(p.eps)}}));
}

/// How many axes are normalised: they hold what `scale` has one number for.
size_t normalized_axes(const Translated& t, std::initializer_list<const char*> parameters) {
  for (const char* parameter : parameters)
    if (t.has(parameter)) return t.rank(parameter);
  const Extents x = t.shape("x"), rows = t.shape("scale");
  std::optional<Extent> count = Extent(1);
  for (size_t axis = 0; axis < x.size() && count; ++axis) {
    if (*count == rows[0]) return x.size() - axis;
    count = product(*count, x[axis]);
  }
  return 1;
}

void layer_norm(Translated& t) {
  const auto axes = static_cast<int64_t>(normalized_axes(t, {"weight", "bias"}));
  const Extents x = t.shape("x"), shape(x.end() - axes, x.end());
  const Value bias = t.has("bias") ? t.in("bias") : Value();
  t.out("y", t.graph.add("LayerNormalization",
                         {t.in("x"), t.in_or("weight", 1, shape, t.dtype("x")), bias}, t.like("y"),
                         {{"axis", -axes}, {"epsilon", static_cast<float>(t.option<double>())}}));
}

/// By single operators, which all runtimes have; those of 16 bits in f32.
void rms_norm(Translated& t) {
  const Extents shape = t.shape("x");
  Extents rows = shape;
  std::vector<int64_t> axes;
  for (size_t i = shape.size() - normalized_axes(t, {"weight"}); i < shape.size(); ++i) {
    axes.push_back(static_cast<int64_t>(i));
    rows[i] = 1;
  }
  const DType dtype = t.dtype("scale");
  const Value x = t.graph.cast(t.in("x"), dtype);
  const Value square = t.graph.add("Mul", {x, x}, {shape, dtype});
  const Value mean = t.graph.add("ReduceMean", {square, t.graph.integers(axes)}, {rows, dtype},
                                 {{"keepdims", int64_t{1}}});
  const Value sum =
      t.graph.add("Add", {mean, t.graph.scalar(t.option<double>(), dtype)}, {rows, dtype});
  const Value root = t.graph.add("Sqrt", {sum}, {rows, dtype});
  Value y = t.graph.add("Div", {x, root}, {shape, dtype});
  if (t.has("weight"))
    y = t.graph.add("Mul", {y, t.graph.cast(t.in("weight"), dtype)}, {shape, dtype});
  t.out("y", t.graph.cast(y, t.dtype("y")));
}

void group_norm(Translated& t) {
  const auto& p = t.option<backend::GroupNormParams>();
  const Extents x = t.shape("x");
  std::optional<Extent> rest = quotient(x[1], p.groups);
  for (size_t i = 2; i < x.size() && rest; ++i) rest = product(*rest, x[i]);
  BRIM_CHECK(rest, deploy::DependsOnBatch, "a size depends on the batch");
  const Extents grouped = {x[0], p.groups, *rest};
  const DType dtype = t.dtype("x");
  const Value rows = t.graph.reshape(t.in("x"), grouped);
  const Value normal = t.graph.add(
      "InstanceNormalization", {rows, t.filled(1, p.groups, dtype), t.filled(0, p.groups, dtype)},
      {grouped, dtype}, {{"epsilon", static_cast<float>(p.eps)}});
  Value y = t.graph.reshape(normal, x);
  Extents along(x.size() - 1, 1);
  along[0] = x[1];
  if (t.has("weight"))
    y = t.graph.add("Mul", {y, t.graph.reshape(t.in("weight"), along)}, t.like("y"));
  if (t.has("bias")) y = t.graph.add("Add", {y, t.graph.reshape(t.in("bias"), along)}, t.like("y"));
  t.out("y", y);
}

void softmax(Translated& t) {
  t.out("y", t.graph.add(t.kernel() == "softmax" ? "Softmax" : "LogSoftmax", {t.in("x")},
                         t.like("y"), {{"axis", int64_t{t.option<int>()}}}));
}

const bool registered_norms =
    register_translation("batch_norm", "BatchNormalization, with fixed statistics", &batch_norm) &&
    register_translation("layer_norm", "LayerNormalization", &layer_norm) &&
    register_translation("rms_norm", "Mul, ReduceMean, Add, Sqrt, Div, Mul", &rms_norm) &&
    register_translation("group_norm", "Reshape, InstanceNormalization, Reshape, Mul, Add",
                         &group_norm) &&
    register_translation("softmax", "Softmax", &softmax) &&
    register_translation("log_softmax", "LogSoftmax", &softmax);

}  // namespace
}  // namespace brim::deploy
