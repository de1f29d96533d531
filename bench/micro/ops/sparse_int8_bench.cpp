// Layers that are sparse and in 8-bit integers beside those that are one of both, dense f32 ones
// and oneDNN's dense int8, each in the memory format that is the fastest for it. All but oneDNN's
// count the quantize() of their f32 inputs in; "u8" is with inputs and outputs of u8, as between
// layers in integers. Weights are normally distributed, as trained ones about are. JSON lines:
// medians of rounds in which all take turns, of one thread's time of the CPU; "to_faster_x": how
// many times as fast as the faster one of sparse f32 and dense int8.
//
//   OMP_NUM_THREADS=1 build/bench/sparse_int8_bench [ROUNDS] [VECTOR] [PERCENT OF ZEROS]
#include <brim/autograd/autograd.h>
#include <brim/core/random.h>
#include <brim/core/threads.h>
#include <brim/ops/conv.h>
#include <brim/ops/create.h>
#include <brim/ops/matmul.h>
#include <brim/ops/sparse_int8.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "layer_times.h"
#include "pruned.h"

namespace {

using namespace brim;
using namespace brim::bench;

void run(const Layer& c, int rounds, int64_t vector, double sparsity) {
  const bool is_conv = c.x.rank() == 4;
  const int64_t padding = is_conv ? c.weight[2] / 2 : 0;
  const Tensor x = rand(c.x), weight = pruned(randn(c.weight), vector, sparsity);
  const Tensor bias = rand({c.weight[0]});
  const Conv2dOptions how{.stride = c.stride, .padding = padding};
  const SparseWeight sparse = SparseWeight::encode(weight, vector);
  const Int8Weight int8 = Int8Weight::quantize(weight);
  const SparseInt8Weight both = SparseInt8Weight::encode(int8, vector);
  const QuantParams params = QuantParams::of_range(0, 1);
  const Int8Output next{.relu = true, .quantized = params};
  Calls calls;
  calls["onednn int8"] = onednn_layer(c.x, c.weight, c.stride, padding, true);
  if (is_conv) {
    for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc}) {
      const std::string of = format == MemoryFormat::nhwc ? " nhwc" : " nchw";
      const Tensor in = x.to(format), w = weight.to(format), q = quantize(in, params);
      calls["f32" + of] = [=] { (void)conv2d(in, w, bias, how); };
      calls["sparse" + of] = [=] { (void)sparse_conv2d(in, sparse, bias, how); };
      calls["int8" + of] = [=] {
        (void)int8_conv2d(quantize(in, params), params, int8, bias, how);
      };
      calls["both" + of] = [=] {
        (void)sparse_int8_conv2d(quantize(in, params), params, both, bias, how);
      };
      calls["u8 int8" + of] = [=] { (void)int8_conv2d(q, params, int8, bias, how, next); };
      calls["u8 both" + of] = [=] { (void)sparse_int8_conv2d(q, params, both, bias, how, next); };
    }
  } else {
    const Tensor q = quantize(x, params);
    calls["f32"] = [=] { (void)linear(x, weight, bias); };
    calls["sparse"] = [=] { (void)sparse_linear(x, sparse, bias); };
    calls["int8"] = [=] { (void)int8_linear(quantize(x, params), params, int8, bias); };
    calls["both"] = [=] { (void)sparse_int8_linear(quantize(x, params), params, both, bias); };
    calls["u8 int8"] = [=] { (void)int8_linear(q, params, int8, bias, next); };
    calls["u8 both"] = [=] { (void)sparse_int8_linear(q, params, both, bias, next); };
  }
  const auto times = medians(calls, rounds, &thread_seconds);
  const auto best = [&](const std::string& kind) {
    double least = 1e9;
    for (const auto& [name, seconds] : times)
      if (name.starts_with(kind)) least = std::min(least, seconds);
    return least;
  };
  const double mine = best("both"), u8 = best("u8 both");
  fmt::print(
      "{{\"x\": \"{}\", \"weight\": \"{}\", \"stride\": {}{}, \"to_f32_x\": {:.2f}, "
      "\"to_sparse_x\": {:.2f}, \"to_int8_x\": {:.2f}, \"to_faster_x\": {:.2f}, "
      "\"u8_to_u8_int8_x\": {:.2f}, "
      "\"u8_to_onednn_int8_x\": {:.2f}}}\n",
      c.x.str(), c.weight.str(), c.stride, in_json(times), best("f32") / mine,
      best("sparse") / mine, best("int8") / mine, std::min(best("sparse"), best("int8")) / mine,
      best("u8 int8") / u8, best("onednn") / u8);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 9;
  const int64_t vector = argc > 2 ? std::atoll(argv[2]) : 32;
  const double sparsity = argc > 3 ? std::atof(argv[3]) / 100 : 0.75;
  const NoGrad scope;
  manual_seed(1);
  set_num_threads(1);
  for (const int64_t batch : {1, 16})
    for (const Layer& c : layers_to_prune(batch)) run(c, rounds, vector, sparsity);
}
