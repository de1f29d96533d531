// Sparsity of a whole network: which of its layers keep more.
#include <brim/autograd/autograd.h>
#include <brim/compress/prune.h>
#include <brim/core/random.h>
#include <brim/nn/linear.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/unary.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "message_of.h"

namespace brim::compress {
namespace {

/// Weights of one layer have about one magnitude, most of the other's are nearly nothing.
struct Unequal : nn::Module {
  nn::Linear& alike = add<nn::Linear>("alike", {.in = 64, .out = 16});
  nn::Linear& uneven = add<nn::Linear>("uneven", {.in = 128, .out = 20});
  Tensor forward(const Tensor& x) override { return x; }

  Unequal() {
    manual_seed(5);
    const NoGrad scope;
    alike.weight.copy_(rand({16, 64}) * 0.1 + 1);
    const Tensor u = rand({20, 128});
    uneven.weight.copy_(u * u * u * u * u * u);
  }
};

double zeros_of(const Masks& masks, size_t layer) { return masks.layers()[layer].sparsity; }

PruneOptions of_network(const char* pattern, double sparsity) {
  return {.pattern = parse_pattern(pattern), .sparsity = sparsity, .scope = PruneScope::network};
}

class PruneScopes : public ::testing::TestWithParam<const char*> {};

TEST_P(PruneScopes, LayersThatNeedMoreKeepMore) {
  Unequal net;
  const Masks masks(net, of_network(GetParam(), 0.5));
  EXPECT_NEAR(masks.sparsity(), 0.5, 0.004);
  EXPECT_LT(zeros_of(masks, 0) + 0.2, zeros_of(masks, 1));
}

TEST_P(PruneScopes, ScalesOfLayersDoNotMatter) {
  Unequal net, scaled;
  {
    const NoGrad scope;
    scaled.alike.weight.copy_(scaled.alike.weight.detach() * 1024);
  }
  const Masks masks(net, of_network(GetParam(), 0.5)), other(scaled, of_network(GetParam(), 0.5));
  EXPECT_EQ(zeros_of(masks, 0), zeros_of(other, 0));
  EXPECT_EQ(zeros_of(masks, 1), zeros_of(other, 1));
}

TEST_P(PruneScopes, AreFoundAgainInPrunedWeights) {
  Unequal net;
  PruneOptions options = of_network(GetParam(), 0.4);
  options.final_sparsity = 0.8;
  Masks masks(net, options);
  const std::vector<float> before = net.uneven.weight.detach().to_vector<float>();
  options.groups = masks.groups();
  (void)Masks(net, options);  // as a run that goes on
  EXPECT_EQ(net.uneven.weight.detach().to_vector<float>(), before);
  masks.prune(0.8);
  EXPECT_NEAR(masks.sparsity(), 0.8, 0.004);
  const std::vector<float> after = net.uneven.weight.detach().to_vector<float>();
  for (size_t i = 0; i < before.size(); ++i) {
    ASSERT_TRUE(after[i] == 0 || after[i] == before[i]) << i;
  }
  options = of_network(GetParam(), 0.8);
  options.groups = masks.groups();
  (void)Masks(net, options);
  EXPECT_EQ(net.uneven.weight.detach().to_vector<float>(), after);
}

TEST_P(PruneScopes, LeaveSparsitiesOfTheirOwnAlone) {
  Unequal net;
  PruneOptions options = of_network(GetParam(), 0.5);
  options.layers = {{"alike", 0.75}};
  const Masks masks(net, options);
  EXPECT_NEAR(zeros_of(masks, 0), 0.75, 0.01);
  EXPECT_NEAR(zeros_of(masks, 1), 0.5, 0.004);
}

TEST_P(PruneScopes, EachLayerKeepsSomething) {
  Unequal net;
  const Masks masks(net, of_network(GetParam(), 0.9999));
  for (const PrunedLayer& layer : masks.layers()) EXPECT_LT(layer.sparsity, 1) << layer.name;
}

// Of the last one a group has 4 outputs, 16 would be a vector.
INSTANTIATE_TEST_SUITE_P(Patterns, PruneScopes,
                         ::testing::Values("unstructured", "vector:4", "vector:16"));

TEST(PruneScope, IsOfEachLayerWhereAPatternSaysHowMuch) {
  Unequal net;
  EXPECT_NE(tests::message_of([&] { (void)Masks(net, of_network("2:4", 0.5)); }).find("2:4"),
            std::string::npos);
}

}  // namespace
}  // namespace brim::compress
