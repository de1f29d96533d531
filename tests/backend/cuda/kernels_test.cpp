// CUDA's kernels against the CPU's: the same random numbers from the same seed, the same order of
// sorting, the same steps of optimizers, compiled steps, and errors that only the device can see.
// Skipped without a CUDA device; BRIM_BACKEND_PATH may name the emulated one.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/conv.h>
#include <brim/ops/create.h>
#include <brim/ops/dropout.h>
#include <brim/ops/embedding.h>
#include <brim/ops/index.h>
#include <brim/ops/loss.h>
#include <brim/ops/matmul.h>
#include <brim/ops/norm.h>
#include <brim/ops/pool.h>
#include <brim/ops/reduce.h>
#include <brim/ops/shape.h>
#include <brim/ops/sort.h>
#include <brim/ops/unary.h>
#include <brim/optim/grad_scaler.h>
#include <brim/optim/optim.h>
#include <brim/plan/compile.h>

#include "backend/expect_close.h"
#include "message_of.h"

namespace brim {
namespace {

class Cuda : public testing::Test {
 protected:
  void SetUp() override {
    if (Device::count(DeviceKind::cuda) == 0) GTEST_SKIP() << "there is no CUDA device";
  }
  const Device device_ = Device::cuda(0);
};

void expect_same(const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(actual.shape(), expected.shape());
  ASSERT_EQ(actual.dtype(), expected.dtype());
  const std::vector<double> a = numbers(actual), e = numbers(expected);
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_TRUE(a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i])))
        << "element " << i << ": " << a[i] << " instead of " << e[i];
}

void expect_near(const Tensor& actual, const Tensor& expected, double tolerance) {
  ASSERT_EQ(actual.shape(), expected.shape());
  const std::vector<double> a = numbers(actual), e = numbers(expected);
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], e[i], tolerance * (1 + std::abs(e[i]))) << "element " << i;
}

/// The tolerance of one rounding.
double rounding(DType dtype) {
  return dtype == f64 ? 1e-14 : dtype == f32 ? 1e-6 : dtype == f16 ? 1e-3 : 8e-3;
}

TEST_F(Cuda, RandomNumbersAreTheCpus) {
  const auto both = [&](const std::function<Tensor(Device, Generator*)>& draw) {
    Generator here(7), there(7);
    (void)draw(Device::cpu(), &here), (void)draw(device_, &there);  // not the first key
    return std::pair(draw(device_, &there), draw(Device::cpu(), &here));
  };
  for (const int64_t n : {0, 1, 5, 1027}) {
    for (const DType t : {f32, f64, f16, bf16}) {
      SCOPED_TRACE(std::string(name(t)) + ", " + std::to_string(n));
      const auto u =
          both([&](Device d, Generator* g) { return rand({n}, {.dtype = t, .device = d}, g); });
      expect_same(u.first, u.second);
      const auto z =
          both([&](Device d, Generator* g) { return randn({n}, {.dtype = t, .device = d}, g); });
      expect_near(z.first, z.second, rounding(t));
      const auto b = both([&](Device d, Generator* g) {
        return bernoulli(full({n}, 0.25, {.dtype = t, .device = d}), g);
      });
      expect_same(b.first, b.second);
      const auto x = both([&](Device d, Generator* g) {
        return dropout(ones({n}, {.dtype = t, .device = d}), 0.3, true, g);
      });
      expect_same(x.first, x.second);
    }
    for (const DType t : {i64, i32, i8, u8, f32}) {
      const auto r = both([&](Device d, Generator* g) {
        return randint(3, 100, {n}, {.dtype = t, .device = d}, g);
      });
      expect_same(r.first, r.second);
    }
    for (const DType t : {i64, i32}) {
      const auto p =
          both([&](Device d, Generator* g) { return randperm(n, {.dtype = t, .device = d}, g); });
      expect_same(p.first, p.second);
    }
  }
}

