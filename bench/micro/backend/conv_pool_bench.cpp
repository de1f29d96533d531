// The fused convolution + relu + pooling beside the ops, at the two convolutions of the CIFAR-10
// tutorial's network. Arguments: layer, images, threads. "best_us" is the shortest call, which a
// busy machine disturbs least; "best_gflops" its rate, where a gradient counts as its dense passes,
// executed or not.
#include <benchmark/benchmark.h>

#include <chrono>

#include <brim/autograd/autograd.h>
#include <brim/core/threads.h>
#include <brim/ops/conv.h>
#include <brim/ops/create.h>
#include <brim/ops/pool.h>
#include <brim/ops/unary.h>

#include "backend/fused/fused_conv.h"

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
  /// Multiplications and additions of a pass, or of the gradient's passes.
  double operations(bool gradient) const {
    return 2.0 * static_cast<double>(g.conv.work()) * (gradient && dx.defined() ? 2 : 1);
  }
};

using Clock = std::chrono::steady_clock;

double microseconds(Clock::time_point since) {
  return std::chrono::duration<double, std::micro>(Clock::now() - since).count();
}

template <class Call>
void measure(benchmark::State& state, double operations, const Call& call) {
  double best = 1e30;
  for (auto _ : state) {
    const Clock::time_point start = Clock::now();
    call();
    best = std::min(best, microseconds(start));
  }
  state.counters["best_us"] = best;
  state.counters["best_gflops"] = operations * 1e-3 / best;
}

void fused_forward(benchmark::State& state) {
  Setup s(state);
  measure(state, s.operations(false), [&] { s.forward(); });
}

void fused_backward(benchmark::State& state) {
  Setup s(state);
  s.forward();
  measure(state, s.operations(true), [&] { s.backward(); });
}

void eager_forward(benchmark::State& state) {
  const Setup s(state);
  const NoGrad guard;
  measure(state, s.operations(false), [&] { benchmark::DoNotOptimize(s.eager()); });
}

void eager_backward(benchmark::State& state) {
  Setup s(state);
  if (s.dx.defined()) s.x.set_requires_grad();
  s.weight.set_requires_grad();
  s.bias.set_requires_grad();
  const Tensor y = s.eager();
  measure(state, s.operations(true), [&] {
    y.backward(s.dy, {.retain_graph = true});
    s.x.zero_grad();
    s.weight.zero_grad();
    s.bias.zero_grad();
  });
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
