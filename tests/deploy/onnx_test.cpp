// What ONNX files hold, and what cannot be exported.
#include <brim/autograd/autograd.h>
#include <brim/compress/prune.h>
#include <brim/compress/quantize.h>
#include <brim/core/random.h>
#include <brim/core/sim.h>
#include <brim/deploy/onnx.h>
#include <brim/nn/nn.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/pool.h>
#include <brim/ops/reduce.h>
#include <brim/ops/shape.h>
#include <brim/ops/unary.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "deploy/onnx_file.h"
#include "message_of.h"
#include "temporary_folder.h"

namespace brim::tests {
namespace {

using deploy::save_onnx;
using testing::Test;
using Names = std::vector<std::string>;

struct SmallNet : nn::Module {
  explicit SmallNet(Device device = {})
      : conv(add<nn::Conv2d>("conv", {.in = 3, .out = 4, .kernel = 3, .device = device})),
        norm(add<nn::BatchNorm2d>("norm", {.features = 4, .device = device})),
        fc(add<nn::Linear>("fc", {.in = 4, .out = 5, .device = device})) {}
  Tensor forward(const Tensor& x) override { return fc(mean(relu(norm(conv(x))), {2, 3})); }
  nn::Conv2d& conv;
  nn::BatchNorm2d& norm;
  nn::Linear& fc;
};

class Onnx : public Test {
 protected:
  std::string path() const { return folder_ / "model.onnx"; }
  OnnxFile saved(nn::Module& network, const Tensor& example,
                 const deploy::OnnxOptions& options = {}) const {
    const deploy::OnnxSummary made = save_onnx(path(), network, example, options);
    const OnnxFile file(path());
    EXPECT_EQ(made.nodes, static_cast<int64_t>(file.nodes.size()));
    EXPECT_EQ(made.initializers, static_cast<int64_t>(file.initializers.size()));
    EXPECT_EQ(made.bytes, static_cast<int64_t>(std::filesystem::file_size(path())));
    EXPECT_EQ(made.opset, file.opset);
    return file;
  }
  bool is_written() const { return std::filesystem::exists(path()); }