TEST_F(Cuda, OperandsOfAnyOrderGiveTheCpusElements) {
  manual_seed(2);
  // 210 elements, no multiple of an access; a slice begins amid one.
  const Tensor a = randn({3, 5, 2, 7}), b = randn({3, 5, 2, 7}), bias = randn({5, 1, 1});
  const auto expect_all = [&](const std::function<Tensor(const Tensor&, const Tensor&)>& f) {
    for (const MemoryFormat first : {MemoryFormat::nchw, MemoryFormat::nhwc, MemoryFormat::chwn})
      for (const MemoryFormat second : {MemoryFormat::nchw, MemoryFormat::nhwc}) {
        const Tensor x = a.to(first), y = b.to(second);
        const Tensor actual = f(x.to(device_), y.to(device_)), expected = f(x, y);
        expect_same(actual, expected);
        EXPECT_EQ(actual.strides(), expected.strides());
      }
  };
  for (const DType t : {f32, f64, bf16, i32})
    expect_all([&](const Tensor& x, const Tensor& y) { return x.to(t) + y.to(t); });
  expect_all([](const Tensor& x, const Tensor&) { return relu(x); });
  expect_all([](const Tensor& x, const Tensor&) { return x.to(bf16).to(f64); });
  expect_all([](const Tensor& x, const Tensor& y) { return x.slice(0, 1, 3) * y.slice(0, 1, 3); });
  expect_all(
      [](const Tensor& x, const Tensor& y) { return x.transpose(1, 3) + y.transpose(1, 3); });
  expect_all([&](const Tensor& x, const Tensor&) { return x + bias.to(x.device()); });
  expect_all([](const Tensor& x, const Tensor& y) { return eq(x, y); });
}

TEST_F(Cuda, PatternsAreTheCpus) {
  // Steps that binary numbers hold: the same whether products and sums are rounded once or twice.
  for (const DType t : {f32, f64, bf16, i64, u8}) {
    expect_same(linspace(-3, 16, 77, {.dtype = t, .device = device_}),
                linspace(-3, 16, 77, {.dtype = t}));
    expect_same(arange(-2.5, 100.0, 0.25, {.dtype = t, .device = device_}),
                arange(-2.5, 100.0, 0.25, {.dtype = t}));
  }
  expect_near(linspace(-3, 11.3, 77, {.dtype = f64, .device = device_}),
              linspace(-3, 11.3, 77, {.dtype = f64}), 1e-15);
  expect_near(arange(-2.5, 100.0, 0.3, {.dtype = f64, .device = device_}),
              arange(-2.5, 100.0, 0.3, {.dtype = f64}), 1e-15);
}

TEST_F(Cuda, SortsAsTheCpuDoes) {
  const double nan = std::numeric_limits<double>::quiet_NaN(),
               inf = std::numeric_limits<double>::infinity();
  // Longer than a block sorts, with ties; the last size needs two rounds of merging. One long line
  // is CUB's on a GPU.
  for (const Shape& shape : {Shape{2, 1}, Shape{2, 2}, Shape{2, 33}, Shape{2, 1024}, Shape{2, 1025},
                             Shape{2, 4500}, Shape{1, 1025}, Shape{1, 4500}}) {
    const int64_t n = shape[1];
    for (const DType t : {f32, f64, f16, bf16, i64, i32, i8, u8, bool_}) {
      Generator generator(3);
      Tensor x = randint(-50, 50, shape, {.dtype = is_floating(t) ? f64 : i64}, &generator).to(t);
      if (is_floating(t)) {
        Tensor wide = x.to(f64);
        double* v = wide.data<double>();
        for (int64_t i = 0; i < x.numel(); i += 7)
          v[i] = i % 3 == 0 ? nan : i % 3 == 1 ? -inf : -0.0;
        x = wide.to(t);
      }
      for (const bool descending : {false, true}) {
        SCOPED_TRACE(std::string(name(t)) + ", " + shape.str());
        const Sorted here = sort(x, 1, descending), there = sort(x.to(device_), 1, descending);
        expect_same(there.values, here.values);
        expect_same(there.indices, here.indices);
      }
      const Tensor wide = x.t().contiguous();
      const int64_t k = std::min<int64_t>(n, 3);
      expect_same(topk(wide.to(device_), k, 0).indices, topk(wide, k, 0).indices);
    }
  }
}

