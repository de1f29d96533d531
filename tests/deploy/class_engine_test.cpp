// Engines that put out probabilities, the likeliest classes or masks instead of scores.
#include <brim/autograd/autograd.h>
#include <brim/brim.h>
#include <brim/compress/quantize.h>
#include <brim/deploy/engine.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>
#include <memory>

#include "deploy/altered_engine.h"
#include "deploy/counted_memory.h"
#include "deploy/opened_engine.h"
#include "message_of.h"
#include "temporary_folder.h"

namespace brim::tests {
namespace {

using deploy::EngineOutput;

struct ClassCase {
  std::string name;
  std::function<void(nn::Sequential&)> build;
  Shape sample;
  EngineOutput output;
  int64_t top = 5;
};

std::vector<ClassCase> class_cases() {
  using nn::Conv2d;
  std::vector<ClassCase> all;
  const auto rows = [](nn::Sequential& net) { net.push<nn::Linear>({.in = 24, .out = 17}); };
  const auto mask = [](nn::Sequential& net) {
    net.push<Conv2d>({.in = 3, .out = 16, .kernel = 3, .padding = 1}).push<nn::ReLU>();
    net.push<Conv2d>({.in = 16, .out = 5, .kernel = 1});
  };
  for (const auto& [name, output] :
       {std::pair("Softmax", EngineOutput::softmax), std::pair("Top", EngineOutput::top),
        std::pair("Classes", EngineOutput::classes)}) {
    all.push_back({std::string(name) + "OfRows", rows, {24}, output});
    all.push_back({std::string(name) + "OfSequences", rows, {6, 24}, output});
    all.push_back({std::string(name) + "OfMasks", mask, {3, 13, 11}, output});
  }
  all.push_back({"TopOfOne", rows, {24}, EngineOutput::top, 1});
  all.push_back({"TopOfAll", rows, {24}, EngineOutput::top, 17});
  return all;
}

int class_axis(const Tensor& scores) { return scores.rank() == 4 ? 1 : scores.rank() - 1; }

/// Outputs as brim's ops have them.
std::vector<Tensor> by_ops(const Tensor& scores, EngineOutput output, int64_t k) {
  const int axis = class_axis(scores);
  if (output == EngineOutput::classes) return {argmax(scores, axis).to(i32)};
  const Tensor p = softmax(scores, axis);
  if (output == EngineOutput::softmax) return {p};
  const auto found = topk(scores.rank() == 4 ? p.permute({0, 2, 3, 1}).contiguous() : p, k);
  return {found.values, found.indices.to(i32)};
}

class EngineOfClasses : public testing::TestWithParam<ClassCase> {};

TEST_P(EngineOfClasses, PutsOutWhatOpsDo) {
  const ClassCase& tested = GetParam();
  manual_seed(5);
  const NoGrad no_grad;
  const TemporaryFolder folder;
  const std::string path = folder / "model.brim";
  nn::Sequential network;
  tested.build(network);
  network.eval();
  Shape shape = tested.sample;
  shape.insert(0, 1);
  deploy::save_engine(
      path, network, Tensor::empty(shape, f32, Device::cpu()),
      {.batches = {1, 3}, .output = tested.output, .top = tested.top, .threads = 2});
  for (const int64_t batch : {1, 3}) {
    shape[0] = batch;
    const Tensor x = 3.0 * randn(shape);
    const std::vector<Tensor> expected = by_ops(network(x), tested.output, tested.top);
    for_each_engine(path, batch, [&](const OpenedEngine& engine) {
      const std::vector<Tensor> found = engine.outputs(x);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) {
        ASSERT_EQ(found[i].shape(), expected[i].shape());
        ASSERT_EQ(found[i].dtype(), expected[i].dtype());
        if (found[i].dtype() == i32)
          EXPECT_EQ(found[i].to_vector<int32_t>(), expected[i].contiguous().to_vector<int32_t>());
        else
          EXPECT_LT(relative_difference(found[i], expected[i]), 1e-5);
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(All, EngineOfClasses, testing::ValuesIn(class_cases()),
                         [](const auto& tested) { return tested.param.name; });

/// Scores are the input.
struct GivesScores : nn::Module {
  Tensor forward(const Tensor& x) override { return relu(x) - relu(-x); }
};

TEST(ClassEngine, PutsTheFirstOfEqualOnesFirstAndNumbersBelowNaN) {
  const TemporaryFolder folder;
  const std::string path = folder / "model.brim";
  GivesScores network;
  deploy::save_engine(path, network, zeros({1, 6}), {.output = EngineOutput::top, .top = 3});
  const float inf = std::numeric_limits<float>::infinity();
  const auto top = [&](const std::vector<float>& scores) {
    return OpenedEngine(path)
        .outputs(Tensor::from<float>(scores, {1, 6}))
        .back()
        .to_vector<int32_t>();
  };
  EXPECT_EQ(top({1, 1, 1, 1, 1, 1}), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(top({0, 2, 1, 2, 1, 2}), (std::vector<int32_t>{1, 3, 5}));
  EXPECT_EQ(top({-inf, 5, -inf, 4, -inf, 6}), (std::vector<int32_t>{5, 1, 3}));
  EXPECT_EQ(top({0, std::nanf(""), 1, 2, 3, 4}), (std::vector<int32_t>{0, 1, 2}));  // all are NaN
  deploy::save_engine(path, network, zeros({1, 6}), {.output = EngineOutput::classes});
  EXPECT_EQ(top({0, 1, std::nanf(""), 9, std::nanf(""), 4}), std::vector<int32_t>{2});
  EXPECT_EQ(top({0, 1, 7, 9, 9, 4}), std::vector<int32_t>{3});
}

TEST(ClassEngine, ChoosesAmongIntegers) {
  manual_seed(5);
  const NoGrad no_grad;
  const TemporaryFolder folder;
  const std::string path = folder / "model.brim";
  nn::Sequential network;
  network.push<nn::Conv2d>({.in = 3, .out = 16, .kernel = 3}).push<nn::ReLU>();
  network.push<nn::Flatten>().push<nn::Linear>({.in = 16 * 36, .out = 30});
  network.eval();
  compress::quantize(network, [&] { (void)network(randn({8, 3, 8, 8})); }, {.only_faster = false});
  for (const EngineOutput output :
       {EngineOutput::top, EngineOutput::classes, EngineOutput::softmax}) {
    deploy::EngineSummary made =
        deploy::save_engine(path, network, zeros({1, 3, 8, 8}), {.output = output, .threads = 2});
    EXPECT_EQ(made.operators["int8_convolution"], 2);
    const Tensor x = randn({1, 3, 8, 8});
    const Tensor expected = by_ops(network(x), output, 5).back();
    for_each_engine(path, 1, [&](const OpenedEngine& engine) {
      const Tensor found = engine.outputs(x).back();
      if (output == EngineOutput::softmax)
        EXPECT_LT(relative_difference(found, expected), 1e-5);
      else
        EXPECT_EQ(found.to_vector<int32_t>(), expected.to_vector<int32_t>());
      EXPECT_EQ(brim_rt_verify(engine.session(), nullptr, nullptr), BRIM_RT_OK);
    });
  }
}

TEST(ClassEngine, MakesMasksOfPictures) {
  manual_seed(5);
  const NoGrad no_grad;
  const TemporaryFolder folder;
  const std::string path = folder / "model.brim";
  const auto network = nn::make_model("unet-small", {.classes = 3, .input = {3, 32, 32}});
  network->train();
  for (int i = 0; i < 3; ++i) (void)(*network)(randn({4, 3, 32, 32}));
  network->eval();
  const deploy::EnginePictures pictures{
      .height = 40,
      .width = 56,
      .transform = {.steps = {data::Resize{.height = 32}, data::CenterCrop{.height = 32}}}};
  deploy::EngineSummary made = deploy::save_engine(path, *network, zeros({1, 3, 32, 32}),
                                                   {.batches = {1, 2},
                                                    .labels = {"street", "sky", "car"},
                                                    .pictures = pictures,
                                                    .output = EngineOutput::classes,
                                                    .threads = 2});
  EXPECT_EQ(made.operators["picture"], 1);
  EXPECT_EQ(made.operators["argmax"], 1);
  const Tensor x = randint(0, 256, {1, 40, 56, 3}, {.dtype = u8});
  const data::Image image{
      .width = 56, .height = 40, .channels = 3, .pixels = x.to_vector<uint8_t>()};
  const Tensor expected =
      argmax((*network)(data::to_tensor(image, pictures.transform).unsqueeze(0)), 1).to(i32);
  for_each_engine(path, 1, [&](const OpenedEngine& engine) {
    const Tensor found = engine.outputs(x)[0];
    EXPECT_EQ(found.shape(), Shape({1, 32, 32}));
    EXPECT_EQ(found.to_vector<int32_t>(), expected.to_vector<int32_t>());
  });
}

TEST(ClassEngine, TakesMemoryOnlyBeforeItRuns) {
  const TemporaryFolder folder;
  const std::string path = folder / "model.brim";
  nn::Sequential network;
  network.push<nn::Linear>({.in = 12, .out = 9});
  deploy::save_engine(path, network, zeros({1, 12}), {.output = EngineOutput::top, .top = 3});
  CountedMemory counted;
  const brim_rt_allocator allocator = counted.allocator();
  const OpenedEngine engine(path, {.own_threads = 2}, &allocator);
  const int taken = counted.taken;
  for (int i = 0; i < 3; ++i) (void)engine.outputs(randn({1, 12}));
  EXPECT_EQ(counted.taken, taken);
}

TEST(ClassEngine, RefusesWhatAreNoClasses) {
  const TemporaryFolder folder;
  const std::string path = folder / "model.brim";
  nn::Sequential network;
  network.push<nn::Linear>({.in = 12, .out = 9});
  const auto refused = [&](const deploy::EngineOptions& o, nn::Module& of,
                           const Tensor& example = zeros({1, 12})) {
    const std::string message = message_of([&] { deploy::save_engine(path, of, example, o); });
    EXPECT_FALSE(std::ifstream(path).is_open());
    return message;
  };
  for (const int64_t k : {0, -1, 10, 1001})
    EXPECT_NE(refused({.output = EngineOutput::top, .top = k}, network).find("they are 1 to 9"),
              std::string::npos);
  GivesScores one;
  EXPECT_NE(refused({.output = EngineOutput::softmax}, one, zeros({1})).find("none of scores"),
            std::string::npos);
  EXPECT_NE(refused({.labels = {"a"}, .output = EngineOutput::classes}, network)
                .find("1 labels for 9 outputs"),
            std::string::npos);
  const NoGrad no_grad;
  nn::Sequential constant;
  constant.push<nn::Linear>({.in = 12, .out = 9});
  for (const auto& [name, p] : constant.named_parameters()) Tensor(p).fill_(0.5);
  EXPECT_NE(refused({.output = EngineOutput::classes}, constant).find("prove nothing"),
            std::string::npos);
}

TEST(ClassEngine, SurvivesAlteredFiles) {
  const TemporaryFolder folder;
  const std::string path = folder / "model.brim", altered = folder / "altered.brim";
  nn::Sequential network;
  network.push<nn::Linear>({.in = 12, .out = 9});
  for (const EngineOutput output : {EngineOutput::top, EngineOutput::classes}) {
    deploy::save_engine(path, network, zeros({1, 12}),
                        {.outputs = {"classes"}, .output = output, .top = 3, .threads = 1});
    EngineBytes whole(path);
    EXPECT_EQ(refusal_of(whole.bytes, altered), "");
    const uint64_t last = whole.steps() - 1;
    const auto refused = [&](const std::function<void(EngineBytes&)>& alter) {
      EngineBytes file = whole;
      alter(file);
      const std::string message = refusal_of(file.bytes, altered);
      EXPECT_NE(message.find("damaged"), std::string::npos) << message;
    };
    const int operands = output == EngineOutput::top ? 3 : 2;
    for (int operand = 0; operand < operands; ++operand) {
      for (const int64_t size :
           {int64_t{0}, int64_t{-1}, int64_t{10}, int64_t{65536}, int64_t{1} << 40})
        for (const int axis : {0, 1})
          if (axis < whole.operand(last, operand).rank &&
              !(operand == 0 && axis == 1 && size == 10))
            refused([&](EngineBytes& f) { f.operand(last, operand).dims[axis] = size; });
      refused([&](EngineBytes& f) { f.operand(last, operand).dtype = rt::DType::i64; });
    }
    refused([&](EngineBytes& f) { ++f.step(last).inputs, --f.step(last).outputs; });
    refused([&](EngineBytes& f) { ++f.step(last).words; });
    constexpr int kFiles = 300;
    EXPECT_GT(refused_alterations(whole.bytes, altered, kFiles), kFiles / 4);
    // An index that is compared.
    EngineBytes wrong = whole;
    const auto* const proof = wrong.at<rt::ProofRecord>(wrong.at<rt::FileHeader>(0)->proof.at);
    auto* index = wrong.at<int32_t>(proof[output == EngineOutput::top ? 2 : 1].at);
    while (*index < 0) ++index;
    *index = (*index + 1) % 9;
    EXPECT_NE(refusal_of(wrong.bytes, altered).find("classes are not those that brim computed"),
              std::string::npos)
        << refusal_of(wrong.bytes, altered);
  }
}

}  // namespace
}  // namespace brim::tests
