// What an op costs beyond its kernel: relu, add and others on 16 elements, with and without
// recording. Run build/bench/dispatch_bench --benchmark_format=json for a machine-readable table.
#include <benchmark/benchmark.h>

#include <brim/autograd/autograd.h>
#include <brim/core/threads.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>

namespace brim {
namespace {

Tensor small(bool requires_grad) { return ones({4, 4}, {.requires_grad = requires_grad}); }

void relu_16(benchmark::State& state) {
  const Tensor x = small(state.range(0) != 0);
  for (auto _ : state) benchmark::DoNotOptimize(relu(x));
}
void add_16(benchmark::State& state) {
  const Tensor x = small(state.range(0) != 0), y = small(false);
  for (auto _ : state) benchmark::DoNotOptimize(add(x, y));
}
void add_broadcast_16(benchmark::State& state) {
  const Tensor x = small(state.range(0) != 0), y = ones({4});
  for (auto _ : state) benchmark::DoNotOptimize(add(x, y));
}
void transpose_16(benchmark::State& state) {
  const Tensor x = small(state.range(0) != 0);
  for (auto _ : state) benchmark::DoNotOptimize(x.transpose(0, 1));
}
void mul_in_place_16(benchmark::State& state) {
  Tensor x = small(false);
  for (auto _ : state) benchmark::DoNotOptimize(x.mul_(1.0));
}
BENCHMARK(relu_16)->ArgName("grad")->Arg(0)->Arg(1);
BENCHMARK(add_16)->ArgName("grad")->Arg(0)->Arg(1);
BENCHMARK(add_broadcast_16)->ArgName("grad")->Arg(0)->Arg(1);
BENCHMARK(transpose_16)->ArgName("grad")->Arg(0)->Arg(1);
BENCHMARK(mul_in_place_16);

/// Forward and backward of a chain of n relus: time of one op in both directions.
void relu_chain_backward(benchmark::State& state) {
  Tensor x = small(true);
  const Tensor dy = ones({4, 4});
  for (auto _ : state) {
    Tensor y = x;
    for (int64_t i = 0; i < state.range(0); ++i) y = relu(y);
    y.backward(dy);
    x.zero_grad();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(relu_chain_backward)->Arg(100);

}  // namespace
}  // namespace brim

BENCHMARK_MAIN();