TEST_F(Cuda, SumsByIndexComeInOneOrder) {
  Generator generator(5);
  const Tensor dy = randn({3000, 3}, {}, &generator);
  const Tensor ids = randint(0, 11, {3000}, {.dtype = i64}, &generator);
  for (const DType t : {f32, f64, f16}) {
    const Tensor to = zeros({11, 3}, {.dtype = t});
    expect_same(index_add(to.to(device_), 0, ids.to(device_), dy.to(t).to(device_)),
                index_add(to, 0, ids, dy.to(t)));
  }
}

using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(const std::vector<Tensor>&)>;

std::vector<std::pair<std::string, MakeOptimizer>> optimizers() {
  std::vector<std::pair<std::string, MakeOptimizer>> all;
  const auto add = [&]<class O>(const std::string& name, std::type_identity<O>,
                                typename O::Options options) {
    all.emplace_back(
        name, [options](const std::vector<Tensor>& p) { return std::make_unique<O>(p, options); });
  };
  using namespace optim;
  add("SGD", std::type_identity<SGD>{}, {.lr = 0.1, .weight_decay = 0.01});
  add("SGD, momentum", std::type_identity<SGD>{}, {.lr = 0.1, .momentum = 0.9, .dampening = 0.1});
  add("SGD, Nesterov", std::type_identity<SGD>{}, {.lr = 0.1, .momentum = 0.9, .nesterov = true});
  add("Adam", std::type_identity<Adam>{}, {.lr = 0.05, .weight_decay = 0.01});
  add("Adam, amsgrad", std::type_identity<Adam>{}, {.lr = 0.05, .amsgrad = true});
  add("AdamW", std::type_identity<AdamW>{}, {.lr = 0.05});
  add("AdamW, masters", std::type_identity<AdamW>{}, {.lr = 0.05, .master_weights = true});
  add("SGD, masters", std::type_identity<SGD>{}, {.lr = 0.1, .master_weights = true});
  for (const bool centered : {false, true})
    for (const double momentum : {0.0, 0.9})
      add("RMSprop", std::type_identity<RMSprop>{},
          {.lr = 0.01, .momentum = momentum, .centered = centered});
  return all;
}

/// Many parameters: more than one launch holds, one of them transposed, one empty.
std::vector<Tensor> parameters(Device device, DType dtype) {
  Generator generator(11);
  std::vector<Tensor> all;
  const auto add = [&](Tensor x) { all.push_back(x.to(dtype).to(device)); };
  add(randn({33, 47}, {}, &generator));
  all.push_back(randn({5, 7}, {.dtype = dtype}, &generator).to(device).t());
  add(zeros({0, 3}));
  for (int i = 0; i < 130; ++i) add(randn({1 + i % 9}, {}, &generator));
  for (Tensor& p : all) p.set_requires_grad();
  return all;
}

// A frequent id's rows are added in pieces, in one order; ids that are padding or rare between
// them.
TEST_F(Cuda, GradientsOfFrequentIdsRepeatThemselves) {
  for (const int64_t count : {1, 32, 33, 1100})
    for (const int64_t width : {3, 8}) {
      SCOPED_TRACE(std::to_string(count) + " ids of " + std::to_string(width));
      const Tensor ids = empty({count}, {.dtype = i64});
      for (int64_t i = 0; i < count; ++i)
        ids.data<int64_t>()[i] = i % 9 == 0 ? 40 : i % 7 == 0 ? i % 50 : i < count / 3 ? 2 : 13;
      const Tensor dy = randn({count, width});
      const auto gradient = [&](Device device, DType dtype, std::optional<int64_t> padding) {
        const Tensor weight = randn({50, width}).to(device).to(dtype).set_requires_grad();
        const Tensor y = embedding(ids.to(device), weight, padding);
        y.backward(dy.to(device).to(dtype));
        return weight.grad();
      };
      for (const std::optional<int64_t> padding :
           {std::optional<int64_t>(), std::optional<int64_t>(40)}) {
        const Tensor expected = gradient(Device::cpu(), f64, padding);
        const Tensor found = gradient(device_, f32, padding);
        expect_near(found.to(f64), expected, 2e-4);
        expect_same(gradient(device_, f32, padding), found);
        expect_near(gradient(device_, f16, padding).to(f64), expected, 0.4);
      }
    }
}

