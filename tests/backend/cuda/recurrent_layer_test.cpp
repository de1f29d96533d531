// LSTM and GRU by cuDNN: values and gradients beside the CPU's, what the library is asked for, what
// becomes of what it cannot do. Over the emulation and the fake of cuDNN.
#include <memory>
#include <string>
#include <vector>

#include <brim/autograd/autocast.h>

#include "backend/cuda/libraries_fixture.h"
#include "core/runtime.h"
#include "distance.h"
#include "message_of.h"

namespace brim {
namespace {

using tests::distance;
using tests::Lines;
using tests::message_of;
using Tensors = std::vector<Tensor>;

struct RecurrentProblem {
  int64_t steps, batch = 3;  // of sizes that no other test has: another problem for the library
  nn::RecurrentOptions options = {.in = 5, .hidden = 6};
};

/// Outputs and states of a network.
Tensors outputs_of(nn::LSTM& net, const Tensor& x, const Tensor& h, const Tensor& c) {
  const auto [y, state] = net(x, {h, c});
  return {y, state.h, state.c};
}
Tensors outputs_of(nn::GRU& net, const Tensor& x, const Tensor& h, const Tensor&) {
  const auto [y, last] = net(x, h);
  return {y, last};
}

/// A problem on cuda and on the CPU.
template <class Net>
struct RecurrentCase {
  /// A network on cuda and the same on the CPU.
  struct Pair {
    explicit Pair(const RecurrentProblem& p, DType dtype = f32)
        : there(options_of(p, dtype, Device(DeviceKind::cuda, 0))),
          here(options_of(p, dtype, Device::cpu())) {
      here.load_state_dict(there.state_dict());
    }
    static nn::RecurrentOptions options_of(const RecurrentProblem& p, DType dtype, Device device) {
      nn::RecurrentOptions options = p.options;
      options.dtype = dtype;
      options.device = device;
      return options;
    }
    Net there, here;
  };
  /// x, h and c.
  static Tensors inputs(const RecurrentProblem& p) {
    const nn::RecurrentOptions& o = p.options;
    const int64_t cells = o.layers * (o.bidirectional ? 2 : 1);
    Tensor x = randn({p.steps, p.batch, o.in});
    if (o.batch_first) x = x.transpose(0, 1);
    return {x, randn({cells, p.batch, o.hidden}), randn({cells, p.batch, o.hidden})};
  }
  /// Outputs, states, and gradients of inputs and parameters.
  static Tensors compute(Net& net, const Tensors& in, DType dtype = f32,
                         BackwardOptions options = {}) {
    const Device device = net.parameters()[0].device();
    Tensors leaves;
    for (const Tensor& t : in)
      leaves.push_back(t.to(device).to(dtype).detach().set_requires_grad());
    Tensors all = outputs_of(net, leaves[0], leaves[1], leaves[2]), cotangents;
    if (all.size() == 2) leaves.pop_back();
    for (const Tensor& p : net.parameters()) leaves.push_back(p);
    for (const Tensor& y : all) cotangents.push_back(cos(y.detach() * 3));
    const Tensors d = autograd::grad(all, leaves, cotangents, options);
    all.insert(all.end(), d.begin(), d.end());
    return all;
  }
  static void expect_same(const Tensors& got, const Tensors& want, double tolerance) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_LT(distance(got[i], want[i]),
                tolerance * (1 + max(abs(want[i].detach().to(f64))).item()))
          << "result " << i;
  }
  /// Computes it on both devices.
  static void check(const RecurrentProblem& p, DType dtype, double tolerance) {
    const Tensors in = inputs(p);
    Pair net(p, dtype);
    const Tensors got = compute(net.there, in, dtype);
    expect_same(got, compute(net.here, in, dtype), tolerance);
  }
};

using Networks = testing::Types<nn::LSTM, nn::GRU>;

/// On whatever computes layers on a device of this machine.
template <class Net>
class CudaRecurrentOf : public ::testing::Test, public RecurrentCase<Net> {
 protected:
  void SetUp() override {
    if (Device::count(DeviceKind::cuda) == 0) GTEST_SKIP() << "no CUDA device";
  }
};
TYPED_TEST_SUITE(CudaRecurrentOf, Networks);

TYPED_TEST(CudaRecurrentOf, LayersAreThoseOfTheCpu) {
  for (const bool bidirectional : {false, true}) {
    const RecurrentProblem p{
        .steps = 6,
        .batch = 5,
        .options = {.in = 9, .hidden = 20, .bias = !bidirectional, .bidirectional = bidirectional}};
    this->check(p, f32, 1e-4);
    this->check(p, f64, 1e-10);
    this->check(p, f16, 2e-2);
    this->check(p, bf16, 1e-1);
  }
}

template <class Net>
class CudaLibrariesRecurrentOf : public tests::CudaLibraries, public RecurrentCase<Net> {
 protected:
  using Case = RecurrentCase<Net>;
  /// Computes it on both devices; what cuDNN was asked for on cuda.
  Lines check(const RecurrentProblem& p, DType dtype = f32, double tolerance = 1e-5) const {
    (void)asked();
    Case::check(p, dtype, tolerance);
    return asked();
  }
  static constexpr const char* kCell = std::is_same_v<Net, nn::LSTM> ? " lstm " : " gru ";
};
TYPED_TEST_SUITE(CudaLibrariesRecurrentOf, Networks);

TYPED_TEST(CudaLibrariesRecurrentOf, LayersAreThoseOfTheCpu) {
  for (const RecurrentProblem& p : std::vector<RecurrentProblem>{
           {.steps = 7},
           {.steps = 1},
           {.steps = 4, .batch = 1},
           {.steps = 3, .options = {.in = 1, .hidden = 1}},
           {.steps = 3, .options = {.in = 4, .hidden = 3, .bias = false}},
           {.steps = 5, .options = {.in = 5, .hidden = 6, .batch_first = true}},
           {.steps = 6, .options = {.in = 2, .hidden = 3, .layers = 2, .bidirectional = true}}}) {
    const Lines lines = this->check(p);
    const int cells = static_cast<int>(p.options.layers * (p.options.bidirectional ? 2 : 1));
    const std::string tail = this->kCell + std::string("type 0 math 3");
    EXPECT_EQ(this->count(lines, "cudnnRNNForward" + tail + " training"), cells) << p.steps;
    EXPECT_EQ(this->count(lines, "cudnnRNNBackwardData_v8" + tail), cells) << p.steps;
    EXPECT_EQ(this->count(lines, "cudnnRNNBackwardWeights_v8" + tail), cells) << p.steps;
    EXPECT_EQ(this->count(lines, "matmul"), 0) << p.steps;
  }
  EXPECT_GT(this->count(this->check({.steps = 7}, f64, 1e-12), "type 1 math 3"), 0);
}

TYPED_TEST(CudaLibrariesRecurrentOf, SixteenBitsAreForTensorCores) {
  EXPECT_EQ(this->count(this->check({.steps = 8}, f16, 1e-2), "type 2 math 1"), 3);
  EXPECT_EQ(this->count(this->check({.steps = 8}, bf16, 6e-2), "type 9 math 1"), 3);
}

TYPED_TEST(CudaLibrariesRecurrentOf, Tf32IsOffUnlessAskedFor) {
  const Tf32 scope;
  EXPECT_EQ(this->count(this->check({.steps = 7}, f32, 1e-2), "type 0 math 0"), 3);
  EXPECT_EQ(this->count(this->check({.steps = 7}, f64, 1e-12), "type 1 math 3"), 3);
}

TYPED_TEST(CudaLibrariesRecurrentOf, AutocastCastsLayers) {
  typename TestFixture::Pair net({.steps = 9});
  const Tensors in = this->inputs({.steps = 9});
  const Autocast scope(bf16);
  (void)this->asked();
  const Tensor y = net.there(in[0].to(this->cuda));
  EXPECT_EQ(y.dtype(), bf16);
  EXPECT_EQ(this->count(this->asked(), "cudnnRNNForward" + std::string(this->kCell) + "type 9"), 1);
  EXPECT_LT(distance(y, net.here(in[0])), 3e-2);
}

TYPED_TEST(CudaLibrariesRecurrentOf, GatesMayLieApart) {
  this->let("rnn-gaps");
  EXPECT_EQ(this->count(this->check({.steps = 10}), "cudnnRNNBackwardWeights_v8"), 1);
}

TYPED_TEST(CudaLibrariesRecurrentOf, ViewsMayBeginAnywhere) {
  typename TestFixture::Pair net({.steps = 11});
  const Tensors in = this->inputs({.steps = 12});
  const Tensor part = in[0].slice(0, 1, 12);  // 60 bytes behind the storage's begin
  EXPECT_LT(distance(net.there(in[0].to(this->cuda).slice(0, 1, 12)), net.here(part)), 1e-5);
  EXPECT_EQ(this->count(this->asked(), "cudnnRNNForward"), 1);
}

TYPED_TEST(CudaLibrariesRecurrentOf, WhatNobodyWantsIsNotComputed) {
  typename TestFixture::Pair net({.steps = 13});
  const Tensors in = this->inputs({.steps = 13});
  {
    const NoGrad guard;
    (void)this->asked();
    EXPECT_LT(distance(net.there(in[0].to(this->cuda)), net.here(in[0])), 1e-5);
    EXPECT_EQ(this->count(this->asked(), " inference"), 1);
  }
  const auto of_input = [&](auto& of, Device device) {
    for (Tensor p : of.parameters()) p.set_requires_grad(false);
    Tensor x = in[0].to(device).detach().set_requires_grad();
    sum(square(of(x))).backward();
    return x.grad();
  };
  EXPECT_LT(distance(of_input(net.there, this->cuda), of_input(net.here, Device::cpu())), 1e-5);
  EXPECT_EQ(this->count(this->asked(), "cudnnRNNBackwardWeights_v8"), 0);
  // Weights alone.
  typename TestFixture::Pair again({.steps = 13});
  sum(square(again.there(in[0].to(this->cuda)))).backward();
  sum(square(again.here(in[0]))).backward();
  for (size_t i = 0; i < 4; ++i)
    EXPECT_LT(distance(again.there.parameters()[i].grad(), again.here.parameters()[i].grad()), 1e-4)
        << i;
}

TYPED_TEST(CudaLibrariesRecurrentOf, GradientsRepeatThemselves) {
  typename TestFixture::Pair net({.steps = 14});
  Tensor x = this->inputs({.steps = 14})[0].to(this->cuda).set_requires_grad();
  const Tensor y = sum(square(net.there(x)));
  y.backward({}, {.retain_graph = true});
  const Tensor first = x.grad().clone();
  x.zero_grad();
  y.backward();
  EXPECT_EQ(distance(x.grad(), first), 0);
}

TYPED_TEST(CudaLibrariesRecurrentOf, GradientsHaveGradients) {
  const RecurrentProblem p{.steps = 4, .batch = 2, .options = {.in = 3, .hidden = 4}};
  for (const bool bias : {true, false}) {
    RecurrentProblem of = p;
    of.options.bias = bias;
    typename TestFixture::Pair net(of, f64);
    const Tensors in = this->inputs(of);
    const auto second = [&](auto& at) {
      Tensor penalty;
      const Tensors all = this->compute(at, in, f64, {.create_graph = true});
      for (size_t i = 0; i < all.size(); ++i) {
        const Tensor term = sum(square(all[i]));
        penalty = i == 0 ? term : penalty + term;
      }
      return autograd::grad(Tensors{penalty}, at.parameters());
    };
    this->expect_same(second(net.there), second(net.here), 1e-10);
  }
}

TYPED_TEST(CudaLibrariesRecurrentOf, TrainingStepsAreCapturedInGraphs) {
  const RecurrentProblem p{.steps = 15, .options = {.in = 4, .hidden = 5, .layers = 2}};
  typename TestFixture::Pair net(p);
  const Tensors in = this->inputs(p);
  const auto body_of = [](auto& at, optim::SGD& optimizer) {
    return [&](const Tensor& x) {
      optimizer.zero_grad();
      const Tensor loss = mean(square(at(x)));
      loss.backward();
      optimizer.step();
      return loss;
    };
  };
  optim::SGD on_cuda(net.there.named_parameters(), {.lr = 0.1}),
      on_cpu(net.here.named_parameters(), {.lr = 0.1});
  auto step = compile(body_of(net.there, on_cuda));
  const auto want = body_of(net.here, on_cpu);
  const Tensor x = in[0].to(this->cuda);
  (void)this->asked();
  for (int i = 0; i < 6; ++i) EXPECT_NEAR(step(x).item(), want(in[0]).item(), 1e-5) << i;
  EXPECT_GT(step.stats().graph_replays, 0);
  EXPECT_GT(this->count(this->asked(), "cudnnRNNBackwardWeights_v8"), 0);
}

TYPED_TEST(CudaLibrariesRecurrentOf, NewLayersInAGraphAreComputedByOps) {
  const NoGrad guard;
  for (const bool is_new : {true, false}) {
    const RecurrentProblem p{.steps = is_new ? 17 : 18};
    typename TestFixture::Pair net(p);
    const Tensor x = this->inputs(p)[0], there = x.to(this->cuda);
    if (!is_new) (void)net.there(there);
    Tensor y = zeros({p.steps, 3, 6}, {.device = this->cuda});
    int calls = 0;
    std::shared_ptr<void> kept;
    const auto compute = [&](int) {
      if (++calls == 3) y.copy_(net.there(there));  // while it is captured
      return true;
    };
    (void)this->asked();
    ::testing::internal::CaptureStderr();
    for (int i = 0; i < 4; ++i)
      runtime(DeviceKind::cuda)
          .launch_as_one(Stream::current(this->cuda), {.queue = compute}, kept);
    const bool warned = ::testing::internal::GetCapturedStderr().find("met for the first time") !=
                        std::string::npos;
    EXPECT_LE(warned, is_new);  // once in a process
    EXPECT_EQ(runtime(DeviceKind::cuda).repeated(kept).graphs, 1);
    EXPECT_EQ(this->count(this->asked(), "cudnnRNNForward"), !is_new);
    EXPECT_LT(distance(y, net.here(x)), 1e-5);
  }
}

TYPED_TEST(CudaLibrariesRecurrentOf, WhatIsNotSupportedIsComputedByOps) {
  int64_t steps = 20;
  for (const char* failure :
       {"no-rnn", "cudnnGetRNNTempSpaceSizes", "cudnnSetRNNDescriptor_v8", "rnn-columns"}) {
    this->let(failure);
    for (const bool again : {false, true}) {
      ::testing::internal::CaptureStderr();
      EXPECT_EQ(this->count(this->check({.steps = steps}), "cudnnRNN"), 0) << failure;
      const std::string said = ::testing::internal::GetCapturedStderr();
      EXPECT_EQ(said.find("computes the layer, op by op") != std::string::npos,
                !again && failure != std::string("no-rnn"))
          << failure << ": " << said;
    }
    ++steps;
  }
  this->let("");
  typename TestFixture::Pair net({.steps = 3});
  EXPECT_EQ(net.there(zeros({3, 0, 5}, {.device = this->cuda})).shape(), (Shape{3, 0, 6}));
  EXPECT_EQ(this->count(this->asked(), "cudnnRNN"), 0);
}

TYPED_TEST(CudaLibrariesRecurrentOf, FailuresNameCallAndStatus) {
  typename TestFixture::Pair net({.steps = 16});
  const Tensor x = this->inputs({.steps = 16})[0].to(this->cuda);
  this->let("cudnnRNNForward");
  EXPECT_EQ(message_of<DeviceError>([&] { (void)net.there(x); }),
            "[recurrent_layer] cuDNN: cudnnRNNForward failed: CUDNN_STATUS_EXECUTION_FAILED: the "
            "fake says so");
  this->let("cudnnRNNBackwardWeights_v8");
  const Tensor y = net.there(x);
  EXPECT_EQ(message_of<DeviceError>([&] { sum(y).backward(); }),
            "[recurrent_layer_grad] cuDNN: cudnnRNNBackwardWeights_v8 failed: "
            "CUDNN_STATUS_EXECUTION_FAILED: the fake says so");
  EXPECT_THROW((void)net.here(x), DeviceError);
  EXPECT_THROW((void)net.there(x.to(f64)), DTypeError);
}

}  // namespace
}  // namespace brim
