// Layers of oneDNN's to measure beside, and calls that take turns.
#pragma once

#include <brim/core/shape.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <dnnl.hpp>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/clock.h"

namespace brim::bench {

/// A layer of oneDNN's, all in its own blocks.
inline std::function<void()> onednn_layer(const Shape& x, const Shape& weight, int64_t stride,
                                          int64_t padding, bool is_int8) {
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

inline double median(std::vector<double> v) {
  std::ranges::sort(v);
  return v[v.size() / 2];
}

using Calls = std::map<std::string, std::function<void()>>;

/// What the calling thread has computed, which other programs of the machine lengthen least.
inline double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Medians of rounds in which all take turns, in seconds of the clock.
inline std::map<std::string, double> medians(const Calls& calls, int rounds,
                                             double (*clock)() = &steady_seconds) {
  std::map<std::string, std::vector<double>> times;
  for (int round = 0; round <= rounds; ++round)
    for (const auto& [name, call] : calls) {
      // oneDNN's threads go on spinning for a while, and sleeping ones want to be woken.
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const double woken = steady_seconds();
      do call();
      while (steady_seconds() - woken < 0.005);
      const double begin = clock();
      int count = 0;
      do call();
      while (++count < 1000 && clock() - begin < 0.01);
      if (round > 0) times[name].push_back((clock() - begin) / count);
    }
  std::map<std::string, double> all;
  for (const auto& [name, seconds] : times) all[name] = median(seconds);
  return all;
}

inline std::string in_json(const std::map<std::string, double>& times) {
  std::string line;
  for (const auto& [name, seconds] : times)
    line += fmt::format(", \"{}_us\": {:.1f}", name, 1e6 * seconds);
  return line;
}

}  // namespace brim::bench
