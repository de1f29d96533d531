// Undefined tensors given to what no contract case calls: modules, losses, optimizers, files. The
// harness leaves out each input of every op; the methods are in tests/core/tensor_test.cpp.
#include <gtest/gtest.h>

#include <functional>

#include <brim/brim.h>

#include "message_of.h"
#include "temporary_folder.h"

namespace brim::contract {
namespace {

void expect_refused(const char* what, const std::function<void()>& use) {
  const std::string message = tests::message_of(use);
  EXPECT_NE(message.find("undefined"), std::string::npos) << what << ": " << message;
}

template <class M>
void module(const char* what, typename M::Options options = {}) {
  M made(options);
  expect_refused(what, [&] { (void)made(Tensor()); });
}

TEST(Undefined, ModulesRefuseThem) {
  module<nn::Linear>("Linear", {.in = 2, .out = 2});
  module<nn::Conv2d>("Conv2d", {.in = 2, .out = 2, .kernel = 3});
  module<nn::Conv1d>("Conv1d", {.in = 2, .out = 2, .kernel = 3});
  module<nn::ConvTranspose2d>("ConvTranspose2d", {.in = 2, .out = 2, .kernel = 3});
  module<nn::Upsample>("Upsample", {.scale = 2});
  module<nn::PixelShuffle>("PixelShuffle", {.factor = 2});
  module<nn::PixelUnshuffle>("PixelUnshuffle", {.factor = 2});
  module<nn::Unfold>("Unfold", {.kernel = 2});
  module<nn::LSTM>("LSTM", {.in = 2, .hidden = 2});
  module<nn::GRU>("GRU", {.in = 2, .hidden = 2});
  module<nn::Embedding>("Embedding", {.num = 4, .dim = 2});
  module<nn::BatchNorm2d>("BatchNorm2d", {.features = 2});
  module<nn::LayerNorm>("LayerNorm", {.shape = {2}});
  module<nn::RMSNorm>("RMSNorm", {.shape = {2}});
  module<nn::MultiheadAttention>("MultiheadAttention", {.dim = 4, .heads = 2});
  module<nn::TransformerEncoderLayer>("TransformerEncoderLayer", {.dim = 4, .heads = 2});
  module<nn::GroupNorm>("GroupNorm", {.groups = 1, .channels = 2});
  module<nn::MaxPool2d>("MaxPool2d", {.kernel = 2});
  module<nn::AvgPool2d>("AvgPool2d", {.kernel = 2});
  module<nn::AdaptiveAvgPool2d>("AdaptiveAvgPool2d", {.output = 1});
  module<nn::Flatten>("Flatten");
  module<nn::Dropout>("Dropout");
  module<nn::GELU>("GELU");
  module<nn::LeakyReLU>("LeakyReLU");
  module<nn::ELU>("ELU");
  module<nn::Softmax>("Softmax", {.axis = 0});
  nn::ReLU relu;
  expect_refused("ReLU", [&] { (void)relu(Tensor()); });
  nn::BatchNorm2d evaluated({.features = 2});
  evaluated.eval();
  expect_refused("BatchNorm2d in evaluation", [&] { (void)evaluated(Tensor()); });
}

TEST(Undefined, LossesRefuseEither) {
  const Tensor x = zeros({2, 3}), classes = zeros({2}, {.dtype = i64}), u;
  nn::CrossEntropyLoss cross_entropy;
  nn::NLLLoss nll;
  nn::BCEWithLogitsLoss bce;
  nn::MSELoss mse;
  nn::L1Loss l1;
  for (nn::Loss* loss : std::initializer_list<nn::Loss*>{&cross_entropy, &nll, &bce, &mse, &l1}) {
    expect_refused("output", [&] { (void)(*loss)(u, loss == &mse ? x : classes); });
    expect_refused("target", [&] { (void)(*loss)(x, u); });
  }
}

TEST(Undefined, SumsThatWereNeverBegunAreErrorsOfTheOp) {
  const Tensor loss = ones({});
  Tensor total;
  const auto expect_add = [](const std::function<void()>& use) {
    EXPECT_TRUE(tests::message_of(use).starts_with("[add")) << tests::message_of(use);
  };
  expect_add([&] { total = total + loss; });
  expect_add([&] { total = loss + total; });
  expect_add([&] { total = add(total, loss, 2); });
  expect_add([&] { total.add_(loss); });
  const Autocast autocast(bf16);
  expect_add([&] { total = total + loss; });
  expect_refused("matmul in autocast", [&] { (void)matmul(total, loss); });
}

TEST(Undefined, TrainingRefusesThem) {
  const Tensor w = ones({2}).set_requires_grad(), u;
  expect_refused("SGD", [&] { optim::SGD sgd({u}, {.lr = 1}); });
  expect_refused("AdamW", [&] { optim::AdamW adam({u}, {.lr = 1}); });
  expect_refused("clip_grad_norm_", [&] { (void)optim::clip_grad_norm_({u}, 1); });
  expect_refused("clip_grad_value_", [&] { optim::clip_grad_value_({u}, 1); });
  expect_refused("GradScaler", [&] { (void)optim::GradScaler().scale(u); });
  expect_refused("grad of", [&] { (void)autograd::grad(std::vector{u}, std::vector{w}); });
  EXPECT_THROW((void)autograd::grad(std::vector{sum(w)}, std::vector{u}), AutogradError);
  auto step = compile([](const Tensor& x) { return x * 2; });
  expect_refused("a compiled step", [&] { (void)step(u); });
  auto makes_none = compile([](const Tensor&) { return Tensor(); });
  expect_refused("a compiled step that returns it", [&] { (void)makes_none(w.detach()); });
}

TEST(Undefined, FilesRefuseThem) {
  const tests::TemporaryFolder folder;
  const std::string path = folder / "x";
  expect_refused("safetensors", [&] { io::save_safetensors(path, {{"u", Tensor()}}); });
  expect_refused("pth", [&] { io::save_pth(path, {{"u", Tensor()}}); });
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace brim::contract
