// The fused convolution + relu + pooling beside the ops, at the two convolutions of the CIFAR-10
// tutorial's network. Arguments: layer, images, threads. "gflops" counts a forward pass's or (of
// dense gradients) two passes' multiplications and additions, executed or not.
// build/bench/conv_pool_bench --benchmark_repetitions=9 --benchmark_report_aggregates_only=true
#include <benchmark/benchmark.h>

#include <brim/autograd/autograd.h>
#include <brim/core/threads.h>
#include <brim/ops/conv.h>
#include <brim/ops/create.h>
#include <brim/ops/pool.h>
#include <brim/ops/unary.h>

#include "backend/fused_conv.h"

namespace brim::backend {
namespace {

struct Layer {
  int64_t c, size, o, kernel;
};
constexpr Layer kLayers[] = {{3, 32, 6, 5},   {6, 14, 16, 5},   {16, 32, 32, 3},
                             {32, 28, 64, 3}, {64, 28, 128, 3}, {128, 14, 256, 3}};

struct Setup {
  ConvPool g;
  Tensor x, weight, bias, y, places, dy, dx, dw, db;

  explicit Setup(const benchmark::State& state) {
    const Layer& l = kLayers[state.range(0)];
    const int64_t n = state.range(1), out = l.size - l.kernel + 1;
    g = {{.n = n,
          .c = l.c,
          .h = l.size,
          .w = l.size,
          .o = l.o,
          .kh = l.kernel,
          .kw = l.kernel,
          .oh = out,
          .ow = out,
          .stride = 1,
          .padding = 0,
          .dilation = 1,
          .groups = 1},
         {.n = n,
          .c = l.o,
          .h = out,
          .w = out,
          .oh = out / 2,
          .ow = out / 2,
          .kernel = 2,
          .stride = 2,
          .padding = 0,
          .dilation = 1},
         true};
    const Shape pooled{n, l.o, out / 2, out / 2};
    set_num_threads(static_cast<int>(state.range(2)));
    x = randn(g.conv.x_shape());
    weight = randn(g.conv.weight_shape());
    bias = randn({l.o});
    dy = randn(pooled);
    y = zeros(pooled);
    places = zeros(pooled, {.dtype = DType::u8});
    if (state.range(0) != 0) dx = zeros(x.shape());  // the data needs no gradient
    dw = zeros(weight.shape());
    db = zeros(bias.shape());
  }
  void forward() {
    static const ConvPoolKernel kernel("conv2d_relu_pool");
    kernel(Device::cpu(), DType::f32, x, weight, bias, y, places, g);
  }
  void backward() {
    static const ConvPoolGradKernel kernel("conv2d_relu_pool_grad");
    kernel(Device::cpu(), DType::f32, x, weight, dy, places, dx, dw, db, g);
  }
  Tensor eager() const { return max_pool2d(relu(conv2d(x, weight, bias)), 2); }
  void report(benchmark::State& state, int passes) const {
    const double operations = 2.0 * static_cast<double>(g.conv.work()) * passes;
    state.counters["gflops"] =
        benchmark::Counter(operations * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  }
};

void fused_forward(benchmark::State& state) {
  Setup s(state);
  for (auto _ : state) s.forward();
  s.report(state, 1);
}

void fused_backward(benchmark::State& state) {
  Setup s(state);
  s.forward();
  for (auto _ : state) s.backward();
  s.report(state, s.dx.defined() ? 2 : 1);
}

void eager_forward(benchmark::State& state) {
  const Setup s(state);
  const NoGrad guard;
  for (auto _ : state) benchmark::DoNotOptimize(s.eager());
  s.report(state, 1);
}

void eager_backward(benchmark::State& state) {
  Setup s(state);
  if (s.dx.defined()) s.x.set_requires_grad();
  s.weight.set_requires_grad();
  s.bias.set_requires_grad();
  const Tensor y = s.eager();
  for (auto _ : state) {
    y.backward(s.dy, {.retain_graph = true});
    s.x.zero_grad();
    s.weight.zero_grad();
    s.bias.zero_grad();
  }
  s.report(state, s.dx.defined() ? 2 : 1);
}

void sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"layer", "n", "threads"})->Unit(benchmark::kMicrosecond)->UseRealTime();
  b->ArgsProduct({{0, 1}, {4, 128}, {1, 2}});
  b->ArgsProduct({{2, 3, 4, 5}, {16}, {1}});  // how far fusing pays
}
BENCHMARK(fused_forward)->Apply(sizes);
BENCHMARK(fused_backward)->Apply(sizes);
BENCHMARK(eager_forward)->Apply(sizes);
BENCHMARK(eager_backward)->Apply(sizes);

}  // namespace
}  // namespace brim::backend

BENCHMARK_MAIN();
