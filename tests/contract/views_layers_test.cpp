// Views for products, attention, convolution, pooling, normalisation, softmax and embedding.
#include <brim/ops/attention.h>
#include <brim/ops/conv.h>
#include <brim/ops/embedding.h>
#include <brim/ops/interpolate.h>
#include <brim/ops/matmul.h>
#include <brim/ops/norm.h>
#include <brim/ops/pool.h>
#include <brim/ops/recurrent.h>
#include <brim/ops/softmax.h>

#include "contract/views.h"

namespace brim::contract {
namespace {

using Situations = std::vector<std::vector<Input>>;

Situations images() {
  return {{{.shape = {2, 3, 5, 4}}}, {{.shape = {1, 1, 4, 9}}}, {{.shape = {2, 16, 4, 4}}}};
}

/// x, and a weight and a bias for its last or its second axis.
Situations affine(const std::vector<Shape>& shapes, bool channels) {
  Situations all;
  for (const Shape& x : shapes) {
    const Shape one = {channels ? x[1] : x.back()};
    all.push_back({{.shape = x}, {.shape = one}, {.shape = one}});
  }
  return all;
}

Situations any_softmax() {
  return {{{.shape = {}}},        {{.shape = {7}}},          {{.shape = {3, 5}}},
          {{.shape = {2, 3, 4}}}, {{.shape = {2, 3, 4, 2}}}, {{.shape = {2, 1, 2, 3, 2, 1, 2, 2}}},
          {{.shape = {4, 33}}}};
}

}  // namespace

std::vector<ViewCase> layer_views() {
  return {
      {"matmul",
       [](Tensor a, Tensor b) { return matmul(a, b); },
       {{{.shape = {5}}, {.shape = {5}}},
        {{.shape = {5}}, {.shape = {5, 3}}},
        {{.shape = {4, 5}}, {.shape = {5}}},
        {{.shape = {4, 5}}, {.shape = {5, 3}}},
        {{.shape = {17, 33}}, {.shape = {33, 20}}},
        {{.shape = {2, 4, 5}}, {.shape = {5, 3}}},
        {{.shape = {2, 4, 5}}, {.shape = {2, 5, 3}}},
        {{.shape = {2, 1, 4, 5}}, {.shape = {3, 5, 2}}}}},
      {"bmm",
       [](Tensor a, Tensor b) { return bmm(a, b); },
       {{{.shape = {2, 4, 5}}, {.shape = {2, 5, 3}}}}},
      {"outer", [](Tensor a, Tensor b) { return outer(a, b); }, {{{.shape = {5}}, {.shape = {3}}}}},
      {"linear",
       [](Tensor x, Tensor w, Tensor b) { return linear(x, w, b); },
       {{{.shape = {5}}, {.shape = {3, 5}}, {.shape = {3}}},
        {{.shape = {4, 5}}, {.shape = {3, 5}}, {.shape = {3}}},
        {{.shape = {19, 37}}, {.shape = {18, 37}}, {.shape = {18}}},
        {{.shape = {2, 3, 5}}, {.shape = {4, 5}}, {.shape = {4}}},
        {{.shape = {2, 2, 3, 5}}, {.shape = {4, 5}}, {.shape = {4}}}}},
      {"conv2d",
       [](Tensor x, Tensor w, Tensor b) {
         return Tensors{conv2d(x, w, b, {.padding = 1}), conv2d(x, w, b, {.stride = 2})};
       },
       {{{.shape = {2, 3, 5, 4}}, {.shape = {4, 3, 3, 2}}, {.shape = {4}}},
        {{.shape = {2, 3, 5, 4}}, {.shape = {4, 3, 1, 1}}, {.shape = {4}}},
        {{.shape = {1, 16, 6, 6}}, {.shape = {16, 16, 3, 3}}, {.shape = {16}}}}},
      {"conv1d",
       [](Tensor x, Tensor w, Tensor b) {
         return Tensors{conv1d(x, w, b, {.padding = 1}), conv1d(x, w, b, {.stride = 2})};
       },
       {{{.shape = {2, 3, 7}}, {.shape = {4, 3, 3}}, {.shape = {4}}},
        {{.shape = {1, 16, 9}}, {.shape = {16, 16, 3}}, {.shape = {16}}}}},
      {"conv_transpose2d",
       [](Tensor x, Tensor w, Tensor b) {
         return Tensors{conv_transpose2d(x, w, b, {.padding = 1}),
                        conv_transpose2d(x, w, b, {.stride = 2, .output_padding = 1})};
       },
       {{{.shape = {2, 3, 5, 4}}, {.shape = {3, 4, 3, 2}}, {.shape = {4}}},
        {{.shape = {1, 16, 3, 3}}, {.shape = {16, 16, 3, 3}}, {.shape = {16}}}}},
      {"interpolate",
       [](Tensor x) {
         return Tensors{
             interpolate(x, {.scale = 2}), interpolate(x, {.size = {3, 7}}),
             interpolate(x, {.size = {6, 5}, .mode = Interpolation::bilinear}),
             interpolate(x, {.scale = 2, .mode = Interpolation::bilinear, .align_corners = true})};
       },
       images()},
      {"einsum",
       [](Tensor a, Tensor b, Tensor c) {
         return Tensors{einsum("ijk,kl,l->ji", {a, b, c}),
                        einsum("iji->ij", {b.unsqueeze(0).expand({4, 4, 4})}),
                        einsum("...k,kl", {a, b})};
       },
       {{{.shape = {2, 3, 4}}, {.shape = {4, 4}}, {.shape = {4}}}}},
      {"im2col",
       [](Tensor x) {
         return Tensors{im2col(x, 2), im2col(x, {3, 2}, {.stride = 2, .padding = 1})};
       },
       images()},
      {"scaled_dot_product_attention",
       [](Tensor q, Tensor k, Tensor v, Tensor mask) {
         return Tensors{scaled_dot_product_attention(q, k, v, {.causal = true}),
                        scaled_dot_product_attention(q, k, v, {.mask = mask})};
       },
       {{{.shape = {4, 5}}, {.shape = {3, 5}}, {.shape = {3, 2}}, {.shape = {4, 3}}},
        {{.shape = {2, 4, 5}}, {.shape = {2, 3, 5}}, {.shape = {2, 3, 2}}, {.shape = {4, 3}}},
        {{.shape = {2, 4, 37, 5}},
         {.shape = {2, 2, 70, 5}},
         {.shape = {2, 2, 70, 7}},
         {.shape = {2, 1, 37, 70}, .gradient = false}},
        {{.shape = {2, 1, 2, 4, 5}},
         {.shape = {1, 2, 1, 3, 5}},
         {.shape = {2, 2, 1, 3, 2}},
         {.shape = {2, 1, 2, 1, 3}}}}},
      {"lstm",
       [](Tensor gates, Tensor weight, Tensor h, Tensor c) { return lstm(gates, weight, h, c); },
       {{{.shape = {3, 4, 20}}, {.shape = {20, 5}}, {.shape = {4, 5}}, {.shape = {4, 5}}}}},
      {"gru",
       [](Tensor gates, Tensor weight, Tensor bias, Tensor h) {
         return Tensors{gru(gates, weight, bias, h), gru(gates, weight, {}, h, {.reverse = true})};
       },
       {{{.shape = {3, 4, 15}}, {.shape = {15, 5}}, {.shape = {15}}, {.shape = {4, 5}}}}},
      {"max_pool2d",
       [](Tensor x) {
         return Tensors{max_pool2d(x, 2), max_pool2d(x, 3, {.stride = 2, .padding = 1})};
       },
       images()},
      {"avg_pool2d",
       [](Tensor x) {
         return Tensors{avg_pool2d(x, 2), avg_pool2d(x, 3, {.stride = 2, .padding = 1})};
       },
       images()},
      {"adaptive_avg_pool2d",
       [](Tensor x) {
         return adaptive_avg_pool2d(x, {2, 3});
       },
       images()},
      {"batch_norm",
       [](Tensor x, Tensor w, Tensor b, Tensor mean, Tensor var) {
         return Tensors{batch_norm(x, w, b, {}, {}, {.training = true}),
                        batch_norm(x, w, b, mean, var)};
       },
       [] {
         Situations all = affine({{4, 3}, {4, 3, 5}, {2, 3, 4, 5}, {2, 3, 2, 2, 2}}, true);
         for (auto& inputs : all)
           for (int i = 0; i < 2; ++i)
             inputs.push_back({.shape = {3}, .low = 0.5, .high = 2, .gradient = false});
         return all;
       }()},
      {"layer_norm", [](Tensor x, Tensor w, Tensor b) { return layer_norm(x, w.shape(), w, b); },
       [] {
         Situations all = affine({{5}, {4, 5}, {2, 3, 5}, {2, 3, 2, 5}, {3, 67}}, false);
         all.push_back({{.shape = {4, 3, 5}}, {.shape = {3, 5}}, {.shape = {3, 5}}});
         return all;
       }()},
      {"group_norm", [](Tensor x, Tensor w, Tensor b) { return group_norm(x, 2, w, b); },
       affine({{3, 4}, {3, 4, 5}, {2, 4, 3, 5}, {2, 4, 2, 2, 2}}, true)},
      {"rms_norm", [](Tensor x, Tensor w, Tensor) { return rms_norm(x, w.shape(), w, 0.1); },
       affine({{5}, {4, 5}, {2, 3, 5}, {2, 3, 2, 5}}, false)},
      {"softmax",
       [](Tensor x) {
         return Tensors{softmax(x, 0), softmax(x, -1)};
       },
       any_softmax()},
      {"log_softmax",
       [](Tensor x) {
         return Tensors{log_softmax(x, 0), log_softmax(x, -1)};
       },
       any_softmax()},
      {"embedding",
       [](Tensor ids, Tensor w) {
         return Tensors{embedding(ids, w), embedding(ids.to(i32), w, 1)};
       },
       [] {
         Situations all;
         for (const Shape& ids : {Shape{}, Shape{4}, Shape{2, 3}, Shape{2, 1, 3}})
           all.push_back({{.shape = ids, .low = 0, .high = 5, .dtype = i64}, {.shape = {5, 7}}});
         return all;
       }()},
  };
}

}  // namespace brim::contract
