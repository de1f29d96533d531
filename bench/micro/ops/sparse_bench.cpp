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
#include <cstdlib>
#include <string>

#include "layer_times.h"
#include "pruned.h"

namespace {

using namespace brim;
using namespace brim::bench;

void run(const Layer& c, int rounds, int64_t vector) {
  const bool is_conv = c.x.rank() == 4;
  const int64_t padding = is_conv && c.weight[2] == 3 ? 1 : 0;
  const Tensor x = rand(c.x), weight = rand(c.weight);
  const Tensor nhwc = is_conv ? x.to(MemoryFormat::nhwc) : x;
  const Tensor weight_nhwc = is_conv ? weight.to(MemoryFormat::nhwc) : weight;
  const Conv2dOptions how{.stride = c.stride, .padding = padding};
  Calls calls;
  calls["onednn"] = onednn_layer(c.x, c.weight, c.stride, padding, false);
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
  const auto times = medians(calls, rounds);
  double dense = 1e9;
  for (const auto& [name, m] : times)
    if (name.starts_with("dense")) dense = std::min(dense, m);
  std::string line = in_json(times);
  for (const auto& [name, m] : times)
    if (name.starts_with("sparse"))
      line += fmt::format(", \"{}_x\": [{:.2f}, {:.2f}]", name, dense / m, times.at("onednn") / m);
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
  for (const int64_t batch : {1, 16})
    for (const Layer& c : layers_to_prune(batch)) run(c, rounds, vector);
  run({{128, 1024}, {1024, 1024}}, rounds, vector);
}
