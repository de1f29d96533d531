// Module: names, listing, moving, state dicts, and its errors.
#include <gtest/gtest.h>

#include <brim/autograd/autograd.h>
#include <brim/nn/linear.h>
#include <brim/nn/module.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/reduce.h>

#include "message_of.h"

namespace brim {
namespace {

using tests::message_of;

struct Scale : nn::Module {
  struct Options {
    int64_t size = 2;
    bool bias = true;
  };
  explicit Scale(Options o)
      : weight(parameter("weight", ones({o.size}))),
        bias(parameter("bias", o.bias ? zeros({o.size}) : Tensor())),
        calls(buffer("calls", zeros({}, {.dtype = i64}))) {}
  Tensor forward(const Tensor& x) override {
    const Tensor y = x * weight;
    return bias.defined() ? y + bias : y;
  }
  Tensor &weight, &bias, &calls;
};

struct Block : nn::Module {
  explicit Block(int64_t size) : inner(add<Scale>("inner", {.size = size, .bias = false})) {}
  Tensor forward(const Tensor& x) override { return inner(x); }
  Scale& inner;
};

struct Net : nn::Module {
  Scale& first = add<Scale>("first");
  Block& second = add<Block>("second", 2);
  Tensor& gain = parameter("gain", full({}, 3));
  Tensor forward(const Tensor& x) override { return second(first(x)) * gain; }
};

std::vector<std::string> names(const NamedTensors& list) {
  std::vector<std::string> found;
  for (const auto& [name, value] : list) found.push_back(name);
  return found;
}

// Others have no memory format, and a handle that was taken before sees the change.
TEST(Module, MemoryFormatsAreForRankFour) {
  struct Filters : nn::Module {
    Tensor& weight = parameter("weight", ones({2, 3, 4, 5}));
    Tensor& mask = buffer("mask", ones({2, 3, 4, 5}));
    Tensor& bias = parameter("bias", ones({2}));
  } net;
  const Tensor handle = net.weight;
  sum(net.weight * 2).backward();
  net.to(MemoryFormat::nhwc);
  for (const Tensor& t : {handle, net.mask, handle.grad()})
    EXPECT_TRUE(t.is_contiguous(MemoryFormat::nhwc) && !t.is_contiguous());
  EXPECT_TRUE(net.bias.is_contiguous() && handle.requires_grad());
  net.to(MemoryFormat::nchw);
  EXPECT_TRUE(handle.is_contiguous() && handle.grad().is_contiguous());
}

TEST(Module, NamesFollowRegistration) {
  const Net net;
  EXPECT_EQ(
      names(net.named_parameters()),
      (std::vector<std::string>{"gain", "first.weight", "first.bias", "second.inner.weight"}));
  EXPECT_EQ(names(net.named_buffers()),
            (std::vector<std::string>{"first.calls", "second.inner.calls"}));
  EXPECT_EQ(net.num_parameters(), 7);
  EXPECT_EQ(net.named_children().size(), 2u);
  for (const Tensor& p : net.parameters()) EXPECT_TRUE(p.requires_grad());
  for (const auto& [name, b] : net.named_buffers()) EXPECT_FALSE(b.requires_grad());
}

TEST(Module, CallsForwardAndTrains) {
  Net net;
  const Tensor y = net(Tensor::from<float>({1, 2}, {2}));
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{3, 6}));
  sum(y).backward();
  EXPECT_EQ(net.gain.grad().item(), 3);
  EXPECT_EQ(net.first.weight.grad().to_vector<float>(), (std::vector<float>{3, 6}));
  net.zero_grad(/*set_to_none=*/false);
  EXPECT_EQ(net.gain.grad().item(), 0);
  net.zero_grad();
  EXPECT_FALSE(net.gain.grad().defined());
}

