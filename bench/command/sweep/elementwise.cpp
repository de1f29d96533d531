// Elementwise ops: dense, strided, transposed and broadcast operands; in place; with gradients.
#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/create.h>
#include <brim/ops/unary.h>

#include "bench/command/sweep/operands.h"

namespace brim::command {
namespace {

using UnaryFunction = Tensor (*)(const Tensor&);
using BinaryFunction = Tensor (*)(const Tensor&, const Tensor&);

const std::vector<std::string> kBroadcasts = {"row-10", "row-256", "column", "channel-nchw",
                                              "channel-nhwc"};
const std::vector<DType> kNumbers = {f32, bf16, f16, i64};

struct UnaryOp {
  const char* name;
  UnaryFunction function;
  Values operand = Values::normal;
  bool trains = false;
};

const UnaryOp kUnaryOps[] = {
    {"neg", neg},
    {"abs", abs},
    {"exp", exp, Values::normal, true},
    {"expm1", expm1},
    {"log", log, Values::positive, true},
    {"log1p", log1p, Values::positive},
    {"log2", log2, Values::positive},
    {"log10", log10, Values::positive},
    {"sqrt", sqrt, Values::positive, true},
    {"rsqrt", rsqrt, Values::positive},
    {"square", square, Values::normal, true},
    {"reciprocal", reciprocal, Values::positive},
    {"sin", sin},
    {"cos", cos},
    {"tanh", tanh, Values::normal, true},
    {"erf", erf},
    {"pow-2.5", [](const Tensor& x) { return pow(x, 2.5); }, Values::positive},
    {"clamp", [](const Tensor& x) { return clamp(x, -0.5, 0.5); }, Values::normal, true},
    {"sign", sign},
    {"floor", floor},
    {"ceil", ceil},
    {"round", round},
    {"sigmoid", sigmoid, Values::normal, true},
    {"relu", relu, Values::normal, true},
    {"leaky_relu", [](const Tensor& x) { return leaky_relu(x); }},
    {"elu", [](const Tensor& x) { return elu(x); }},
    {"gelu", [](const Tensor& x) { return gelu(x); }, Values::normal, true},
    {"gelu-tanh", [](const Tensor& x) { return gelu(x, GeluForm::tanh); }, Values::normal, true},
    {"silu", silu, Values::normal, true},
    {"softplus", [](const Tensor& x) { return softplus(x); }, Values::normal, true},
    {"add-number", [](const Tensor& x) { return add(x, 2.5); }},
    {"mul-number", [](const Tensor& x) { return mul(x, 2.5); }},
    {"div-number", [](const Tensor& x) { return div(x, 2.5); }},
    {"remainder-number", [](const Tensor& x) { return remainder(x, 0.3); }},
};

struct BinaryOp {
  const char* name;
  BinaryFunction function;
  bool broadcasts = false;
  bool trains = false;
  std::vector<DType> dtypes = kFloats;
};

const BinaryOp kBinaryOps[] = {
    {"add", [](const Tensor& a, const Tensor& b) { return add(a, b); }, true, true, kNumbers},
    {"add-alpha", [](const Tensor& a, const Tensor& b) { return add(a, b, 0.5); }},
    {"sub", [](const Tensor& a, const Tensor& b) { return sub(a, b); }},
    {"mul", mul, true, true, kNumbers},
    {"div", div, true, true},
    {"pow", pow},
    {"maximum", maximum, false, true, kNumbers},
    {"minimum", minimum},
    {"atan2", atan2},
    {"remainder", remainder},
    {"fmod", fmod},
};

const BinaryOp kComparisons[] = {
    {"eq", eq, true, false, kNumbers},
    {"ne", ne},
    {"lt", lt, true, false, kNumbers},
    {"le", le},
    {"gt", gt},
    {"ge", ge},
    {"logical_and", logical_and, false, false, {bool_}},
    {"logical_or", logical_or, false, false, {bool_}},
    {"logical_xor", logical_xor, false, false, {bool_}},
};

/// The second operand of a case, the first being operand(c).
Tensor second_operand(const SweepCase& c, Values kind = Values::positive) {
  const Shape shape = operand_shape(c.layout, c.elements);
  if (c.layout.starts_with("row-")) return values({shape[1]}, c.dtype, kind);
  if (c.layout == "column") return values({shape[0], 1}, c.dtype, kind);
  if (c.layout.starts_with("channel-")) return values({shape[1], 1, 1}, c.dtype, kind);
  // Against a transposed operand a row-major one: a loop cannot go along both.
  return c.layout == "transposed" ? values(shape, c.dtype, kind) : operand(c, kind);
}

std::vector<std::string> layouts_of(bool broadcasts) {
  std::vector<std::string> layouts = kLayouts;
  if (broadcasts) layouts.insert(layouts.end(), kBroadcasts.begin(), kBroadcasts.end());
  return layouts;
}

void add_unary(std::vector<SweepOp>& ops) {
  for (const UnaryOp& op : kUnaryOps)
    ops.push_back({op.name, "unary", kLayouts, kFloats, [op](const SweepCase& c) {
                     return forward(op.function, operand(c, op.operand));
                   }});
}

void add_binary(std::vector<SweepOp>& ops) {
  for (const BinaryOp& op : kBinaryOps)
    ops.push_back(
        {op.name, "binary", layouts_of(op.broadcasts), op.dtypes, [op](const SweepCase& c) {
           return forward(op.function, operand(c, Values::positive), second_operand(c));
         }});
}

void add_in_place(std::vector<SweepOp>& ops) {
  ops.push_back({"add_", "binary", kLayouts, kFloats, [](const SweepCase& c) {
                   return forward([](Tensor x, const Tensor& y) { return x.add_(y); }, operand(c),
                                  second_operand(c, Values::normal));
                 }});
  ops.push_back({"mul_", "binary", kLayouts, kFloats, [](const SweepCase& c) {
                   return forward([](Tensor x, const Tensor& y) { return x.mul_(y); }, operand(c),
                                  ones_like(second_operand(c)));
                 }});
}

void add_comparisons(std::vector<SweepOp>& ops) {
  for (const BinaryOp& op : kComparisons)
    ops.push_back(
        {op.name, "compare", layouts_of(op.broadcasts), op.dtypes, [op](const SweepCase& c) {
           return forward(op.function, operand(c, Values::positive), second_operand(c));
         }});
  ops.push_back({"gt-number", "compare", kLayouts, kFloats, [](const SweepCase& c) {
                   return forward([](const Tensor& x) { return gt(x, 0.5); }, operand(c));
                 }});
  ops.push_back({"isnan", "compare", kLayouts, kFloats,
                 [](const SweepCase& c) { return forward(isnan, operand(c)); }});
  ops.push_back({"isfinite", "compare", kLayouts, kFloats,
                 [](const SweepCase& c) { return forward(isfinite, operand(c)); }});
  ops.push_back({"logical_not", "compare", kLayouts, {bool_}, [](const SweepCase& c) {
                   return forward(logical_not, operand(c));
                 }});
}

void add_choices(std::vector<SweepOp>& ops) {
  ops.push_back({"where", "compare", layouts_of(true), kFloats, [](const SweepCase& c) {
                   const Tensor x = operand(c);
                   return forward(where, gt(x, 0), x, second_operand(c));
                 }});
  ops.push_back({"masked_fill", "compare", kLayouts, kFloats, [](const SweepCase& c) {
                   const Tensor x = operand(c);
                   return forward(
                       [](const Tensor& a, const Tensor& mask) { return masked_fill(a, mask, 1); },
                       x, gt(x, 0));
                 }});
}

void add_gradients(std::vector<SweepOp>& ops) {
  for (const UnaryOp& op : kUnaryOps)
    if (op.trains)
      ops.push_back(
          {std::string(op.name) + "-train", "train", {"dense"}, kFloats, [op](const SweepCase& c) {
             return training(op.function, leaf({c.elements}, c.dtype, op.operand));
           }});
  for (const BinaryOp& op : kBinaryOps)
    if (op.trains)
      ops.push_back({std::string(op.name) + "-train",
                     "train",
                     {"dense", "row-256", "column"},
                     kFloats,
                     [op](const SweepCase& c) {
                       return training(op.function,
                                       operand(c, Values::positive).set_requires_grad(),
                                       second_operand(c).set_requires_grad());
                     }});
  ops.push_back({"where-train", "train", {"dense", "row-256"}, kFloats, [](const SweepCase& c) {
                   const Tensor x = operand(c);
                   return training(where, gt(x, 0), x.clone().set_requires_grad(),
                                   second_operand(c).set_requires_grad());
                 }});
}

}  // namespace

std::vector<SweepOp> sweep_elementwise() {
  std::vector<SweepOp> ops;
  for (const auto add :
       {add_unary, add_binary, add_in_place, add_comparisons, add_choices, add_gradients})
    add(ops);
  return ops;
}

}  // namespace brim::command
