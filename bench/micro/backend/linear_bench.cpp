// Fully connected layers: the fused kernels beside the ops and the optimizer's launch that they
// stand for, at the sizes of common networks (rows, inputs, outputs).
//
//   build/bench/linear_bench --benchmark_repetitions=9 --benchmark_report_aggregates_only
#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/loss.h>
#include <brim/ops/matmul.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>

#include "backend/fused/fused_linear.h"
#include "backend/fused/fused_loss.h"

namespace brim {
namespace {

double least(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

struct Layer {
  Tensor x, weight, bias, y, dy, dx, dw, db;
  std::vector<Tensor> states;
  formula::StepParams params{.lr = 1e-3, .momentum = 0.9};
  double work;

  explicit Layer(const benchmark::State& state) {
    const int64_t n = state.range(0), in = state.range(1), out = state.range(2);
    x = randn({n, in});
    weight = randn({out, in});
    bias = randn({out});
    y = randn({n, out});
    dy = randn({n, out});
    dx = zeros({n, in});
    dw = zeros({out, in});
    db = zeros({out});
    states = {zeros({out, in}), zeros({out})};
    work = static_cast<double>(n * in * out);
  }
  void count(benchmark::State& state, double products) const {
    state.counters["GMAC/s"] =
        benchmark::Counter(products * work * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  }
};

void linear_relu_ops(benchmark::State& state) {
  Layer l(state);
  for (auto _ : state) benchmark::DoNotOptimize(relu(linear(l.x, l.weight, l.bias)));
  l.count(state, 1);
}
void linear_relu_fused(benchmark::State& state) {
  static const backend::LinearKernel kernel("linear_relu");
  Layer l(state);
  for (auto _ : state) kernel(l.x.device(), l.x.dtype(), l.x, l.weight, l.bias, l.y);
  l.count(state, 1);
}

/// The gradients of linear -> relu, and sgd with momentum.
void step_ops(benchmark::State& state) {
  static const backend::Kernel<void(const Context&, std::span<Tensor>, std::span<const Tensor>,
                                    std::span<Tensor>, const formula::StepParams&)>
      update("sgd_momentum");
  static const backend::Kernel<void(const Context&, const Tensor&, const Tensor&, Tensor&,
                                    const formula::Params&)>
      relu_grad("relu_grad");
  Layer l(state);
  std::vector<Tensor> params = {l.weight, l.bias};
  for (auto _ : state) {
    Tensor dz = empty_like(l.dy);
    relu_grad(l.x.device(), l.x.dtype(), l.dy, l.y, dz, {});
    benchmark::DoNotOptimize(matmul(dz, l.weight));
    const std::vector<Tensor> grads = {matmul(dz.t(), l.x), sum(dz, {0})};
    update(l.x.device(), l.x.dtype(), params, grads, l.states, l.params);
  }
  l.count(state, 2);
}
void step_fused(benchmark::State& state) {
  static const backend::LinearStepKernel kernel("linear_grad_sgd_momentum");
  Layer l(state);
  for (auto _ : state)
    kernel(l.x.device(), l.x.dtype(), l.x, l.weight, l.bias, l.dy, l.y, l.dx, l.states, l.params);
  l.count(state, 2);
}

void sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"rows", "in", "out"})->ComputeStatistics("min", least);
  for (const int64_t rows : {4, 128})
    b->Args({rows, 400, 120})->Args({rows, 120, 84})->Args({rows, 84, 10});
  b->Args({8, 784, 128})->Args({8, 128, 10});
  for (const int64_t rows : {32, 256})
    b->Args({rows, 784, 512})->Args({rows, 512, 512})->Args({rows, 512, 10});
}
BENCHMARK(linear_relu_ops)->Apply(sizes);
BENCHMARK(linear_relu_fused)->Apply(sizes);
BENCHMARK(step_ops)->Apply(sizes);
BENCHMARK(step_fused)->Apply(sizes);

struct Logits {
  Tensor x, target, loss, dx;
  explicit Logits(int64_t n) {
    x = randn({n, 10});
    target = zeros({n}, {.dtype = DType::i64});
    loss = zeros({});
    dx = zeros({n, 10});
  }
};

void loss_ops(benchmark::State& state) {
  Logits l(state.range(0));
  l.x.set_requires_grad(true);
  for (auto _ : state) {
    cross_entropy(l.x, l.target).backward();
    l.x.zero_grad();
  }
}
void loss_fused(benchmark::State& state) {
  static const backend::FusedLossKernel kernel("softmax_cross_entropy");
  Logits l(state.range(0));
  for (auto _ : state) kernel(l.x.device(), l.x.dtype(), l.x, l.target, {}, l.loss, l.dx, {});
}
BENCHMARK(loss_ops)->ArgName("rows")->Arg(8)->Arg(256)->ComputeStatistics("min", least);
BENCHMARK(loss_fused)->ArgName("rows")->Arg(8)->Arg(256)->ComputeStatistics("min", least);

}  // namespace
}  // namespace brim

BENCHMARK_MAIN();
