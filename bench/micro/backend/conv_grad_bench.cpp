// The ways to a convolution's gradients, among which kernels/conv.cpp chooses: to x by direct sums
// and by col2im, to the weight by direct sums, by oneDNN and over nhwc, without the copies that
// row-major activations need for it.
// Arguments: layer, threads. Counters: the shortest call of each way in turns, in ms.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <brim/core/threads.h>
#include <brim/ops/create.h>

#include "backend/cpu/conv/conv_col2im.h"
#include "backend/cpu/conv/conv_depthwise.h"
#include "backend/cpu/conv/conv_direct.h"
#include "backend/cpu/conv/conv_dnnl.h"
#include "backend/cpu/conv/conv_nhwc.h"

namespace brim::cpu {
namespace {

using backend::ConvGeometry;

struct Layer {
  int64_t n, c, size, o, kernel, stride;
};

ConvGeometry geometry(const Layer& l) {
  const int64_t padding = l.kernel / 2;
  const int64_t out = (l.size + 2 * padding - l.kernel) / l.stride + 1;
  return {l.n, l.c, l.size, l.size, l.o, l.kernel, l.kernel, out, out, l.stride, padding, 1, 1};
}

using Way = std::pair<const char*, std::function<void()>>;

void time_in_turns(benchmark::State& state, const std::vector<Way>& ways) {
  std::vector<double> best(ways.size(), std::numeric_limits<double>::infinity());
  for (auto _ : state)
    for (size_t i = 0; i < ways.size(); ++i) {
      const auto begin = std::chrono::steady_clock::now();
      ways[i].second();
      const std::chrono::duration<double, std::milli> time =
          std::chrono::steady_clock::now() - begin;
      best[i] = std::min(best[i], time.count());
    }
  for (size_t i = 0; i < ways.size(); ++i) state.counters[ways[i].first] = best[i];
}

/// What a pass reads, a and b, and writes.
struct Setup {
  ConvGeometry g;
  Tensor a, b, out;
  const float *pa, *pb;
  float* to;
  const Context context = Context::current(Device::cpu());

  Setup(const benchmark::State& state, const ConvGeometry& geometry, ConvPass pass) : g(geometry) {
    set_num_threads(static_cast<int>(state.range(1)));
    const bool to_x = pass == ConvPass::grad_x;
    a = randn(to_x ? g.y_shape() : g.x_shape());
    b = randn(to_x ? g.weight_shape() : g.y_shape());
    out = Tensor::empty(to_x ? g.x_shape() : g.weight_shape());
    pa = a.data<float>();
    pb = b.data<float>();
    to = out.data<float>();
  }
};

template <size_t kCount>
std::vector<std::vector<int64_t>> layers_by_threads(const Layer (&)[kCount]) {
  return {benchmark::CreateDenseRange(0, kCount - 1, 1), {1, 2}};
}

constexpr Layer kToX[] = {{4, 3, 224, 64, 7, 2}, {4, 3, 224, 96, 11, 4}, {4, 3, 224, 64, 3, 1},
                          {4, 3, 64, 64, 4, 2},  {4, 3, 32, 32, 5, 1},   {4, 4, 112, 64, 5, 1},
                          {8, 3, 64, 4, 5, 2},   {8, 3, 64, 16, 5, 2},   {8, 20, 64, 8, 3, 2},
                          {8, 20, 64, 16, 3, 2}, {8, 40, 28, 40, 3, 2},  {8, 100, 28, 100, 3, 2}};

void grad_x(benchmark::State& state) {
  const Setup s(state, geometry(kToX[state.range(0)]), ConvPass::grad_x);
  const auto col2im = [&](bool nhwc) {
    return [&s, nhwc] { conv_col2im_grad_x(s.context, nhwc, s.g, s.pa, s.pb, s.to); };
  };
  time_in_turns(state, {{"direct", [&] { conv_direct_grad_x(s.context, s.pa, s.pb, s.to, s.g); }},
                        {"col2im", col2im(false)},
                        {"col2im_nhwc", col2im(true)}});
}
BENCHMARK(grad_x)->ArgsProduct(layers_by_threads(kToX))->ArgNames({"layer", "threads"});

constexpr Layer kToWeight[] = {
    {4, 256, 14, 1024, 1, 1}, {4, 1024, 14, 2048, 1, 2}, {4, 512, 7, 2048, 1, 1},
    {4, 512, 14, 512, 3, 2},  {4, 256, 28, 256, 3, 2},   {4, 512, 28, 256, 1, 1},
    {16, 512, 7, 2048, 1, 1}, {16, 256, 14, 1024, 1, 1}, {4, 64, 56, 256, 1, 1}};

void time_grad_weight(benchmark::State& state, const ConvGeometry& g) {
  constexpr ConvPass kPass = ConvPass::grad_weight;
  const Setup s(state, g, kPass);
  const auto nhwc =
      is_depthwise(g) ? static_cast<decltype(&conv_nhwc)>(&conv_depthwise) : &conv_nhwc;
  std::vector<Way> ways = {
      {"direct", [&] { conv_direct_grad_weight(s.context, s.pa, s.pb, s.to, s.g); }},
      {"nhwc", [&] { nhwc(s.context, kPass, s.g, s.pa, s.pb, {}, s.to); }}};
  if (g.c % 16 == 0)  // blocks of oneDNN
    ways.push_back({"dnnl", [&] { conv_dnnl(s.context, kPass, s.g, s.pa, s.pb, {}, s.to); }});
  time_in_turns(state, ways);
}

void grad_weight(benchmark::State& state) {
  time_grad_weight(state, geometry(kToWeight[state.range(0)]));
}
BENCHMARK(grad_weight)->ArgsProduct(layers_by_threads(kToWeight))->ArgNames({"layer", "threads"});

constexpr Layer kDepthwise[] = {{8, 256, 14, 256, 7, 1},
                                {8, 96, 56, 96, 7, 1},
                                {8, 240, 14, 240, 5, 1},
                                {8, 24, 28, 24, 5, 1},
                                {8, 64, 56, 64, 3, 1}};

void grad_weight_depthwise(benchmark::State& state) {
  ConvGeometry g = geometry(kDepthwise[state.range(0)]);
  g.groups = g.c;
  time_grad_weight(state, g);
}
BENCHMARK(grad_weight_depthwise)
    ->ArgsProduct(layers_by_threads(kDepthwise))
    ->ArgNames({"layer", "threads"});

}  // namespace
}  // namespace brim::cpu

BENCHMARK_MAIN();
