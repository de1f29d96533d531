// Layers with vector-wise sparse weights beside brim's dense ones and oneDNN's, in the layout that
// is the fastest for each (oneDNN's blocks are made outside of the measured time). JSON lines:
// medians of rounds in which all take turns, and the ratios of the dense ones to each sparsity.
//
//   build/bench/sparse_bench [ROUNDS] [VECTOR]
#include <brim/autograd/autograd.h>
#include <brim/core/random.h>
#include <brim/core/threads.h>
#include <brim/ops/conv.h>
#include <brim/ops/create.h>
#include <brim/ops/matmul.h>
#include <brim/ops/sparse.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <dnnl.hpp>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/clock.h"

namespace {

using namespace brim;

Tensor pruned(const Tensor& weight, int64_t vector, double sparsity) {
  std::mt19937 random(1);
  const int64_t outputs = weight.size(0), columns = weight.numel() / outputs;
  std::vector<float> w = weight.to_vector<float>();
  for (int64_t first = 0; first < outputs; first += vector)
    for (int64_t k = 0; k < columns; ++k) {
      if (std::uniform_real_distribution<double>()(random) >= sparsity) continue;
      for (int64_t o = first; o < std::min(first + vector, outputs); ++o)
        w[static_cast<size_t>(o * columns + k)] = 0;
    }
  return Tensor::from<float>(w, weight.shape());
}

/// A layer of oneDNN's, all in its own blocks.
std::function<void()> onednn(const Shape& x, const Shape& weight, int64_t stride, int64_t padding) {
  using namespace dnnl;
  using Any = memory::format_tag;
  static engine cpu(engine::kind::cpu, 0);
  static stream queue(cpu);
  const auto desc = [](const Shape& s) {
    return memory::desc(memory::dims(s.begin(), s.end()), memory::data_type::f32, Any::any);
  };
  std::unordered_map<int, memory> arguments;
  const auto bind = [&](int what, const memory::desc& d) { arguments[what] = memory(d, cpu); };
  if (x.rank() == 2) {
    const inner_product_forward::primitive_desc pd(
        {prop_kind::forward_inference, desc(x), desc(weight), desc({x[0], weight[0]})}, cpu);
    bind(DNNL_ARG_SRC, pd.src_desc());
    bind(DNNL_ARG_WEIGHTS, pd.weights_desc());
    bind(DNNL_ARG_DST, pd.dst_desc());
    return [p = inner_product_forward(pd), arguments] {
      p.execute(queue, arguments);
      queue.wait();
    };
  }
  const auto out = [&](int axis) { return (x[axis] + 2 * padding - weight[axis]) / stride + 1; };
  const convolution_forward::primitive_desc pd({prop_kind::forward_inference,
                                                algorithm::convolution_auto,
                                                desc(x),
                                                desc(weight),
                                                desc({x[0], weight[0], out(2), out(3)}),
                                                {stride, stride},
                                                {padding, padding},
                                                {padding, padding}},
                                               cpu);
  bind(DNNL_ARG_SRC, pd.src_desc());
  bind(DNNL_ARG_WEIGHTS, pd.weights_desc());
  bind(DNNL_ARG_DST, pd.dst_desc());
  return [p = convolution_forward(pd), arguments] {
    p.execute(queue, arguments);
    queue.wait();
  };
}

double median(std::vector<double> v) {
  std::ranges::sort(v);
  return v[v.size() / 2];
}

struct Case {
  Shape x, weight;
  int64_t stride = 1;
};

void run(const Case& c, int rounds, int64_t vector) {
  const bool is_conv = c.x.rank() == 4;
  const int64_t padding = is_conv && c.weight[2] == 3 ? 1 : 0;
  const Tensor x = rand(c.x), weight = rand(c.weight);
  const Tensor nhwc = is_conv ? x.to(MemoryFormat::nhwc) : x;
  const Tensor weight_nhwc = is_conv ? weight.to(MemoryFormat::nhwc) : weight;
  const Conv2dOptions how{.stride = c.stride, .padding = padding};
  std::map<std::string, std::function<void()>> calls;
  calls["onednn"] = onednn(c.x, c.weight, c.stride, padding);
  if (is_conv) {
    calls["dense nchw"] = [=] { (void)conv2d(x, weight, {}, how); };
    calls["dense nhwc"] = [=] { (void)conv2d(nhwc, weight_nhwc, {}, how); };
  } else {
    calls["dense"] = [=] { (void)linear(x, weight); };
  }
  for (const int percent : {25, 35, 50, 75, 90}) {
    const SparseWeight w = SparseWeight::encode(pruned(weight, vector, percent / 100.0), vector);
    calls[fmt::format("sparse {}", percent)] = [=] {
      if (is_conv)
        (void)sparse_conv2d(nhwc, w, {}, how);
      else
        (void)sparse_linear(nhwc, w);
    };
  }
  std::map<std::string, std::vector<double>> times;
  for (int round = 0; round <= rounds; ++round)
    for (const auto& [name, call] : calls) {
      std::this_thread::sleep_for(
          std::chrono::milliseconds(30));  // oneDNN's threads go on spinning
      const double begin = steady_seconds();
      int count = 0;
      do call();
      while (++count < 1000 && steady_seconds() - begin < 0.01);
      if (round > 0) times[name].push_back((steady_seconds() - begin) / count);
    }
  double ours = 1e9, onednns = 0;
  std::string line;
  for (const auto& [name, seconds] : times) {
    const double m = median(seconds);
    line += fmt::format(", \"{}_us\": {:.1f}", name, 1e6 * m);
    if (name.starts_with("dense")) ours = std::min(ours, m);
    if (name == "onednn") onednns = m;
  }
  for (const auto& [name, seconds] : times)
    if (name.starts_with("sparse"))
      line += fmt::format(", \"{}_x\": [{:.2f}, {:.2f}]", name, ours / median(seconds),
                          onednns / median(seconds));
  fmt::print("{{\"x\": \"{}\", \"weight\": \"{}\", \"stride\": {}{}}}\n", c.x.str(), c.weight.str(),
             c.stride, line);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 9;
  const int64_t vector = argc > 2 ? std::atoll(argv[2]) : 32;
  const NoGrad scope;
  manual_seed(1);
  for (const int64_t batch : {1, 16}) {
    const Case cases[] = {{{batch, 64, 56, 56}, {64, 64, 3, 3}},
                          {{batch, 128, 28, 28}, {128, 128, 3, 3}},
                          {{batch, 256, 14, 14}, {256, 256, 3, 3}},
                          {{batch, 512, 7, 7}, {512, 512, 3, 3}},
                          {{batch, 128, 28, 28}, {256, 128, 3, 3}, 2},
                          {{batch, 256, 14, 14}, {1024, 256, 1, 1}},
                          {{batch, 1024}, {1024, 1024}},
                          {{batch, 2048}, {2048, 2048}},
                          {{batch, 4096}, {4096, 4096}}};
    for (const Case& c : cases) run(c, rounds, vector);
  }
  run({{128, 1024}, {1024, 1024}}, rounds, vector);
}
