// Attention and transformers' layers: names and initial values of their state, masks, options,
// errors. Their results are compared with PyTorch's in tests/golden.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include <brim/nn/nn.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>

#include "message_of.h"

namespace brim {
namespace {

using tests::message_of;

std::set<std::string> names(const nn::Module& module) {
  std::set<std::string> all;
  for (const auto& [name, tensor] : module.state_dict()) all.insert(name);
  return all;
}

double distance(const Tensor& a, const Tensor& b) { return amax(abs(a - b)).item(); }

TEST(MultiheadAttention, StateIsThatOfPyTorch) {
  manual_seed(1);
  nn::MultiheadAttention attention({.dim = 64, .heads = 4});
  EXPECT_EQ(names(attention), (std::set<std::string>{"in_proj_weight", "in_proj_bias",
                                                     "out_proj.weight", "out_proj.bias"}));
  EXPECT_EQ(attention.in_proj_weight.shape(), Shape({192, 64}));
  const double bound = std::sqrt(6.0 / (192 + 64)),
               largest = amax(abs(attention.in_proj_weight)).item();
  EXPECT_LE(largest, bound);
  EXPECT_GT(largest, 0.95 * bound);
  EXPECT_EQ(amax(abs(attention.in_proj_bias)).item(), 0);
  EXPECT_EQ(amax(abs(attention.out_proj.bias)).item(), 0);
  nn::MultiheadAttention other({.dim = 8, .heads = 2, .bias = false, .key_dim = 6});
  EXPECT_EQ(names(other), (std::set<std::string>{"q_proj_weight", "k_proj_weight", "v_proj_weight",
                                                 "out_proj.weight"}));
  EXPECT_EQ(other.k_proj_weight.shape(), Shape({8, 6}));
  EXPECT_EQ(other.str(),
            "MultiheadAttention(8, heads=2, bias=false, key_dim=6\n"
            "  (out_proj): Linear(in=8, out=8, bias=false)\n)");
}

TEST(MultiheadAttention, OneProjectionIsWorthThree) {
  nn::MultiheadAttention attention({.dim = 8, .heads = 2});
  const Tensor x = randn({2, 5, 8});
  EXPECT_LT(distance(attention(x), attention(x, x.clone(), x.clone())), 1e-5);
}

TEST(MultiheadAttention, MasksHideKeys) {
  nn::MultiheadAttention attention({.dim = 8, .heads = 2});
  const Tensor x = randn({1, 6, 8}), five = x.slice(1, 0, 5).contiguous();
  Tensor keys = ones({6}, {.dtype = bool_});
  keys.slice(0, 5, 6).fill_(0);
  const Tensor want = attention(five);
  const auto first_five = [&](const nn::AttentionMask& mask) {
    return attention(x, mask).slice(1, 0, 5);
  };
  EXPECT_LT(distance(first_five({.keys = keys}), want), 1e-5);
  EXPECT_LT(distance(first_five({.keys = keys.unsqueeze(0)}), want), 1e-5);
  EXPECT_LT(distance(first_five({.mask = zeros({6, 6}), .keys = keys}), want), 1e-5);
  EXPECT_LT(distance(first_five({.mask = ones({6, 6}, {.dtype = bool_}), .keys = keys}), want),
            1e-5);
  EXPECT_LT(distance(first_five({.causal = true}), attention(five, {.causal = true})), 1e-5);
  EXPECT_EQ(message_of([&] { (void)attention(x, {.keys = zeros({6})}); }),
            "[MultiheadAttention] the mask of keys is f32 of shape (6); it must be bool, (N, S) or "
            "(S)");
}

TEST(MultiheadAttention, ChecksItsInput) {
  EXPECT_EQ(message_of([] { nn::MultiheadAttention({.dim = 8, .heads = 3}); }),
            "[MultiheadAttention] 3 heads do not divide dim = 8");
  EXPECT_THROW(nn::MultiheadAttention({.dim = 8}), ValueError);
  EXPECT_THROW(nn::MultiheadAttention({.dim = 8, .heads = 2, .dropout = 2}), ValueError);
  nn::MultiheadAttention attention({.dim = 8, .heads = 2});
  EXPECT_EQ(message_of([&] {
              (void)attention(zeros({2, 5, 7}));
            }),
            "[MultiheadAttention] query has shape (2, 5, 7); expected (N, length, 8)");
  EXPECT_THROW(attention(zeros({2, 5, 8}), zeros({5, 8}), zeros({5, 8})), ShapeError);
}

TEST(Transformer, StateIsThatOfPyTorch) {
  const nn::TransformerLayerOptions options{.dim = 8, .heads = 2, .hidden = 12};
  std::set<std::string> want;
  for (const char* name : {"linear1", "linear2", "norm1", "norm2", "self_attn.out_proj"})
    for (const char* part : {".weight", ".bias"}) want.insert(std::string(name) + part);
  for (const char* name : {"self_attn.in_proj_weight", "self_attn.in_proj_bias"}) want.insert(name);
  EXPECT_EQ(names(nn::TransformerEncoderLayer(options)), want);
  for (const char* name :
       {"multihead_attn.in_proj_weight", "multihead_attn.in_proj_bias", "norm3.weight",
        "norm3.bias", "multihead_attn.out_proj.weight", "multihead_attn.out_proj.bias"})
    want.insert(name);
  EXPECT_EQ(names(nn::TransformerDecoderLayer(options)), want);
}

TEST(Transformer, DropoutIsThatOfTraining) {
  nn::TransformerEncoderLayer layer({.dim = 8, .heads = 2, .hidden = 12, .dropout = 0.5});
  const Tensor x = randn({2, 5, 8});
  EXPECT_GT(distance(layer(x), layer(x)), 0);
  layer.eval();
  EXPECT_EQ(distance(layer(x), layer(x)), 0);
}

TEST(Transformer, ALayerIsAModuleOfASequence) {
  nn::Sequential net;
  net.push<nn::TransformerEncoderLayer>({.dim = 8, .heads = 2, .hidden = 12});
  net.push<nn::Linear>({.in = 8, .out = 3});
  EXPECT_EQ(net(randn({2, 5, 8})).shape(), Shape({2, 5, 3}));
}

TEST(Transformer, ChecksItsOptions) {
  EXPECT_EQ(message_of([] { nn::TransformerEncoderLayer({.heads = 2}); }),
            "[TransformerEncoderLayer] dim is 0; it must be 1 or more");
  EXPECT_THROW(nn::TransformerDecoderLayer({.dim = 8, .heads = 2, .hidden = 0}), ValueError);
}

TEST(RMSNorm, StartsWithOnes) {
  nn::RMSNorm norm({.shape = {4}, .eps = 1e-6});
  const Tensor x = randn({3, 4});
  const Tensor want = x / sqrt(mean(square(x), {1}, true) + 1e-6);
  EXPECT_LT(distance(norm(x), want), 1e-6);
  EXPECT_EQ(norm.str(), "RMSNorm((4), eps=1e-06)");
  EXPECT_EQ(nn::RMSNorm({.shape = {2, 3}, .affine = false}).str(), "RMSNorm((2, 3), affine=false)");
  EXPECT_THROW(nn::RMSNorm({.shape = {0}}), ValueError);
}

}  // namespace
}  // namespace brim