TEST(Module, BadNamesAreErrors) {
  nn::Module m;
  m.parameter("weight", zeros({1}));
  EXPECT_NE(message_of([&] { m.buffer("weight", zeros({1})); }).find("two parts called 'weight'"),
            std::string::npos);
  EXPECT_THROW(m.add<Scale>("weight"), ValueError);
  EXPECT_THROW(m.add<Scale>(""), ValueError);
  EXPECT_THROW(m.add<Scale>("a.b"), ValueError);
  EXPECT_THROW(m.add("null", std::unique_ptr<Scale>()), ValueError);
  EXPECT_THROW(m.parameter("ids", zeros({1}, {.dtype = i64})), DTypeError);
}

TEST(Module, WithoutForwardSaysSo) {
  nn::Module m;
  EXPECT_EQ(message_of([&] { m(zeros({1})); }),
            "[Module] has no forward(const Tensor&); override it, or call the one it has");
}

TEST(Module, TrainAndEvalReachAllChildren) {
  Net net;
  EXPECT_TRUE(net.second.inner.training());
  net.eval();
  EXPECT_FALSE(net.training() || net.first.training() || net.second.inner.training());
  net.train();
  EXPECT_TRUE(net.second.inner.training());
}

TEST(Module, ToKeepsIdentityAndCarriesGradients) {
  Net net;
  const Tensor handle = net.first.weight;
  sum(net(Tensor::from<float>({1, 2}, {2}))).backward();
  net.to(f64);
  EXPECT_TRUE(net.first.weight.is_same(handle));
  EXPECT_EQ(handle.dtype(), f64);
  EXPECT_TRUE(handle.requires_grad() && handle.is_leaf());
  EXPECT_EQ(handle.grad().to_vector<double>(), (std::vector<double>{3, 6}));
  EXPECT_EQ(net.first.calls.dtype(), i64);
  sum(net(Tensor::from<double>({1, 2}, {2}))).backward();
  EXPECT_EQ(handle.grad().to_vector<double>(), (std::vector<double>{6, 12}));
  const void* memory = handle.raw();
  net.to(Device::cpu()).to(f64);
  EXPECT_EQ(handle.raw(), memory);
  EXPECT_THROW(net.to(i32), DTypeError);
  EXPECT_THROW(net.to("cuda:7"), DeviceError);
}

TEST(Module, TiedParametersAreListedOnceAndStayTied) {
  Net net;
  net.second.inner.weight = net.first.weight;
  EXPECT_EQ(names(net.named_parameters()),
            (std::vector<std::string>{"gain", "first.weight", "first.bias"}));
  EXPECT_EQ(net.state_dict().count("second.inner.weight"), 1u);
  net.to(f64);
  EXPECT_TRUE(net.second.inner.weight.is_same(net.first.weight));
}

TEST(Module, FrozenParametersGetNoGradient) {
  Net net;
  net.first.requires_grad(false);
  sum(net(Tensor::from<float>({1, 2}, {2}))).backward();
  EXPECT_FALSE(net.first.weight.grad().defined());
  EXPECT_TRUE(net.gain.grad().defined());
}

TEST(Module, StateDictRoundTrip) {
  Net from, to;
  {
    const NoGrad guard;
    from.first.weight.fill_(5);
    from.first.calls.fill_(9);
  }
  const Tensor handle = to.first.weight;
  const auto result = to.load_state_dict(from.state_dict());
  EXPECT_TRUE(result.missing.empty() && result.unexpected.empty());
  EXPECT_EQ(handle.to_vector<float>(), (std::vector<float>{5, 5}));
  EXPECT_EQ(to.first.calls.item<int64_t>(), 9);
  EXPECT_TRUE(handle.requires_grad());
  // Values are copied, not shared.
  const NoGrad guard;
  from.first.weight.fill_(7);
  EXPECT_EQ(handle.to_vector<float>(), (std::vector<float>{5, 5}));
}