TEST_F(Cuda, StepsAreLeftOutAsOnTheCpuWhereGradientsOverflow) {
  for (const auto& entry : optimizers()) {
    const MakeOptimizer& make = entry.second;
    SCOPED_TRACE(entry.first);
    const auto trained = [&](Device device) {
      std::vector<Tensor> all = parameters(device, f32);
      const auto optimizer = make(all);
      optim::GradScaler scaler(device, {.init_scale = 1024});
      for (int step = 0; step < 5; ++step) {
        optimizer->zero_grad();
        // The second step's gradients overflow.
        const double slope = step == 1 ? std::numeric_limits<double>::infinity() : 1.0;
        Tensor loss = zeros({}, {.device = device});
        for (const Tensor& p : all) loss = loss + sum(p * p * p) * slope;
        scaler.scale(loss).backward();
        scaler.step(*optimizer);
        scaler.update();
      }
      return all;
    };
    const std::vector<Tensor> here = trained(Device::cpu()), there = trained(device_);
    for (size_t i = 0; i < here.size(); ++i) expect_near(there[i], here[i], 1e-5);
  }
}

TEST_F(Cuda, OptimizersStepAsOnTheCpu) {
  for (const DType dtype : {f32, f64}) {
    for (const auto& entry : optimizers()) {
      const MakeOptimizer& make = entry.second;
      SCOPED_TRACE(entry.first);
      const auto trained = [&](Device device) {
        std::vector<Tensor> all = parameters(device, dtype);
        const auto optimizer = make(all);
        for (int step = 0; step < 4; ++step) {
          optimizer->zero_grad();
          for (const Tensor& p : all) (p * p * p).backward(ones_like(p));
          optimizer->step();
          optimizer->set_lr(optimizer->lr() * 0.9);
        }
        return all;
      };
      const std::vector<Tensor> here = trained(Device::cpu()), there = trained(device_);
      for (size_t i = 0; i < here.size(); ++i)
        expect_near(there[i], here[i], dtype == f64 ? 1e-12 : 1e-5);
    }
  }
}

TEST_F(Cuda, OptimizersOf16BitsStepAsOnTheCpu) {
  for (const DType dtype : {f16, bf16}) {
    for (const auto& entry : optimizers()) {
      const MakeOptimizer& make = entry.second;
      SCOPED_TRACE(entry.first);
      const auto trained = [&](Device device, StateDict& state) {
        std::vector<Tensor> all = parameters(device, dtype);
        const auto optimizer = make(all);
        for (int step = 0; step < 4; ++step) {
          optimizer->zero_grad();
          for (Tensor& p : all) p.set_grad(p.detach() * 0.5);
          optimizer->step_if_finite(full({}, step == 1, {.device = device}));
        }
        state = optimizer->state_dict();
        return all;
      };
      StateDict here_state, there_state;
      const std::vector<Tensor> here = trained(Device::cpu(), here_state);
      const std::vector<Tensor> there = trained(device_, there_state);
      // Where a last bit of f32 differs, another neighbour of 16 bits may be the nearest.
      const double ulp = dtype == f16 ? 0x1p-10 : 0x1p-7;
      for (size_t i = 0; i < here.size(); ++i)
        expect_near(there[i].to(f32), here[i].to(f32), 8 * ulp);
      ASSERT_EQ(there_state.size(), here_state.size());
      for (const auto& [name, t] : here_state) {
        if (!name.ends_with(".master_weight")) continue;
        SCOPED_TRACE(name);
        expect_near(there_state.at(name), t, 4 * ulp);
      }
    }
  }
}