 private:
  const TemporaryFolder folder_;
};

TEST_F(Onnx, HoldsTheNetworkUnderItsNames) {
  SmallNet net;
  const OnnxFile file = saved(net, zeros({1, 3, 8, 8}), {.metadata = {{"classes", "[\"a\"]"}}});
  EXPECT_EQ(file.producer, "brim");
  EXPECT_EQ(file.ir, 9);
  EXPECT_EQ(file.opset, 20);
  EXPECT_EQ(file.metadata.at("classes"), "[\"a\"]");
  EXPECT_EQ(file.operators(),
            (Names{"Conv", "BatchNormalization", "Relu", "ReduceMean", "Reshape", "Gemm"}));
  ASSERT_EQ(file.inputs.size(), 1U);
  EXPECT_EQ(file.inputs[0].name, "input");
  EXPECT_EQ(file.inputs[0].type, 1);
  EXPECT_EQ(file.inputs[0].shape, (Names{"batch", "3", "8", "8"}));
  EXPECT_EQ(file.outputs.at(0).name, "output");
  EXPECT_EQ(file.outputs[0].shape, (Names{"batch", "5"}));
  EXPECT_EQ(file.node("Conv").name, "conv/Conv");
  EXPECT_EQ(file.node("Relu").name, "Relu");
  EXPECT_EQ(file.node("Conv").inputs, (Names{"input", "conv.weight", "conv.bias"}));
  EXPECT_EQ(file.node("Conv").ints.at("kernel_shape"), (std::vector<int64_t>{3, 3}));
  EXPECT_EQ(file.node("Gemm").ints.at("transB"), std::vector<int64_t>{1});
  EXPECT_FLOAT_EQ(file.node("BatchNormalization").floats.at("epsilon"), 1e-5F);
  const auto& weight = file.initializers.at("conv.weight");
  EXPECT_EQ(weight.shape, (std::vector<int64_t>{4, 3, 3, 3}));
  EXPECT_EQ(weight.type, 1);
  EXPECT_EQ(weight.values<float>(), net.conv.weight.to_vector<float>());
  EXPECT_TRUE(file.initializers.contains("norm.running_mean"));
}

TEST_F(Onnx, TakesBatchesOfOneSize) {
  SmallNet net;
  const OnnxFile file = saved(net, zeros({1, 3, 8, 8}), {.batch = 4});
  EXPECT_EQ(file.inputs.at(0).shape, (Names{"4", "3", "8", "8"}));
  EXPECT_EQ(file.outputs.at(0).shape, (Names{"4", "5"}));
}

TEST_F(Onnx, LeavesTheNetworkAsItWas) {
  SmallNet net;
  net.norm.eval();
  const std::vector<float> mean = net.norm.running_mean.to_vector<float>();
  manual_seed(5);
  const float next = rand({1}).item<float>();
  manual_seed(5);
  (void)saved(net, zeros({1, 3, 8, 8}));
  EXPECT_TRUE(net.training());
  EXPECT_FALSE(net.norm.training());
  EXPECT_TRUE(net.fc.weight.requires_grad());
  EXPECT_FALSE(net.fc.weight.grad().defined());
  EXPECT_EQ(net.norm.running_mean.to_vector<float>(), mean);
  EXPECT_EQ(rand({1}).item<float>(), next);
  (void)net(zeros({2, 3, 8, 8}));  // computes as before
}

TEST_F(Onnx, WritesWeightsOfAnyLayoutRowMajor) {
  SmallNet net;
  const std::vector<float> weight = net.conv.weight.to_vector<float>();
  net.to(MemoryFormat::nhwc);
  const OnnxFile file = saved(net, zeros({1, 3, 8, 8}));
  EXPECT_EQ(file.initializers.at("conv.weight").values<float>(), weight);
  EXPECT_EQ(file.count("Transpose"), 0);
}

TEST_F(Onnx, IsTheSameOfAnotherDevice) {
  SmallNet net(Device("sim:0"));
  const OnnxFile file = saved(net, zeros({1, 3, 8, 8}, {.device = "sim:0"}));
  EXPECT_EQ(file.operators(),
            (Names{"Conv", "BatchNormalization", "Relu", "ReduceMean", "Reshape", "Gemm"}));
  EXPECT_EQ(file.initializers.at("conv.weight").values<float>(),
            net.conv.weight.cpu().to_vector<float>());
}

TEST_F(Onnx, HasLayersInIntegersAsQdq) {
  SmallNet net;
  compress::quantize(net, [&] { (void)net(randn({4, 3, 8, 8})); }, {.only_faster = false});
  net.eval();
  const NoGrad scope;
  const OnnxFile file = saved(net, zeros({1, 3, 8, 8}));
  EXPECT_EQ(file.count("QuantizeLinear"), 2);
  EXPECT_EQ(file.count("DequantizeLinear"), 4);
  const auto& conv = file.node("Conv");
  const auto& x = file.maker(conv.inputs.at(0));
  ASSERT_EQ(x.op, "DequantizeLinear");
  const auto& quantized = file.maker(x.inputs.at(0));
  ASSERT_EQ(quantized.op, "QuantizeLinear");
  EXPECT_EQ(quantized.name, "conv/QuantizeLinear");
  EXPECT_EQ(quantized.inputs.at(0), "input");
  EXPECT_EQ(quantized.inputs.at(1), x.inputs.at(1));
  EXPECT_EQ(file.initializers.at(quantized.inputs[2]).type, 2) << "a zero point is u8";
  const auto& weight = file.maker(conv.inputs[1]);
  ASSERT_EQ(weight.op, "DequantizeLinear");
  EXPECT_EQ(weight.inputs.at(0), "conv.weight.values");
  EXPECT_EQ(weight.ints.at("axis"), std::vector<int64_t>{0});
  const Int8Weight& int8 = *net.conv.int8_weight();
  EXPECT_EQ(file.initializers.at("conv.weight.values").values<int8_t>(),
            int8.values.to_vector<int8_t>());
  EXPECT_EQ(file.initializers.at("conv.weight.scales").values<float>(),
            int8.scales.to_vector<float>());
  EXPECT_EQ(file.initializers.at(conv.inputs.at(2)).values<float>(),
            (net.conv.bias + int8.correction).to_vector<float>());
  EXPECT_FALSE(file.initializers.contains("conv.weight"));
}

TEST_F(Onnx, HasIntegersAround0ForTensorRt) {
  nn::Linear fc({.in = 3, .out = 2});
  fc.use_int8(Int8Weight::quantize(fc.weight.detach()), QuantParams::of_range(-1, 2));
  const OnnxFile file = saved(fc, zeros({1, 3}), {.symmetric_int8 = true});
  const auto& quantize = file.node("QuantizeLinear");
  const auto& zero = file.initializers.at(quantize.inputs.at(2));
  EXPECT_EQ(zero.type, 3) << "i8";
  EXPECT_EQ(zero.values<int8_t>(), std::vector<int8_t>{0});
  EXPECT_NEAR(file.initializers.at(quantize.inputs.at(1)).values<float>().at(0), 2.0 / 127, 1e-4);
}

TEST_F(Onnx, HasTheRoundingThatIsTrainedWith) {
  SmallNet net;
  const compress::FakeQuantizer rounding(net,
                                         [&] {
                                           (void)net(randn({4, 3, 8, 8}));
                                         },
                                         {.only_faster = false});
  const OnnxFile file = saved(net, zeros({1, 3, 8, 8}));
  EXPECT_EQ(file.count("QuantizeLinear"), 2);
  EXPECT_EQ(file.count("DequantizeLinear"), 2);
  EXPECT_EQ(file.count("Round"), 2) << "of the weights";
  EXPECT_EQ(file.count("Conv"), 1);
}

TEST_F(Onnx, HasSparseLayersDense) {
  nn::Sequential net;
  auto& fc = net.add<nn::Linear>("fc", {.in = 256, .out = 256});
  {
    const NoGrad scope;
    fc.weight.slice(1, 4, 256).zero_();
    fc.use_sparse(SparseWeight::encode(fc.weight, 16));
  }
  const OnnxFile file = saved(net, zeros({1, 256}));
  EXPECT_EQ(file.operators(), Names{"Gemm"});
  EXPECT_EQ(file.initializers.at("fc.weight").shape, (std::vector<int64_t>{256, 256}));
}

TEST_F(Onnx, HasTiedWeightsOnce) {
  struct Tied : nn::Module {
    Tensor forward(const Tensor& x) override { return b(a(x)); }
    nn::Linear& a = add<nn::Linear>("a", {.in = 3, .out = 3, .bias = false});
    nn::Linear& b = add<nn::Linear>("b", {.in = 3, .out = 3, .bias = false});
  } net;
  net.b.weight = net.a.weight;
  const OnnxFile file = saved(net, zeros({1, 3}));
  ASSERT_EQ(file.nodes.size(), 2U);
  EXPECT_EQ(file.nodes[0].inputs[1], "a.weight");
  EXPECT_EQ(file.nodes[1].inputs[1], "a.weight");
  EXPECT_EQ(file.initializers.size(), 1U);
}

TEST_F(Onnx, HasSeveralInputsAndOutputs) {
  nn::Linear fc({.in = 3, .out = 2});
  const deploy::OnnxForward forward = [&](std::span<const Tensor> x) {
    const Tensor y = fc(x[0] + x[1]);
    return std::vector<Tensor>{y, x[1], y};
  };
  save_onnx(path(), fc, forward, {zeros({1, 3}), zeros({1, 3})},
            {.inputs = {"a", "b"}, .outputs = {"y", "same", "again"}});
  const OnnxFile file(path());
  EXPECT_EQ(file.operators(), (Names{"Add", "Gemm", "Identity", "Identity"}));
  EXPECT_EQ(file.inputs.at(1).name, "b");
  EXPECT_EQ(file.node("Gemm").outputs, Names{"y"});
  EXPECT_EQ(file.outputs.at(1).name, "same");
  EXPECT_EQ(file.maker("same").inputs, Names{"b"});
  EXPECT_EQ(file.maker("again").inputs, Names{"y"});
}

TEST_F(Onnx, ComputesShapesFromTheBatch) {
  struct Rows : nn::Module {
    Tensor forward(const Tensor& x) override {
      const Tensor all = x.reshape({x.size(0) * 2, 3});
      return all.unsqueeze(1).expand({-1, 4, -1}).clone() + zeros({x.size(0) * 2, 1, 1});
    }
  } net;
  const OnnxFile file = saved(net, zeros({1, 2, 3}));
  EXPECT_EQ(file.outputs.at(0).shape, (Names{"2*batch", "4", "3"}));
  EXPECT_EQ(file.count("Shape"), 1);
}

struct Rotation : nn::Module {
  Tensor forward(const Tensor& x) override { return atan2(x, x); }
};
struct Noise : nn::Module {
  Tensor forward(const Tensor& x) override { return x + expm1(x); }
};
struct Exotic : nn::Module {
  Tensor forward(const Tensor& x) override { return second(noise(first(x))) + atan2(x, x); }
  Rotation& first = add<Rotation>("first");
  Rotation& second = add<Rotation>("second");
  Noise& noise = add<Noise>("noise");
};

TEST_F(Onnx, TellsAllThatItCannotHoldAtOnce) {
  Exotic net;
  const std::string message = message_of<NotImplemented>([&] {
    save_onnx(path(), net, zeros({1, 3}));
  });
  EXPECT_NE(message.find("atan2 in first, second, the network itself; expm1 in noise"),
            std::string::npos)
      << message;
  EXPECT_FALSE(is_written());
}

TEST_F(Onnx, NamesNodesByModulesOfOtherSignatures) {
  struct Causal : nn::Module {
    Tensor forward(const Tensor& x) override { return block(x, {.causal = true}); }
    nn::TransformerEncoderLayer& block =
        add<nn::TransformerEncoderLayer>("block", {.dim = 8, .heads = 2, .hidden = 16});
  } net;
  const OnnxFile file = saved(net, zeros({1, 4, 8}));
  EXPECT_EQ(file.node("Softmax").name, "block.self_attn/Softmax");
}

TEST_F(Onnx, LeavesAnOldFileWhereItFails) {
  SmallNet net;
  (void)saved(net, zeros({1, 3, 8, 8}));
  const auto size = std::filesystem::file_size(path());
  Exotic exotic;
  EXPECT_THROW(save_onnx(path(), exotic, zeros({1, 3})), NotImplemented);
  EXPECT_EQ(std::filesystem::file_size(path()), size);
}

TEST_F(Onnx, IgnoresWhatNoOutputNeeds) {
  struct Unused : nn::Module {
    Tensor forward(const Tensor& x) override {
      (void)atan2(x, x);
      return relu(x);
    }
  } net;
  EXPECT_EQ(saved(net, zeros({1, 3})).operators(), Names{"Relu"});
}

TEST_F(Onnx, TellsWhatDependsOnTheBatch) {
  struct OfBatch : nn::Module {
    Tensor forward(const Tensor& x) override { return x * (1.0 / static_cast<double>(x.size(0))); }
  } net;
  const std::string message = message_of<NotImplemented>([&] {
    save_onnx(path(), net, zeros({1, 3}));
  });
  EXPECT_NE(message.find("mul_scalar (an option depends on the batch)"), std::string::npos)
      << message;
  EXPECT_NE(message.find("--batch"), std::string::npos) << message;
  EXPECT_FALSE(is_written());
  EXPECT_EQ(saved(net, zeros({1, 3}), {.batch = 2}).operators(), Names{"Mul"});

  struct OtherSteps : nn::Module {
    Tensor forward(const Tensor& x) override { return x.size(0) == 2 ? relu(x) : x + 1; }
  } other;
  EXPECT_NE(message_of<NotImplemented>([&] {
              save_onnx(path(), other, zeros({1, 3}));
            }).find("other steps"),
            std::string::npos);
}

TEST_F(Onnx, TellsWhereValuesAreReadOnTheHost) {
  struct Reads : nn::Module {
    Tensor forward(const Tensor& x) override { return x.sum().item() > 0 ? x : -x; }
  } net;
  const std::string message = message_of<CompileError>([&] {
    save_onnx(path(), net, zeros({1, 3}));
  });
  EXPECT_NE(message.find("[onnx] the forward pass cannot be recorded"), std::string::npos)
      << message;
}

TEST_F(Onnx, RefusesStatisticsOfTheBatch) {
  nn::BatchNorm2d norm({.features = 3, .track_running_stats = false});
  EXPECT_NE(message_of<NotImplemented>([&] {
              save_onnx(path(), norm, zeros({1, 3, 4, 4}));
            }).find("batch_norm (it normalises by the statistics of the batch"),
            std::string::npos);
}

TEST_F(Onnx, ChecksWhatItIsGiven) {
  nn::Linear fc({.in = 3, .out = 2});
  const Tensor x = zeros({1, 3});
  EXPECT_THROW(save_onnx(path(), fc, Tensor()), ShapeError);
  EXPECT_THROW(save_onnx(path(), fc, zeros({})), ShapeError);
  EXPECT_THROW(save_onnx(path(), fc, x, {.batch = 0}), ValueError);
  EXPECT_THROW(save_onnx(path(), fc, x, {.inputs = {}}), ValueError);
  EXPECT_THROW(save_onnx(path(), fc, x, {.outputs = {"a", "b"}}), ValueError);
  EXPECT_THROW(save_onnx(path(), fc, x, {.outputs = {"input"}}), ValueError);
  EXPECT_THROW(save_onnx("/nowhere/model.onnx", fc, x), FileError);
  EXPECT_FALSE(is_written());
}

TEST_F(Onnx, RefusesMoreThanAProtobufHolds) {
  struct Huge : nn::Module {
    Tensor forward(const Tensor& x) override { return x + sum(weight); }
    Tensor& weight = parameter("weight", Tensor::empty({int64_t{1} << 29}));  // never touched
  } net;
  const std::string message = message_of<ValueError>([&] {
    save_onnx(path(), net, zeros({1, 3}));
  });
  EXPECT_NE(message.find("a protobuf holds 2 GB"), std::string::npos) << message;
  EXPECT_FALSE(is_written());
}

TEST_F(Onnx, HasTheTableOfTheDocuments) {
  const char* source = std::getenv("BRIM_SOURCE_DIR");
  std::ifstream stream(std::string(source ? source : ".") + "/docs/ONNX.md");
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  ASSERT_FALSE(text.empty());
  for (const deploy::OnnxKernel& kernel : deploy::onnx_kernels()) {
    const std::string row = "| `" + kernel.kernel + "` | " + kernel.operators + " |\n";
    EXPECT_NE(text.find(row), std::string::npos) << row;
  }
}

}  // namespace
}  // namespace brim::tests