TEST(Module, LoadOfAnotherModelNamesTenAndCounts) {
  nn::Module one, other;
  for (int i = 0; i < 14; ++i) one.parameter("one" + std::to_string(i), zeros({2}));
  for (int i = 0; i < 10; ++i) other.parameter("other" + std::to_string(i), zeros({2}));
  EXPECT_EQ(
      message_of([&] { one.load_state_dict(other.state_dict()); }),
      "[Module] the state dict does not fit: missing: one0, one1, one2, one3, one4, one5, one6, "
      "one7, one8, one9 and 4 more, 14 in all; unexpected: other0, other1, other2, other3, "
      "other4, other5, other6, other7, other8, other9; is it of another model?");
}

TEST(Module, LoadNamesEveryFaultAndChangesNothing) {
  Net net;
  StateDict state = Net().state_dict();
  for (auto& [name, value] : state) value = value.dtype() == f32 ? value + 1 : value;
  state.erase("gain");
  state["head.weight"] = zeros({1});
  state["first.bias"] = zeros({3});
  state["first.calls"] = zeros({});
  EXPECT_EQ(message_of([&] { net.load_state_dict(state); }),
            "[Net] the state dict does not fit: missing: gain; unexpected: head.weight; first.bias "
            "is (3) instead of (2), first.calls is f32 instead of i64; is it of another model?");
  EXPECT_EQ(net.first.weight.to_vector<float>(), (std::vector<float>{1, 1}));

  state["first.bias"] = zeros({2}, {.dtype = f64});  // cast
  state.erase("first.calls");
  const auto result = net.load_state_dict(state, {.strict = false});
  EXPECT_EQ(result.missing, (std::vector<std::string>{"gain", "first.calls"}));
  EXPECT_EQ(result.unexpected, (std::vector<std::string>{"head.weight"}));
  EXPECT_EQ(net.first.weight.to_vector<float>(), (std::vector<float>{2, 2}));
}

TEST(Module, PrintsAsATree) {
  EXPECT_EQ(Net().str(),
            "Net(\n  (first): Scale()\n  (second): Block(\n    (inner): Scale()\n  )\n)");
}

TEST(Module, ForwardHooksSeeAndChange) {
  nn::Linear layer({.in = 2, .out = 1});
  const Tensor x = ones({1, 2});
  const float plain = layer(x).to_vector<float>()[0];
  int calls = 0;
  {
    auto looks = layer.register_forward_hook([&](nn::Module& m, const Tensor& in, const Tensor&) {
      EXPECT_EQ(&m, &layer);
      EXPECT_EQ(in.shape(), x.shape());
      ++calls;
      return Tensor();
    });
    auto changes = layer.register_forward_hook(
        [](nn::Module&, const Tensor&, const Tensor& y) { return y * 2; });
    auto sees_the_change = layer.register_forward_hook(
        [&](nn::Module&, const Tensor&, const Tensor& y) { return y + 1; });
    EXPECT_FLOAT_EQ(layer(x).to_vector<float>()[0], 2 * plain + 1);
    changes.remove();
    EXPECT_FLOAT_EQ(layer(x).to_vector<float>()[0], plain + 1);
    sees_the_change = std::move(looks);
    EXPECT_FLOAT_EQ(layer(x).to_vector<float>()[0], plain);
  }
  EXPECT_EQ(calls, 3);
  EXPECT_FLOAT_EQ(layer(x).to_vector<float>()[0], plain);
  EXPECT_EQ(calls, 3);
  EXPECT_THROW((void)layer.register_forward_hook({}), ValueError);
  // A hook may remove itself, and outlive its module.
  nn::Module::HookHandle handle;
  {
    nn::Linear other({.in = 2, .out = 1});
    handle = other.register_forward_hook([&](nn::Module&, const Tensor&, const Tensor&) {
      handle.remove();
      return Tensor();
    });
    (void)other(x);
    handle =
        other.register_forward_hook([](nn::Module&, const Tensor&, const Tensor& y) { return y; });
  }
}

}  // namespace
}  // namespace brim
