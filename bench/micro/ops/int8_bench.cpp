// Layers in 8-bit integers beside brim's f32 ones and oneDNN's of both kinds, each in the layout
// that is the fastest for it (oneDNN's blocks are made outside of the measured time). brim's int8
// layers count quantize() of their f32 inputs in; "u8" is with inputs and outputs of u8, as between
// int8 layers, which is what oneDNN is asked for too. JSON lines: medians of rounds in which all
// take turns. Or of whole networks (with random weights, eval mode) in f32, of either memory
// format, and with the layers in integers that are faster so, or all of them.
//
//   build/bench/int8_bench [ROUNDS]
//   build/bench/int8_bench networks [ROUNDS]
#include <brim/autograd/autograd.h>
#include <brim/compress/quantize.h>
#include <brim/core/random.h>
#include <brim/nn/models.h>
#include <brim/ops/conv.h>
#include <brim/ops/create.h>
#include <brim/ops/int8.h>
#include <brim/ops/matmul.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <dnnl.hpp>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/clock.h"

namespace {

using namespace brim;

/// A layer of oneDNN's, all in its own blocks.
std::function<void()> onednn(const Shape& x, const Shape& weight, int64_t stride, int64_t padding,
                             bool is_int8) {
  using namespace dnnl;
  using Type = memory::data_type;
  static engine cpu(engine::kind::cpu, 0);
  static stream queue(cpu);
  const auto desc = [&](const Shape& s, Type type) {
    return memory::desc(memory::dims(s.begin(), s.end()), is_int8 ? type : Type::f32,
                        memory::format_tag::any);
  };
  std::unordered_map<int, memory> arguments;
  const auto bind = [&](int what, const memory::desc& d) { arguments[what] = memory(d, cpu); };
  const memory::desc in = desc(x, Type::u8), w = desc(weight, Type::s8);
  const auto bind_all = [&](const auto& pd) {
    bind(DNNL_ARG_SRC, pd.src_desc());
    bind(DNNL_ARG_WEIGHTS, pd.weights_desc());
    bind(DNNL_ARG_DST, pd.dst_desc());
  };
  const auto run = [&](const auto& p) {
    return [p, arguments] {
      p.execute(queue, arguments);
      queue.wait();
    };
  };
  if (x.rank() == 2) {
    const inner_product_forward::primitive_desc pd(
        {prop_kind::forward_inference, in, w, desc({x[0], weight[0]}, Type::u8)}, cpu);
    bind_all(pd);
    return run(inner_product_forward(pd));
  }
  const auto out = [&](int axis) { return (x[axis] + 2 * padding - weight[axis]) / stride + 1; };
  const convolution_forward::primitive_desc pd(
      {prop_kind::forward_inference,
       is_int8 ? algorithm::convolution_direct : algorithm::convolution_auto,
       in,
       w,
       desc({x[0], weight[0], out(2), out(3)}, Type::u8),
       {stride, stride},
       {padding, padding},
       {padding, padding}},
      cpu);
  bind_all(pd);
  return run(convolution_forward(pd));
}

double median(std::vector<double> v) {
  std::ranges::sort(v);
  return v[v.size() / 2];
}

using Calls = std::map<std::string, std::function<void()>>;

/// Medians of rounds in which all take turns, in seconds.
std::map<std::string, double> medians(const Calls& calls, int rounds) {
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
  std::map<std::string, double> all;
  for (const auto& [name, seconds] : times) all[name] = median(seconds);
  return all;
}

std::string in_json(const std::map<std::string, double>& times) {
  std::string line;
  for (const auto& [name, seconds] : times)
    line += fmt::format(", \"{}_us\": {:.1f}", name, 1e6 * seconds);
  return line;
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
  for (const compress::QuantizedLayer& l : compress::quantize(*faster, [&] { (*faster)(x); })) {
    in_integers += l.why.empty() ? 1 : 0;
    ++layers;
  }
  compress::quantize(*all, [&] { (*all)(x); }, {.only_faster = false});
  Calls calls;
  calls["f32_nchw"] = [=] { (void)(*f32)(x); };
  calls["f32_nhwc"] = [=] { (void)(*f32_nhwc)(nhwc); };
  calls["faster"] = [=] { (void)(*faster)(nhwc); };
  calls["all"] = [=] { (void)(*all)(nhwc); };
  auto times = medians(calls, rounds);
  const double best = std::min(times["f32_nchw"], times["f32_nhwc"]);
  fmt::print(
      "{{\"network\": \"{}\", \"x\": \"{}\", \"in_integers\": [{}, {}]{}, "
      "\"faster_x\": {:.2f}, \"all_x\": {:.2f}}}\n",
      name, input.str(), in_integers, layers, in_json(times), best / times["faster"],
      best / times["all"]);
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
  calls["onednn_f32"] = onednn(c.x, c.weight, c.stride, padding, false);
  calls["onednn_int8"] = onednn(c.x, c.weight, c.stride, padding, true);
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
  const auto times = medians(calls, rounds);
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
    for (const int64_t batch : {1, 16}) {
      run_network("resnet18", {batch, 3, 224, 224}, rounds);
      run_network("resnet50", {batch, 3, 224, 224}, rounds);
      run_network("mobilenet_v2", {batch, 3, 224, 224}, rounds);
      run_network("cifar-resnet8", {batch, 3, 32, 32}, rounds);
      run_network("tutorial-cnn", {batch, 3, 32, 32}, rounds);
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
