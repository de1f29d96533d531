// Elementwise ops against PyTorch: one line per op says how a case becomes a call.
#include <optional>

#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/unary.h>

#include "golden/golden_case.h"

namespace golden {
namespace {

std::optional<double> bound(const Call& c, const char* key) {
  return c.has(key) ? std::optional(c.number(key)) : std::nullopt;
}

const Table kUnary = {
    {"neg", [](const Call& c) { return brim::neg(c[0]); }},
    {"abs", [](const Call& c) { return brim::abs(c[0]); }},
    {"exp", [](const Call& c) { return brim::exp(c[0]); }},
    {"log", [](const Call& c) { return brim::log(c[0]); }},
    {"sqrt", [](const Call& c) { return brim::sqrt(c[0]); }},
    {"rsqrt", [](const Call& c) { return brim::rsqrt(c[0]); }},
    {"sin", [](const Call& c) { return brim::sin(c[0]); }},
    {"cos", [](const Call& c) { return brim::cos(c[0]); }},
    {"tanh", [](const Call& c) { return brim::tanh(c[0]); }},
    {"sigmoid", [](const Call& c) { return brim::sigmoid(c[0]); }},
    {"relu", [](const Call& c) { return brim::relu(c[0]); }},
    {"silu", [](const Call& c) { return brim::silu(c[0]); }},
    {"erf", [](const Call& c) { return brim::erf(c[0]); }},
    {"square", [](const Call& c) { return brim::square(c[0]); }},
    {"reciprocal", [](const Call& c) { return brim::reciprocal(c[0]); }},
    {"expm1", [](const Call& c) { return brim::expm1(c[0]); }},
    {"log1p", [](const Call& c) { return brim::log1p(c[0]); }},
    {"sign", [](const Call& c) { return brim::sign(c[0]); }},
    {"floor", [](const Call& c) { return brim::floor(c[0]); }},
    {"ceil", [](const Call& c) { return brim::ceil(c[0]); }},
    {"round", [](const Call& c) { return brim::round(c[0]); }},
    {"leaky_relu",
     [](const Call& c) { return brim::leaky_relu(c[0], c.number("negative_slope")); }},
    {"elu", [](const Call& c) { return brim::elu(c[0], c.number("alpha")); }},
    {"softplus",
     [](const Call& c) { return brim::softplus(c[0], c.number("beta"), c.number("threshold")); }},
    {"gelu",
     [](const Call& c) {
       const bool tanh = c.text("approximate") == "tanh";
       return brim::gelu(c[0], tanh ? brim::GeluForm::tanh : brim::GeluForm::exact);
     }},
    {"pow_scalar", [](const Call& c) { return brim::pow(c[0], c.number("exponent")); }},
    {"clamp", [](const Call& c) { return brim::clamp(c[0], bound(c, "min"), bound(c, "max")); }},
};

const Table kBinary = {
    {"add", [](const Call& c) { return brim::add(c[0], c[1]); }},
    {"sub", [](const Call& c) { return brim::sub(c[0], c[1]); }},
    {"mul", [](const Call& c) { return brim::mul(c[0], c[1]); }},
    {"div", [](const Call& c) { return brim::div(c[0], c[1]); }},
    {"maximum", [](const Call& c) { return brim::maximum(c[0], c[1]); }},
    {"minimum", [](const Call& c) { return brim::minimum(c[0], c[1]); }},
    {"pow", [](const Call& c) { return brim::pow(c[0], c[1]); }},
    {"eq", [](const Call& c) { return brim::eq(c[0], c[1]); }},
    {"ne", [](const Call& c) { return brim::ne(c[0], c[1]); }},
    {"lt", [](const Call& c) { return brim::lt(c[0], c[1]); }},
    {"le", [](const Call& c) { return brim::le(c[0], c[1]); }},
    {"gt", [](const Call& c) { return brim::gt(c[0], c[1]); }},
    {"ge", [](const Call& c) { return brim::ge(c[0], c[1]); }},
    {"where", [](const Call& c) { return brim::where(c[0], c[1], c[2]); }},
    {"cast", [](const Call& c) { return c[0].to(brim::parse_dtype(c.text("dtype"))); }},
};

TEST(Golden, Unary) { run_family("unary", kUnary, {.f32_tolerance = 2e-6}); }
TEST(Golden, Binary) { run_family("binary", kBinary, {.f32_tolerance = 2e-6}); }

}  // namespace
}  // namespace golden