TEST_F(Cuda, CompiledStepsAreTheEagerOnes) {
  for (const auto& entry : optimizers()) {
    const MakeOptimizer& make = entry.second;
    SCOPED_TRACE(entry.first);
    const auto trained = [&](bool compiled) {
      manual_seed(5);
      Tensor w = ones({6, 5}, {.device = device_}).set_requires_grad();
      const auto optimizer = make({w});
      const std::function<Tensor(const Tensor&)> step = [&](const Tensor& x) {
        optimizer->zero_grad();
        Tensor y = dropout(tanh(relu(x * w + 0.5) * 0.7 - w), 0.2);
        y.backward(ones_like(w));
        optimizer->step();
        return y;
      };
      auto replayed = compile(step);
      std::vector<std::vector<double>> results;
      for (int i = 0; i < 5; ++i) {
        const Tensor x = full({6, 5}, 0.3 * i, {.device = device_});
        results.push_back(numbers(compiled ? replayed(x) : step(x)));
        optimizer->set_lr(optimizer->lr() * 0.8);
      }
      results.push_back(numbers(w));
      // Elementwise launches are chained here too.
      EXPECT_EQ(replayed.stats().launches < replayed.stats().recorded_launches, compiled);
      return results;
    };
    EXPECT_EQ(trained(true), trained(false));
  }
}

// What the CPU's plan fuses into kernels that CUDA may lack: convolution with pooling, batch norm
// with ReLU, linear with its step, the loss with its gradient.
TEST_F(Cuda, CompiledNetworksTrainAsOnTheCpu) {
  const auto losses = [](Device device, bool compiled) {
    Generator generator(13);
    const auto make = [&](const Shape& shape, double scale) {
      return (randn(shape, {}, &generator) * scale).to(device).set_requires_grad();
    };
    const Tensor filter = make({4, 3, 3, 3}, 0.3), deep = make({6, 4, 3, 3}, 0.2);
    const Tensor gain = make({6}, 1), shift = make({6}, 0.1);
    const Tensor weight = make({5, 54}, 0.2), bias = make({5}, 0.1);
    const Tensor x = randn({4, 3, 12, 12}, {}, &generator).to(device);
    const Tensor labels = randint(0, 5, {4}, {.dtype = i64}, &generator).to(device);
    optim::SGD optimizer({filter, deep, gain, shift, weight, bias}, {.lr = 0.05, .momentum = 0.9});
    const std::function<Tensor(const Tensor&, const Tensor&)> step = [&](const Tensor& image,
                                                                         const Tensor& label) {
      optimizer.zero_grad();
      Tensor y = max_pool2d(relu(conv2d(image, filter)), {2});
      y = relu(batch_norm(conv2d(y, deep), gain, shift, {}, {}, {.training = true}));
      Tensor loss = cross_entropy(linear(y.reshape({4, -1}), weight, bias), label);
      loss.backward();
      optimizer.step();
      return loss;
    };
    auto replayed = compile(step);
    std::vector<double> all;
    for (int i = 0; i < 6; ++i)
      all.push_back((compiled ? replayed(x, labels) : step(x, labels)).to(Device::cpu()).item());
    return all;
  };
  const std::vector<double> expected = losses(Device::cpu(), false);
  for (const bool compiled : {false, true}) {
    const std::vector<double> actual = losses(device_, compiled);
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(actual[i], expected[i], 1e-4) << "step " << i << (compiled ? ", compiled" : "");
  }
}

TEST_F(Cuda, BadIndicesShowAtTheNextSynchronisation) {
  const auto message = [](const std::function<Tensor()>& f) {
    return tests::message_of([&] { (void)f().to(Device::cpu()); });
  };
  const auto id = [&](int64_t v) { return Tensor::from<int64_t>({1, v}, {2}, device_); };
  const Tensor x = ones({3, 2}, {.device = device_});
  EXPECT_EQ(message([&] { return index_select(x, 0, id(3)); }),
            "[index_select] index 3 is out of range for axis 0 of size 3");
  EXPECT_EQ(message([&] {
              return index_add(x, 0, id(-1), ones({2, 2}, {.device = device_}));
            }),
            "[index_add] index -1 is out of range for axis 0 of size 3");
  EXPECT_EQ(message([&] { return embedding(id(5), x); }),
            "[embedding] id 5 at position 1 is out of range for 3 rows");
  // Which of several comes first is a matter of chance on a GPU.
  const Tensor p = Tensor::from<float>({0.5F, 1, 0, 2, 1, 0.25F}, {6}, device_);
  EXPECT_EQ(message([&] { return bernoulli(p); }),
            "[bernoulli] probability 2 of element 3 is not in [0, 1]");
  EXPECT_EQ(message([&] { return index_select(x, 0, id(2)); }), "no error");
}

}  // namespace
}  // namespace brim
