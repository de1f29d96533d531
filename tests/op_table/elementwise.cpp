// Functions of one tensor, arithmetic, comparisons, selection by masks, and what works in place.
#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/create.h>
#include <brim/ops/dropout.h>
#include <brim/ops/unary.h>

#include "op_table/op_table.h"

namespace brim::tests {
namespace {

/// An op in place, on a copy of its first input in that one's layout where it is dense.
template <class F>
auto in_place(F f) {
  return [f](const Call& c) {
    Tensor y = c[0].clone();
    f(y, c);
    return y;
  };
}

}  // namespace

OpTable elementwise_ops() {
  return {
      {"neg", [](const Call& c) { return neg(c[0]); }},
      {"abs", [](const Call& c) { return abs(c[0]); }},
      {"exp", [](const Call& c) { return exp(c[0]); }},
      {"expm1", [](const Call& c) { return expm1(c[0]); }},
      {"log", [](const Call& c) { return log(c[0]); }},
      {"log1p", [](const Call& c) { return log1p(c[0]); }},
      {"log2", [](const Call& c) { return log2(c[0]); }},
      {"log10", [](const Call& c) { return log10(c[0]); }},
      {"sqrt", [](const Call& c) { return sqrt(c[0]); }},
      {"rsqrt", [](const Call& c) { return rsqrt(c[0]); }},
      {"square", [](const Call& c) { return square(c[0]); }},
      {"reciprocal", [](const Call& c) { return reciprocal(c[0]); }},
      {"sin", [](const Call& c) { return sin(c[0]); }},
      {"cos", [](const Call& c) { return cos(c[0]); }},
      {"tanh", [](const Call& c) { return tanh(c[0]); }},
      {"erf", [](const Call& c) { return erf(c[0]); }},
      {"pow_scalar", [](const Call& c) { return pow(c[0], c.number("exponent")); }},
      {"clamp",
       [](const Call& c) {
         return clamp(c[0], c.optional_number("min"), c.optional_number("max"));
       }},
      {"sign", [](const Call& c) { return sign(c[0]); }},
      {"floor", [](const Call& c) { return floor(c[0]); }},
      {"ceil", [](const Call& c) { return ceil(c[0]); }},
      {"round", [](const Call& c) { return round(c[0]); }},
      {"sigmoid", [](const Call& c) { return sigmoid(c[0]); }},
      {"relu", [](const Call& c) { return relu(c[0]); }},
      {"leaky_relu", [](const Call& c) { return leaky_relu(c[0], c.number("negative_slope")); }},
      {"elu", [](const Call& c) { return elu(c[0], c.number("alpha")); }},
      {"gelu",
       [](const Call& c) {
         return gelu(c[0], c.text("approximate") == "tanh" ? GeluForm::tanh : GeluForm::exact);
       }},
      {"silu", [](const Call& c) { return silu(c[0]); }},
      {"softplus",
       [](const Call& c) { return softplus(c[0], c.number("beta"), c.number("threshold")); }},
      {"dropout", [](const Call& c) { return dropout(c[0], c.number("p"), c.flag("training")); }},

      {"add", [](const Call& c) { return add(c[0], c[1], c.number("alpha", 1)); }},
      {"sub", [](const Call& c) { return sub(c[0], c[1], c.number("alpha", 1)); }},
      {"mul", [](const Call& c) { return mul(c[0], c[1]); }},
      {"div", [](const Call& c) { return div(c[0], c[1]); }},
      {"pow", [](const Call& c) { return pow(c[0], c[1]); }},
      {"maximum", [](const Call& c) { return maximum(c[0], c[1]); }},
      {"minimum", [](const Call& c) { return minimum(c[0], c[1]); }},
      {"atan2", [](const Call& c) { return atan2(c[0], c[1]); }},
      {"remainder", [](const Call& c) { return remainder(c[0], c[1]); }},
      {"fmod", [](const Call& c) { return fmod(c[0], c[1]); }},
      {"remainder_scalar", [](const Call& c) { return remainder(c[0], c.number("other")); }},
      {"fmod_scalar", [](const Call& c) { return fmod(c[0], c.number("other")); }},
      {"add_scalar", [](const Call& c) { return add(c[0], c.number("other")); }},
      {"sub_scalar", [](const Call& c) { return sub(c[0], c.number("other")); }},
      {"rsub_scalar", [](const Call& c) { return sub(c.number("other"), c[0]); }},
      {"mul_scalar", [](const Call& c) { return mul(c[0], c.number("other")); }},
      {"div_scalar", [](const Call& c) { return div(c[0], c.number("other")); }},
      {"rdiv_scalar", [](const Call& c) { return div(c.number("other"), c[0]); }},

      {"eq", [](const Call& c) { return eq(c[0], c[1]); }},
      {"ne", [](const Call& c) { return ne(c[0], c[1]); }},
      {"lt", [](const Call& c) { return lt(c[0], c[1]); }},
      {"le", [](const Call& c) { return le(c[0], c[1]); }},
      {"gt", [](const Call& c) { return gt(c[0], c[1]); }},
      {"ge", [](const Call& c) { return ge(c[0], c[1]); }},
      {"eq_scalar", [](const Call& c) { return eq(c[0], c.number("other")); }},
      {"ne_scalar", [](const Call& c) { return ne(c[0], c.number("other")); }},
      {"lt_scalar", [](const Call& c) { return lt(c[0], c.number("other")); }},
      {"le_scalar", [](const Call& c) { return le(c[0], c.number("other")); }},
      {"gt_scalar", [](const Call& c) { return gt(c[0], c.number("other")); }},
      {"ge_scalar", [](const Call& c) { return ge(c[0], c.number("other")); }},
      {"isnan", [](const Call& c) { return isnan(c[0]); }},
      {"isfinite", [](const Call& c) { return isfinite(c[0]); }},
      {"logical_not", [](const Call& c) { return logical_not(c[0]); }},
      {"logical_and", [](const Call& c) { return logical_and(c[0], c[1]); }},
      {"logical_or", [](const Call& c) { return logical_or(c[0], c[1]); }},
      {"logical_xor", [](const Call& c) { return logical_xor(c[0], c[1]); }},
      {"where", [](const Call& c) { return where(c[0], c[1], c[2]); }},
      {"masked_fill", [](const Call& c) { return masked_fill(c[0], c[1], c.number("value")); }},
      {"cast", [](const Call& c) { return c[0].to(c.dtype()); }},

      {"add_", in_place([](Tensor& y, const Call& c) { y.add_(c[1], c.number("alpha", 1)); })},
      {"mul_", in_place([](Tensor& y, const Call& c) { y.mul_(c[1]); })},
      {"div_", in_place([](Tensor& y, const Call& c) { y.div_(c[1]); })},
      {"copy_", in_place([](Tensor& y, const Call& c) { y.copy_(c[1]); })},
      {"fill_", in_place([](Tensor& y, const Call& c) { y.fill_(c.number("value")); })},

      {"full",
       [](const Call& c) { return full(c.shape("shape"), c.number("value"), c.options()); }},
      {"zeros", [](const Call& c) { return zeros(c.shape("shape"), c.options()); }},
      {"ones", [](const Call& c) { return ones(c.shape("shape"), c.options()); }},
      {"zeros_like", [](const Call& c) { return zeros_like(c[0]); }},
      {"ones_like", [](const Call& c) { return ones_like(c[0]); }},
      {"full_like", [](const Call& c) { return full_like(c[0], c.number("value")); }},
      {"arange",
       [](const Call& c) {
         return arange(c.number("start"), c.number("end"), c.number("step"), c.options());
       }},
      {"linspace",
       [](const Call& c) {
         return linspace(c.number("start"), c.number("end"), c.get<int64_t>("steps"), c.options());
       }},
      {"eye",
       [](const Call& c) { return eye(c.get<int64_t>("n"), c.get<int64_t>("m"), c.options(f64)); }},
  };
}

}  // namespace brim::tests
