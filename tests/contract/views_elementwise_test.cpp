// Views for elementwise ops, comparisons and losses.
#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/create.h>
#include <brim/ops/dropout.h>
#include <brim/ops/loss.h>
#include <brim/ops/unary.h>

#include "contract/views.h"

namespace brim::contract {
namespace {

using Situations = std::vector<std::vector<Input>>;

/// `count` inputs of one shape, of every rank.
Situations alike(int count, double low = 0.2, double high = 2) {
  Situations all;
  for (const int rank : kRanks)
    all.emplace_back(static_cast<size_t>(count),
                     Input{.shape = shape_of_rank(rank), .low = low, .high = high});
  return all;
}

/// Two inputs of every rank, and such as broadcast.
Situations pairs() {
  Situations all = alike(2);
  const std::pair<Shape, Shape> broadcast[] = {
      {{3, 1, 5}, {4, 1}}, {{4, 7}, {4, 1}}, {{2, 3}, {}}, {{5}, {2, 3, 5}}};
  for (const auto& [a, b] : broadcast)
    all.push_back({{.shape = a, .low = 0.2}, {.shape = b, .low = 0.2}});
  return all;
}

Situations masked(int count) {
  Situations all;
  for (std::vector<Input> inputs : alike(count)) {
    inputs.insert(inputs.begin(), {.shape = inputs[0].shape, .low = 0, .high = 1, .dtype = bool_});
    all.push_back(inputs);
  }
  all.push_back({{.shape = {3, 1}, .low = 0, .high = 1, .dtype = bool_}, {.shape = {2, 1, 5}}});
  for (int i = 1; i < count; ++i) all.back().push_back({.shape = {5}});
  return all;
}

/// Logits, labels, and a weight of the classes.
Situations labelled() {
  Situations all;
  const auto add = [&](const Shape& x, const Shape& labels, int64_t classes) {
    all.push_back({{.shape = x},
                   {.shape = labels, .low = 0, .high = static_cast<double>(classes), .dtype = i64},
                   {.shape = {classes}, .low = 0.5, .high = 2, .gradient = false}});
  };
  add({5}, {}, 5);
  add({4, 5}, {4}, 5);
  add({1, 3}, {1}, 3);
  add({2, 3, 4}, {2, 4}, 3);
  add({2, 3, 2, 2}, {2, 2, 2}, 3);
  return all;
}

template <class Options, class Loss>
Function class_losses(const Loss& loss) {
  return [=](Tensor x, Tensor labels, Tensor weight) {
    Tensors all;
    for (const Reduction reduction : {Reduction::none, Reduction::mean, Reduction::sum}) {
      Options o;
      o.reduction = reduction;
      all.push_back(loss(x, labels, o));
      o.weight = weight;
      o.ignore_index = 1;
      all.push_back(loss(x, labels.to(i32), o));
    }
    return all;
  };
}

}  // namespace

#define UNARY(op)                                 \
  {                                               \
#op, [](Tensor x) { return op(x); }, alike(1) \
  }
#define BINARY(op)                                            \
  {                                                           \
#op, [](Tensor a, Tensor b) { return op(a, b); }, pairs() \
  }
#define WITH_NUMBER(op)                                                            \
  {                                                                                \
#op, [](Tensor a, Tensor b) { return Tensors{op(a, b), op(a, 0.7)}; }, pairs() \
  }
#define LOSS(op, ...)                                                             \
  {                                                                               \
#op,                                                                            \
   [](Tensor a, Tensor b) {                                                        \
     return Tensors{op(a, b __VA_OPT__(, ) __VA_ARGS__, Reduction::none),          \
                    op(a, b __VA_OPT__(, ) __VA_ARGS__, Reduction::mean)};         \
   },                                                                              \
   pairs() \
  }

std::vector<ViewCase> elementwise_views() {
  return {
      UNARY(neg),
      UNARY(abs),
      UNARY(exp),
      UNARY(expm1),
      UNARY(log),
      UNARY(log1p),
      UNARY(log2),
      UNARY(log10),
      UNARY(sqrt),
      UNARY(rsqrt),
      UNARY(square),
      UNARY(reciprocal),
      UNARY(sin),
      UNARY(cos),
      UNARY(tanh),
      UNARY(erf),
      UNARY(sign),
      UNARY(floor),
      UNARY(ceil),
      UNARY(round),
      UNARY(sigmoid),
      UNARY(relu),
      UNARY(leaky_relu),
      UNARY(elu),
      UNARY(silu),
      UNARY(softplus),
      UNARY(isnan),
      UNARY(isfinite),
      UNARY(logical_not),
      {"gelu",
       [](Tensor x) {
         return Tensors{gelu(x), gelu(x, GeluForm::tanh)};
       },
       alike(1)},
      {"clamp", [](Tensor x) { return clamp(x, 0.5, 1.5); }, alike(1)},
      {"pow",
       [](Tensor a, Tensor b) {
         return Tensors{pow(a, b), pow(a, 2.5), pow(a, 3)};
       },
       pairs()},
      {"add",
       [](Tensor a, Tensor b) {
         return Tensors{add(a, b), add(a, b, 2), a + 3};
       },
       pairs()},
      {"sub",
       [](Tensor a, Tensor b) {
         return Tensors{sub(a, b), sub(a, b, 2), a - 3, 3 - a};
       },
       pairs()},
      {"div",
       [](Tensor a, Tensor b) {
         return Tensors{div(a, b), div(a, 3), div(3, a)};
       },
       pairs()},
      WITH_NUMBER(mul),
      BINARY(maximum),
      BINARY(minimum),
      BINARY(atan2),
      WITH_NUMBER(remainder),
      WITH_NUMBER(fmod),
      WITH_NUMBER(eq),
      WITH_NUMBER(ne),
      WITH_NUMBER(lt),
      WITH_NUMBER(le),
      WITH_NUMBER(gt),
      WITH_NUMBER(ge),
      BINARY(logical_and),
      BINARY(logical_or),
      BINARY(logical_xor),
      {"where", where, masked(2)},
      {"masked_fill", [](Tensor mask, Tensor x) { return masked_fill(x, mask, 7); }, masked(1)},
      {"dropout",
       [](Tensor x) {
         Generator generator(5);
         return dropout(x, 0.4, true, &generator);
       },
       alike(1)},
      {"bernoulli",
       [](Tensor p) {
         Generator generator(5);
         return bernoulli(p, &generator);
       },
       alike(1, 0, 1)},
      {"multinomial",
       [](Tensor p) {
         Generator generator(5);
         return Tensors{multinomial(p, 2, false, &generator), multinomial(p, 7, true, &generator)};
       },
       {{{.shape = {5}, .low = 0.1}}, {{.shape = {3, 4}, .low = 0.1}}}},
      LOSS(mse_loss),
      LOSS(l1_loss),
      LOSS(smooth_l1_loss, 0.7),
      LOSS(huber_loss, 0.7),
      {"bce_with_logits",
       [](Tensor x, Tensor y, Tensor weight, Tensor pos_weight) {
         return bce_with_logits(x, y, {.weight = weight, .pos_weight = pos_weight});
       },
       alike(4)},
      {"nll_loss", class_losses<NllLossOptions>([](const auto&... a) { return nll_loss(a...); }),
       labelled()},
      {"cross_entropy",
       [](const Tensors& in) {
         const auto loss = [](const Tensor& x, const Tensor& y, CrossEntropyOptions options) {
           options.label_smoothing = 0.1;
           return cross_entropy(x, y, options);
         };
         Tensors all = class_losses<CrossEntropyOptions>(loss)(in);
         all.push_back(cross_entropy(in[0], exp(in[0]), {.weight = in[2]}));
         return all;
       },
       labelled()},
  };
}

#undef UNARY
#undef BINARY
#undef WITH_NUMBER
#undef LOSS

}  // namespace brim::contract
