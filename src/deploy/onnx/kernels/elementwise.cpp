// Kernels of one element at a time.
#include <cmath>
#include <limits>

#include <brim/formula/formula.h>

#include "deploy/onnx/translation.h"

namespace brim::deploy {
namespace {

using formula::Params;

const Params& numbers(const Translated& t) { return t.option<Params>(); }

Value number(Translated& t, double value) { return t.graph.scalar(value, t.dtype("x")); }

template <size_t N>
struct Name {
  char text[N];
  constexpr Name(const char (&name)[N]) { std::copy_n(name, N, text); }  // NOLINT: of a literal
};

/// Kernels that are one operator.
template <Name op>
void unary(Translated& t) {
  t.out("y", t.graph.add(op.text, {t.in("x")}, t.like("y")));
}
template <Name op>
void binary(Translated& t) {
  t.out("y", t.graph.add(op.text, {t.in_broadcast("a"), t.in_broadcast("b")}, t.like("y")));
}
/// The number is the second operand.
template <Name op>
void with_number(Translated& t) {
  t.out("y", t.graph.add(op.text, {t.in("x"), number(t, numbers(t).a)}, t.like("y")));
}

#define BRIM_ONNX_UNARY(kernel, op) register_translation(kernel, op, &unary<op>)
const bool registered_unary =
    BRIM_ONNX_UNARY("neg", "Neg") && BRIM_ONNX_UNARY("abs", "Abs") &&
    BRIM_ONNX_UNARY("exp", "Exp") && BRIM_ONNX_UNARY("log", "Log") &&
    BRIM_ONNX_UNARY("sqrt", "Sqrt") && BRIM_ONNX_UNARY("reciprocal", "Reciprocal") &&
    BRIM_ONNX_UNARY("sin", "Sin") && BRIM_ONNX_UNARY("cos", "Cos") &&
    BRIM_ONNX_UNARY("tanh", "Tanh") && BRIM_ONNX_UNARY("erf", "Erf") &&
    BRIM_ONNX_UNARY("sign", "Sign") && BRIM_ONNX_UNARY("floor", "Floor") &&
    BRIM_ONNX_UNARY("ceil", "Ceil") && BRIM_ONNX_UNARY("round", "Round") &&
    BRIM_ONNX_UNARY("relu", "Relu") && BRIM_ONNX_UNARY("sigmoid", "Sigmoid") &&
    BRIM_ONNX_UNARY("gelu", "Gelu");
#undef BRIM_ONNX_UNARY

#define BRIM_ONNX_BINARY(kernel, op) register_translation(kernel, op, &binary<op>)
const bool registered_binary =
    BRIM_ONNX_BINARY("mul", "Mul") && BRIM_ONNX_BINARY("div", "Div") &&
    BRIM_ONNX_BINARY("pow", "Pow") && BRIM_ONNX_BINARY("maximum", "Max") &&
    BRIM_ONNX_BINARY("minimum", "Min") && BRIM_ONNX_BINARY("eq", "Equal") &&
    BRIM_ONNX_BINARY("lt", "Less") && BRIM_ONNX_BINARY("le", "LessOrEqual") &&
    BRIM_ONNX_BINARY("gt", "Greater") && BRIM_ONNX_BINARY("ge", "GreaterOrEqual") &&
    BRIM_ONNX_BINARY("logical_and", "And") && BRIM_ONNX_BINARY("logical_or", "Or");
#undef BRIM_ONNX_BINARY

#define BRIM_ONNX_NUMBER(kernel, op) register_translation(kernel, op, &with_number<op>)
const bool registered_with_number =
    BRIM_ONNX_NUMBER("add_scalar", "Add") && BRIM_ONNX_NUMBER("mul_scalar", "Mul") &&
    BRIM_ONNX_NUMBER("div_scalar", "Div") && BRIM_ONNX_NUMBER("pow_scalar", "Pow") &&
    BRIM_ONNX_NUMBER("eq_scalar", "Equal") && BRIM_ONNX_NUMBER("lt_scalar", "Less") &&
    BRIM_ONNX_NUMBER("le_scalar", "LessOrEqual") && BRIM_ONNX_NUMBER("gt_scalar", "Greater") &&
    BRIM_ONNX_NUMBER("ge_scalar", "GreaterOrEqual");
#undef BRIM_ONNX_NUMBER

/// a + alpha * b
void add(Translated& t) {
  const double alpha = numbers(t).a;
  Value b = t.in_broadcast("b");
  if (alpha != 1) b = t.graph.add("Mul", {b, t.graph.scalar(alpha, b.dtype)}, {b.shape, b.dtype});
  t.out("y", t.graph.add("Add", {t.in_broadcast("a"), b}, t.like("y")));
}

void not_equal(Translated& t) {
  const Value same = t.graph.add("Equal", {t.in_broadcast("a"), t.in_broadcast("b")}, t.like("y"));
  t.out("y", t.graph.add("Not", {same}, t.like("y")));
}

void not_equal_to_number(Translated& t) {
  const Value same = t.graph.add("Equal", {t.in("x"), number(t, numbers(t).a)}, t.like("y"));
  t.out("y", t.graph.add("Not", {same}, t.like("y")));
}

void is_finite(Translated& t) {
  const Value x = t.in("x");
  const Value either = t.graph.add(
      "Or", {t.graph.add("IsNaN", {x}, t.like("y")), t.graph.add("IsInf", {x}, t.like("y"))},
      t.like("y"));
  t.out("y", t.graph.add("Not", {either}, t.like("y")));
}

void square(Translated& t) {
  const Value x = t.in("x");
  t.out("y", t.graph.add("Mul", {x, x}, t.like("y")));
}

void rsqrt(Translated& t) {
  const Value root = t.graph.add("Sqrt", {t.in("x")}, t.like("y"));
  t.out("y", t.graph.add("Reciprocal", {root}, t.like("y")));
}

void silu(Translated& t) {
  const Value x = t.in("x");
  t.out("y", t.graph.add("Mul", {x, t.graph.add("Sigmoid", {x}, t.like("y"))}, t.like("y")));
}

void gelu_tanh(Translated& t) {
  t.out("y", t.graph.add("Gelu", {t.in("x")}, t.like("y"), {{"approximate", std::string("tanh")}}));
}

void leaky_relu(Translated& t) {
  t.out("y", t.graph.add("LeakyRelu", {t.in("x")}, t.like("y"),
                         {{"alpha", static_cast<float>(numbers(t).a)}}));
}

void elu(Translated& t) {
  t.out("y", t.graph.add("Elu", {t.in("x")}, t.like("y"),
                         {{"alpha", static_cast<float>(numbers(t).a)}}));
}

/// log(1 + exp(a x)) / a
void softplus(Translated& t) {
  const double a = numbers(t).a;
  Value x = t.in("x");
  if (a != 1) x = t.graph.add("Mul", {x, number(t, a)}, t.like("y"));
  Value y = t.graph.add("Softplus", {x}, t.like("y"));
  if (a != 1) y = t.graph.add("Div", {y, number(t, a)}, t.like("y"));
  t.out("y", y);
}

/// A logarithm of another base.
template <int base>
void log_of_base(Translated& t) {
  const Value log = t.graph.add("Log", {t.in("x")}, t.like("y"));
  t.out("y", t.graph.add("Div", {log, number(t, std::log(base))}, t.like("y")));
}

void clamp(Translated& t) {
  const Params& p = numbers(t);
  const auto bound = [&](double value) { return std::isinf(value) ? Value() : number(t, value); };
  t.out("y", t.graph.add("Clip", {t.in("x"), bound(p.a), bound(p.b)}, t.like("y")));
}

/// The remainder with the sign of a.
void fmod(Translated& t) {
  t.out("y", t.graph.add("Mod", {t.in_broadcast("a"), t.in_broadcast("b")}, t.like("y"),
                         {{"fmod", int64_t{1}}}));
}

void where(Translated& t) {
  t.out("y", t.graph.add("Where",
                         {t.in_broadcast("condition"), t.in_broadcast("a"), t.in_broadcast("b")},
                         t.like("y")));
}

void masked_fill(Translated& t) {
  const Params& p = numbers(t);
  const Value mask = t.in_broadcast("mask"), x = t.in_broadcast("x"), fill = number(t, p.a);
  const bool is_inverted = p.b != 0;
  t.out("y",
        t.graph.add("Where", {mask, is_inverted ? x : fill, is_inverted ? fill : x}, t.like("y")));
}

const bool registered_others =
    register_translation("add", "Add", &add) &&
    register_translation("ne", "Equal, Not", &not_equal) &&
    register_translation("ne_scalar", "Equal, Not", &not_equal_to_number) &&
    register_translation("isfinite", "IsNaN, IsInf, Or, Not", &is_finite) &&
    register_translation("square", "Mul", &square) &&
    register_translation("rsqrt", "Sqrt, Reciprocal", &rsqrt) &&
    register_translation("silu", "Sigmoid, Mul", &silu) &&
    register_translation("gelu_tanh", "Gelu", &gelu_tanh) &&
    register_translation("leaky_relu", "LeakyRelu", &leaky_relu) &&
    register_translation("elu", "Elu", &elu) &&
    register_translation("softplus", "Softplus", &softplus) &&
    register_translation("log2", "Log, Div", &log_of_base<2>) &&
    register_translation("log10", "Log, Div", &log_of_base<10>) &&
    register_translation("clamp", "Clip", &clamp) && register_translation("fmod", "Mod", &fmod) &&
    register_translation("where", "Where", &where) &&
    register_translation("masked_fill", "Where", &masked_fill);

}  // namespace
}  // namespace brim::deploy
