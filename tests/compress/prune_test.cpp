// Masks: which weights become zero, that they stay so, and what layers make of it.
#include <brim/autograd/autograd.h>
#include <brim/compress/prune.h>
#include <brim/core/random.h>
#include <brim/nn/activation.h>
#include <brim/nn/container.h>
#include <brim/nn/models.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/loss.h>
#include <brim/ops/reduce.h>
#include <brim/optim/sgd.h>
#include <brim/plan/compile.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <thread>

#include "message_of.h"
#include "nn/inference_form.h"

namespace brim::compress {
namespace {

using tests::message_of;

double zeros_of(const Tensor& t) {
  const std::vector<float> v = t.detach().to_vector<float>();
  return static_cast<double>(std::ranges::count(v, 0.0F)) / static_cast<double>(v.size());
}

struct Net : nn::Module {
  nn::Conv2d& conv = add<nn::Conv2d>("conv", {.in = 3, .out = 32, .kernel = 3, .padding = 1});
  nn::Linear& fc = add<nn::Linear>("fc", {.in = 32 * 64, .out = 64});
  nn::Linear& head = add<nn::Linear>("head", {.in = 64, .out = 10});
  Tensor forward(const Tensor& x) override { return head(relu(fc(relu(conv(x)).flatten(1)))); }
};

TEST(Pattern, IsRead) {
  EXPECT_EQ(parse_pattern("vector:16").str(), "vector:16");
  EXPECT_EQ(parse_pattern("2:4").str(), "2:4");
  EXPECT_EQ(parse_pattern("unstructured").str(), "unstructured");
  for (const char* wrong : {"", "vector", "vector:5", "4:2", "0:4", "2:", ":4", "2:65", "3:3",
                            "vector:-8", "2:4x", "none"})
    EXPECT_THROW((void)parse_pattern(wrong), ValueError) << wrong;
}

TEST(Masks, LeaveOutTheLeast) {
  Net net;
  {
    const NoGrad scope;
    net.fc.weight.copy_(arange(64 * 2048).reshape({64, 2048}).to(f32) + 1);
  }
  const Masks masks(net, {.pattern = parse_pattern("unstructured"), .sparsity = 0.5});
  const std::vector<float> w = net.fc.weight.detach().to_vector<float>();
  for (size_t i = 0; i < w.size(); ++i) EXPECT_EQ(w[i] == 0, i < w.size() / 2) << i;
  for (const float v : net.conv.weight.detach().to_vector<float>())
    EXPECT_FALSE(v == 0 && std::signbit(v));
  EXPECT_NEAR(zeros_of(net.conv.weight), 0.5, 1e-3);
  EXPECT_NEAR(masks.sparsity(), 0.5, 1e-3);
}

TEST(Masks, KeepPatterns) {
  Net net;
  (void)Masks(net, {.pattern = parse_pattern("2:4"), .sparsity = 0.5});
  const std::vector<float> w = net.fc.weight.detach().to_vector<float>();
  for (size_t i = 0; i < w.size(); i += 4)
    ASSERT_EQ(std::count(w.begin() + static_cast<std::ptrdiff_t>(i),
                         w.begin() + static_cast<std::ptrdiff_t>(i + 4), 0.0F),
              2);
  Net other;
  const Masks masks(other, {.pattern = parse_pattern("vector:32"), .sparsity = 0.75});
  // Of the 64 outputs there are 2 groups, each with the same columns.
  const std::vector<float> v = other.fc.weight.detach().to_vector<float>();
  std::map<std::vector<bool>, int> patterns;
  for (size_t o = 0; o < 64; ++o) {
    std::vector<bool> is_zero;
    for (size_t column = 0; column < 2048; ++column) is_zero.push_back(v[o * 2048 + column] == 0);
    ++patterns[is_zero];
  }
  ASSERT_EQ(patterns.size(), 2u);
  EXPECT_EQ(patterns.begin()->second, 32);
  EXPECT_NEAR(zeros_of(other.fc.weight), 0.75, 1e-3);
  ASSERT_EQ(masks.layers().size(), 3u);
  EXPECT_EQ(masks.layers()[2].sparsity, 0);
  EXPECT_NE(masks.layers()[2].why.find("(10)"), std::string::npos);
  EXPECT_EQ(zeros_of(other.head.weight), 0);
}

TEST(Masks, HoldWhileTheOthersAreTrained) {
  for (const bool compiled : {false, true}) {
    manual_seed(1);
    Net net;
    optim::SGD optimizer(net.parameters(), {.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-4});
    Masks masks(net, {.pattern = parse_pattern("vector:32"), .sparsity = 0.75});
    const Tensor x = rand({8, 3, 8, 8}), y = zeros({8}, {.dtype = i64});
    const auto step = [&](const Tensor& some, const Tensor& labels) {
      optimizer.zero_grad();
      const Tensor loss = cross_entropy(net(some), labels);
      loss.backward();
      optimizer.step();
      masks.apply();
      return loss.detach();
    };
    const std::vector<float> mask = net.fc.weight.detach().to_vector<float>();
    auto plan = compile(step);
    double first = 0, last = 0;
    for (int i = 0; i < 5; ++i) {
      last = (compiled ? Tensor(plan(x, y)) : step(x, y)).item();
      if (i == 0) first = last;
    }
    EXPECT_LT(last, first);
    const std::vector<float> after = net.fc.weight.detach().to_vector<float>();
    int changed = 0;
    for (size_t i = 0; i < mask.size(); ++i) {
      ASSERT_TRUE(mask[i] != 0 || after[i] == 0);
      changed += mask[i] != after[i] ? 1 : 0;
    }
    EXPECT_GT(changed, 0);
    masks.prune(0.9);
    const std::vector<float> further = net.fc.weight.detach().to_vector<float>();
    for (size_t i = 0; i < mask.size(); ++i) ASSERT_TRUE(after[i] != 0 || further[i] == 0);
    EXPECT_NEAR(zeros_of(net.fc.weight), 0.9, 1e-3);
    (void)(compiled ? Tensor(plan(x, y)) : step(x, y));  // the plan reads the mask as it is now
    EXPECT_NEAR(zeros_of(net.fc.weight), 0.9, 1e-3);
  }
}

TEST(Masks, HoldInWeightsOfAnotherTime) {
  manual_seed(31);
  Net net;
  StateDict early;
  for (const auto& [name, value] : net.state_dict()) early[name] = value.clone();
  Masks masks(net, {.pattern = parse_pattern("vector:8"), .sparsity = 0.5});
  {
    const NoGrad scope;
    for (auto& [name, value] : net.named_parameters()) {
      Tensor data = value.detach();
      data.copy_(data * 3 + 1);  // what was pruned is none any more
    }
  }
  masks.rewind(net, early);
  EXPECT_NEAR(masks.sparsity(), 0.5, 0.01);
  const std::vector<float> now = net.fc.weight.detach().to_vector<float>();
  const std::vector<float> then = early.at("fc.weight").to_vector<float>();
  for (size_t i = 0; i < now.size(); ++i) ASSERT_TRUE(now[i] == 0 || now[i] == then[i]) << i;
  EXPECT_NEAR(zeros_of(net.fc.weight), 0.5, 0.01);
  early.erase("fc.bias");
  EXPECT_THROW(masks.rewind(net, early), ValueError);
}

TEST(Masks, ReachTheirSparsityInRounds) {
  EXPECT_DOUBLE_EQ(sparsity_of_round(0.9375, 1, 4), 0.5);
  EXPECT_DOUBLE_EQ(sparsity_of_round(0.9375, 2, 4), 0.75);
  EXPECT_EQ(sparsity_of_round(0.9, 7, 7), 0.9);
  EXPECT_THROW((void)sparsity_of_round(0.9, 0, 4), ValueError);
  EXPECT_THROW((void)sparsity_of_round(0.9, 5, 4), ValueError);
  EXPECT_THROW((void)sparsity_of_round(1, 1, 4), ValueError);
}

TEST(Masks, GiveLayersSparsitiesOfTheirOwn) {
  Net net;
  Masks masks(net, {.pattern = parse_pattern("vector:4"),
                    .sparsity = 0.25,
                    .final_sparsity = 0.5,
                    .dense = {"head"},
                    .layers = {{"fc", 0.8}}});
  EXPECT_NEAR(zeros_of(net.conv.weight), 0.25, 0.02);
  EXPECT_NEAR(zeros_of(net.fc.weight), 0.4, 1e-3);  // half of the way, as the others
  masks.prune(0.5);
  EXPECT_NEAR(zeros_of(net.conv.weight), 0.5, 0.02);
  EXPECT_NEAR(zeros_of(net.fc.weight), 0.8, 1e-3);
  EXPECT_EQ(zeros_of(net.head.weight), 0);
}

TEST(Masks, RefuseSparsitiesOfNoLayer) {
  Net net;
  const std::vector<float> before = net.fc.weight.detach().to_vector<float>();
  const auto error_of = [&](const char* pattern, const char* layer, double sparsity) {
    return message_of([&] {
      (void)Masks(net, {.pattern = parse_pattern(pattern), .layers = {{layer, sparsity}}});
    });
  };
  EXPECT_NE(error_of("vector:4", "fcc", 0.5).find("did you mean 'fc'"), std::string::npos)
      << error_of("vector:4", "fcc", 0.5);
  EXPECT_NE(error_of("vector:4", "fc", 1).find("below 1"), std::string::npos);
  EXPECT_NE(error_of("2:4", "fc", 0.5).find("the same for all layers"), std::string::npos);
  EXPECT_NE(message_of([&] {
              (void)Masks(net, {.dense = {"fc"}, .layers = {{"fc", 0.5}}});
            }).find("take one"),
            std::string::npos);
  EXPECT_EQ(net.fc.weight.detach().to_vector<float>(), before);
}

TEST(Masks, AlwaysLeaveSomething) {
  for (const char* pattern : {"unstructured", "vector:32", "vector:4"}) {
    Net net;
    const Masks masks(net, {.pattern = parse_pattern(pattern), .sparsity = 0.9999999});
    for (const PrunedLayer& layer : masks.layers()) EXPECT_LT(layer.sparsity, 1) << layer.name;
  }
}

TEST(Masks, CountElementsWhereGroupsDiffer) {
  nn::Sequential net;
  net.push<nn::Linear>({.in = 400, .out = 10});
  const Masks masks(net, {.pattern = parse_pattern("vector:8"), .sparsity = 0.5});
  EXPECT_NEAR(masks.sparsity(), 0.5, 0.002);
}

TEST(Masks, ShareVectorsAmongOutputsThatNeedTheSame) {
  // Even outputs need the first half of the columns, odd ones the second.
  nn::Linear layer({.in = 40, .out = 32});
  {
    const NoGrad scope;
    std::vector<float> w(32 * 40);
    for (size_t o = 0; o < 32; ++o)
      for (size_t k = 0; k < 40; ++k)
        w[o * 40 + k] = (o % 2 == 0) == (k < 20) ? 1 + 0.01F * static_cast<float>(k) : 0.1F;
    layer.weight.copy_(Tensor::from<float>(w, {32, 40}));
  }
  const std::vector<float> before = layer.weight.detach().to_vector<float>();
  Masks masks(layer,
              {.pattern = parse_pattern("vector:8"), .sparsity = 0.1, .final_sparsity = 0.5});
  masks.prune(0.5);
  const std::vector<float> after = layer.weight.detach().to_vector<float>();
  for (size_t i = 0; i < after.size(); ++i)
    EXPECT_EQ(after[i], before[i] > 0.5F ? before[i] : 0) << i;
  const SparseWeight encoded = SparseWeight::encode(layer.weight, 8);
  EXPECT_EQ(encoded.density(), 0.5);
  // Masks of a run that goes on are the same, though weights have changed.
  {
    const NoGrad scope;
    layer.weight.mul_(rand({32, 40}) + 0.1);
  }
  const std::vector<float> changed = layer.weight.detach().to_vector<float>();
  const Masks again(layer, {.pattern = parse_pattern("vector:8"), .sparsity = 0.5});
  EXPECT_EQ(layer.weight.detach().to_vector<float>(), changed);
  EXPECT_THROW(Masks(layer, {.sparsity = 0.5, .final_sparsity = 2}), ValueError);
}

TEST(Masks, MakeGradientsZero) {
  Net net;
  Masks masks(net, {.pattern = parse_pattern("vector:32"), .sparsity = 0.75});
  cross_entropy(net(rand({4, 3, 8, 8})), zeros({4}, {.dtype = i64})).backward();
  masks.apply_to_gradients();
  EXPECT_GE(zeros_of(net.fc.weight.grad()), 0.74);
  EXPECT_LT(zeros_of(net.fc.weight.grad()), 1);
}

TEST(Masks, GoByTheGradient) {
  Net net;
  const PruneOptions options{
      .pattern = parse_pattern("unstructured"), .sparsity = 0.5, .criterion = Criterion::taylor};
  const std::string what = message_of<ValueError>([&] { (void)Masks(net, options); });
  EXPECT_NE(what.find("conv has no gradient"), std::string::npos) << what;
  cross_entropy(net(rand({4, 3, 8, 8})), zeros({4}, {.dtype = i64})).backward();
  const std::vector<float> w = net.head.weight.detach().to_vector<float>();
  const std::vector<float> g = net.head.weight.grad().to_vector<float>();
  (void)Masks(net, options);
  const std::vector<float> after = net.head.weight.detach().to_vector<float>();
  float least_kept = std::numeric_limits<float>::infinity(), most_gone = 0;
  for (size_t i = 0; i < w.size(); ++i) {
    const float score = std::fabs(w[i] * g[i]);
    if (after[i] == 0)
      most_gone = std::max(most_gone, score);
    else
      least_kept = std::min(least_kept, score);
  }
  EXPECT_LE(most_gone, least_kept);
  Masks masks(net, options);
  net.zero_grad();
  EXPECT_THROW(masks.prune(0.7), ValueError);  // there is no gradient any more
}

TEST(Masks, RefuseNonsense) {
  Net net;
  const std::vector<float> before = net.fc.weight.detach().to_vector<float>();
  const auto error = [&](const PruneOptions& o) {
    return message_of<ValueError>([&] { (void)Masks(net, o); });
  };
  EXPECT_NE(error({.sparsity = 0}).find("above 0"), std::string::npos);
  EXPECT_NE(error({.sparsity = 1}).find("below 1"), std::string::npos);
  EXPECT_NE(error({.sparsity = std::nan("")}).find("sparsity"), std::string::npos);
  EXPECT_NE(error({.dense = {"cnov"}}).find("'cnov' is no convolution"), std::string::npos);
  EXPECT_NE(error({.pattern = {.kind = Pattern::Kind::vector, .length = 7}}).find("4, 8, 16"),
            std::string::npos);
  EXPECT_NE(error({.dense = {"conv", "fc", "head"}}).find("no layer"), std::string::npos);
  {
    const NoGrad scope;
    net.head.weight.fill_(std::numeric_limits<double>::quiet_NaN());
  }
  EXPECT_NE(error({.pattern = parse_pattern("unstructured")}).find("head holds"),
            std::string::npos);
  EXPECT_EQ(net.fc.weight.detach().to_vector<float>(), before);
}

TEST(Encode, TakesWhatIsFaster) {
  const Tensor weight = zeros({32, 4}), x = ones({2, 4});
  nn::SparseForm form(weight, SparseWeight::encode(weight, 32));
  int dense = 0, sparse = 0;
  const auto quick = [&](const Tensor&) { ++dense; };
  const auto slow = [&](const Tensor&) {
    ++sparse;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  };
  EXPECT_FALSE(form.is_faster(x, quick, slow));
  EXPECT_EQ(dense, sparse);
  const int measured = dense;
  EXPECT_FALSE(form.is_faster(ones({2, 4}), quick, slow));  // known
  EXPECT_EQ(dense, measured);
  EXPECT_TRUE(form.is_faster(ones({3, 4}), slow, quick));
  EXPECT_THROW(nn::SparseForm(zeros({32, 5}), SparseWeight::encode(weight, 32)), ValueError);
}

TEST(Encode, ComputesTheSame) {
  manual_seed(4);
  Net net, dense;
  (void)Masks(net, {.pattern = parse_pattern("vector:32"), .sparsity = 0.9});
  dense.load_state_dict(net.state_dict());
  const std::vector<EncodedLayer> layers = encode(net);
  ASSERT_EQ(layers.size(), 3u);
  EXPECT_TRUE(layers[0].encoded);
  EXPECT_NEAR(layers[1].density, 0.1, 0.01);
  EXPECT_FALSE(layers[2].encoded);
  net.eval();
  dense.eval();
  for (const int64_t batch : {1, 5}) {
    const Tensor x = rand({batch, 3, 8, 8});
    const auto same = [&](const Tensor& a, const Tensor& b) {
      const std::vector<float> p = a.detach().to_vector<float>(), q = b.detach().to_vector<float>();
      for (size_t i = 0; i < p.size(); ++i) ASSERT_NEAR(p[i], q[i], 1e-4);
    };
    {
      const NoGrad scope;
      same(net(x), dense(x));
    }
    same(net(x), dense(x));  // with gradients: dense
  }
  // A weight that changes is dense again.
  {
    const NoGrad scope;
    net.fc.weight.fill_(0.5);
    dense.fc.weight.fill_(0.5);
    const Tensor x = rand({2, 3, 8, 8});
    const std::vector<float> p = net(x).to_vector<float>(), q = dense(x).to_vector<float>();
    for (size_t i = 0; i < p.size(); ++i) ASSERT_NEAR(p[i], q[i], 1e-3);
  }
}

}  // namespace
}  // namespace brim::compress
