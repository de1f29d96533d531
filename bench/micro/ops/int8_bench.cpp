// Layers in 8-bit integers beside brim's f32 ones and oneDNN's of both kinds, each in the layout
// that is the fastest for it (oneDNN's blocks are made outside of the measured time). brim's int8
// layers count quantize() of their f32 inputs in; "u8" is with inputs and outputs of u8, as between
// int8 layers, which is what oneDNN is asked for too. JSON lines: medians of rounds in which all
// take turns. Or of whole networks (with random weights, eval mode) in f32, of either memory
// format, and with the layers in integers that compress::quantize chooses by compiled passes, or
// all of them; each also as a
// compiled pass. Ratios are of the fastest f32. On one CPU (taskset -c 1) times are CPU time.
//
//   build/bench/int8_bench [ROUNDS]
//   build/bench/int8_bench networks [ROUNDS [NAME]]
#include <brim/autograd/autograd.h>
#include <brim/compress/quantize.h>
#include <brim/core/random.h>
#include <brim/core/threads.h>
#include <brim/nn/models.h>
#include <brim/ops/conv.h>
#include <brim/ops/create.h>
#include <brim/ops/int8.h>
#include <brim/ops/matmul.h>
#include <brim/plan/compile.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "layer_times.h"

namespace {

using namespace brim;
using namespace brim::bench;

/// Where brim computes in one thread, what that computes; which other programs lengthen least.
double (*clock_of_run())() { return num_threads() == 1 ? &thread_seconds : &steady_seconds; }

auto forward_of(std::shared_ptr<nn::Module> net) {
  return compile([net = std::move(net)](const Tensor& x) { return (*net)(x); });
}

void run_network(const char* name, const Shape& input, int rounds) {
  const auto make = [&] {
    auto net = nn::make_model(name, {.classes = 1000, .input = {input[1], input[2], input[3]}});
    net->eval();
    return std::shared_ptr<nn::Module>(std::move(net));
  };
  const Tensor x = randn(input), nhwc = x.to(MemoryFormat::nhwc);
  const auto f32 = make(), f32_nhwc = make(), faster = make(), all = make();
  f32_nhwc->to(MemoryFormat::nhwc);
  size_t in_integers = 0, layers = 0;
  const auto pass_seconds = [&] {
    auto pass = forward_of(faster);
    Calls calls;
    calls["x"] = [&] { (void)pass(x); };
    return std::vector<double>{medians(calls, 3, clock_of_run())["x"]};
  };
  for (const compress::QuantizedLayer& l :
       compress::quantize(*faster, [&] { (*faster)(x); }, {.pass_seconds = pass_seconds})) {
    in_integers += l.why.empty() ? 1 : 0;
    ++layers;
  }
  compress::quantize(*all, [&] { (*all)(x); }, {.only_faster = false});
  const auto compiled = [](const std::shared_ptr<nn::Module>& net, const Tensor& in) {
    const auto pass = std::make_shared<decltype(forward_of(net))>(forward_of(net));
    return [pass, in] { (void)(*pass)(in); };
  };
  Calls calls;
  calls["f32_compiled"] = compiled(f32, x);
  calls["faster_compiled"] = compiled(faster, x);
  calls["all_compiled"] = compiled(all, x);
  calls["f32_nchw"] = [=] { (void)(*f32)(x); };
  calls["f32_nhwc"] = [=] { (void)(*f32_nhwc)(nhwc); };
  calls["faster"] = [=] { (void)(*faster)(nhwc); };
  calls["all"] = [=] { (void)(*all)(nhwc); };
  auto times = medians(calls, rounds, clock_of_run());
  const double best = std::min({times["f32_nchw"], times["f32_nhwc"], times["f32_compiled"]});
  fmt::print(
      "{{\"network\": \"{}\", \"x\": \"{}\", \"in_integers\": [{}, {}]{}, "
      "\"faster_x\": {:.2f}, \"all_x\": {:.2f}}}\n",
      name, input.str(), in_integers, layers, in_json(times),
      best / std::min(times["faster"], times["faster_compiled"]),
      best / std::min(times["all"], times["all_compiled"]));
  std::fflush(stdout);
}

struct Case {
  Shape x, weight;
  int64_t stride = 1;
};

void run(const Case& c, int rounds) {
  const bool is_conv = c.x.rank() == 4;
  const int64_t padding = is_conv ? c.weight[2] / 2 : 0;
  const Tensor x = rand(c.x), weight = rand(c.weight), bias = rand({c.weight[0]});
  const Tensor nhwc = is_conv ? x.to(MemoryFormat::nhwc) : x;
  const Tensor weight_nhwc = is_conv ? weight.to(MemoryFormat::nhwc) : weight;
  const Conv2dOptions how{.stride = c.stride, .padding = padding};
  const Int8Weight w = Int8Weight::quantize(weight);
  const QuantParams params = QuantParams::of_range(0, 1);
  const Tensor q = quantize(nhwc, params);
  const Int8Output next{.relu = true, .quantized = params};
  Calls calls;
  calls["onednn_f32"] = onednn_layer(c.x, c.weight, c.stride, padding, false);
  calls["onednn_int8"] = onednn_layer(c.x, c.weight, c.stride, padding, true);
  if (is_conv) {
    calls["f32_nchw"] = [=] { (void)conv2d(x, weight, bias, how); };
    calls["f32_nhwc"] = [=] { (void)conv2d(nhwc, weight_nhwc, bias, how); };
    calls["int8_nchw"] = [=] { (void)int8_conv2d(quantize(x, params), params, w, bias, how); };
    calls["int8_nhwc"] = [=] { (void)int8_conv2d(quantize(nhwc, params), params, w, bias, how); };
    calls["u8"] = [=] { (void)int8_conv2d(q, params, w, bias, how, next); };
  } else {
    calls["f32"] = [=] { (void)linear(x, weight, bias); };
    calls["int8"] = [=] { (void)int8_linear(quantize(x, params), params, w, bias); };
    calls["u8"] = [=] { (void)int8_linear(q, params, w, bias, next); };
  }
  const auto times = medians(calls, rounds, clock_of_run());
  double f32_time = 1e9, int8_time = 1e9;
  for (const auto& [name, m] : times) {
    if (name.starts_with("f32")) f32_time = std::min(f32_time, m);
    if (name.starts_with("int8")) int8_time = std::min(int8_time, m);
  }
  const auto of = [&](const char* name) { return times.at(name); };
  fmt::print(
      "{{\"x\": \"{}\", \"weight\": \"{}\", \"stride\": {}{}, \"int8_x\": {:.2f}, \"u8_x\": "
      "{:.2f}, "
      "\"u8_to_onednn_int8_x\": {:.2f}, \"int8_to_onednn_f32_x\": {:.2f}}}\n",
      c.x.str(), c.weight.str(), c.stride, in_json(times), f32_time / int8_time,
      f32_time / of("u8"), of("onednn_int8") / of("u8"), of("onednn_f32") / int8_time);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const bool are_networks = argc > 1 && std::string(argv[1]) == "networks";
  const int at = are_networks ? 2 : 1, rounds = argc > at ? std::atoi(argv[at]) : 9;
  const NoGrad scope;
  manual_seed(1);
  if (are_networks) {
    const std::string only = argc > at + 1 ? argv[at + 1] : "";
    for (const int64_t batch : {1, 16})
      for (const char* name :
           {"resnet18", "resnet50", "mobilenet_v2", "cifar-resnet8", "tutorial-cnn"}) {
        const bool is_small = name[0] == 'c' || name[0] == 't';
        const int64_t size = is_small ? 32 : 224;
        if (only.empty() || only == name) run_network(name, {batch, 3, size, size}, rounds);
      }
    return 0;
  }
  for (const int64_t batch : {1, 16}) {
    const Case cases[] = {{{batch, 3, 224, 224}, {64, 3, 7, 7}, 2},
                          {{batch, 64, 56, 56}, {64, 64, 3, 3}},
                          {{batch, 128, 28, 28}, {128, 128, 3, 3}},
                          {{batch, 256, 14, 14}, {256, 256, 3, 3}},
                          {{batch, 512, 7, 7}, {512, 512, 3, 3}},
                          {{batch, 128, 28, 28}, {256, 128, 3, 3}, 2},
                          {{batch, 64, 56, 56}, {256, 64, 1, 1}},
                          {{batch, 256, 14, 14}, {1024, 256, 1, 1}},
                          {{batch, 16, 32, 32}, {16, 16, 3, 3}},
                          {{batch, 64, 8, 8}, {64, 64, 3, 3}},
                          {{batch, 1024}, {1024, 1024}},
                          {{batch, 4096}, {4096, 4096}},
                          {{batch, 400}, {120, 400}}};
    for (const Case& c : cases) run(c, rounds);
  }
}
