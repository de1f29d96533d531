// Elementwise throughput over 1 M f32 elements (8 MB through memory) and in cache; the argument is
// the number of threads. bench/micro/ops/elementwise_torch.py measures PyTorch on the same ops.
#include <benchmark/benchmark.h>

#include <brim/autograd/autograd.h>
#include <brim/core/threads.h>
#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/create.h>
#include <brim/ops/unary.h>

namespace brim {
namespace {

constexpr int64_t kLarge = 1 << 20;

Tensor normal(const Shape& shape) { return Tensor::empty(shape).normal_(); }

template <class F>
void measure(benchmark::State& state, const F& op, const Tensor& x) {
  const NoGrad guard;
  set_num_threads(static_cast<int>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(op(x));
  state.SetItemsProcessed(state.iterations() * x.numel());
}

#define UNARY(name, expression)                                               \
  void name(benchmark::State& state) {                                        \
    measure(                                                                  \
        state, [](const Tensor& x) { return expression; }, normal({kLarge})); \
  }                                                                           \
  BENCHMARK(name)->ArgName("threads")->Arg(1)->Arg(2)->Unit(benchmark::kMicrosecond)->UseRealTime()
UNARY(relu_1m, relu(x));
UNARY(exp_1m, exp(x));
UNARY(tanh_1m, tanh(x));
UNARY(gelu_1m, gelu(x));
UNARY(gelu_tanh_1m, gelu(x, GeluForm::tanh));
UNARY(sigmoid_1m, sigmoid(x));
UNARY(sin_1m, sin(x));
UNARY(log1p_1m, log1p(x));
UNARY(add_1m, x + x);
UNARY(where_1m, where(x > 0, x, x));
#undef UNARY

/// Bias patterns: rows, columns, channels of (N, C, H, W) in both memory formats; a transposed x.
void add_pattern(benchmark::State& state, const Tensor& x, const Tensor& b) {
  measure(
      state, [&](const Tensor& t) { return t + b; }, x);
}
#define PATTERN(name, x, b)                                        \
  void name(benchmark::State& state) { add_pattern(state, x, b); } \
  BENCHMARK(name)->ArgName("threads")->Arg(1)->Unit(benchmark::kMicrosecond)->UseRealTime()
PATTERN(add_row_10, normal({100000, 10}), normal({10}));
PATTERN(add_row_1000, normal({1000, 1000}), normal({1000}));
PATTERN(add_column_10, normal({100000, 10}), normal({100000, 1}));
PATTERN(add_channel_nchw, normal({64, 16, 32, 32}), normal({16, 1, 1}));
PATTERN(add_channel_nhwc, normal({64, 16, 32, 32}).to(MemoryFormat::nhwc), normal({16, 1, 1}));
PATTERN(add_transposed, normal({1024, 1024}).t(), normal({1024, 1024}));
#undef PATTERN

void exp_cached(benchmark::State& state) {
  measure(
      state, [](const Tensor& x) { return exp(x); }, normal({4096}));
}
BENCHMARK(exp_cached)->Arg(1);

}  // namespace
}  // namespace brim

BENCHMARK_MAIN();
