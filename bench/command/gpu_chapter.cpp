// See gpu_chapter.h.
#include "bench/command/gpu_chapter.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include <brim/autograd/autograd.h>
#include <brim/core/sim.h>
#include <brim/core/stream.h>
#include <brim/nn/linear.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/matmul.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>

namespace brim::command {
namespace {

using Json = nlohmann::ordered_json;
using Body = std::function<void()>;

double seconds_of(const Body& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct Spread {
  double median = 0, min = 0, max = 0;  // seconds
  Json json() const { return {{"seconds", median}, {"min", min}, {"max", max}}; }
  std::string str() const {
    return fmt::format("{:>10.3f} ms  ({:.3f} to {:.3f})", median * 1e3, min * 1e3, max * 1e3);
  }
};

Spread measured(int rounds, const Body& body) {
  body();  // warms up
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) times.push_back(seconds_of(body));
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times.front(), times.back()};
}

/// Virtual accelerators at the pace of a real device while it lives.
class Pace {
 public:
  explicit Pace(double slowdown) : before_(sim_options()) {
    SimOptions paced = before_;
    if (paced.profile.empty()) {
      paced.profile = "t4";
      paced.slowdown = slowdown;
      if (paced.memory == 0) paced.memory = int64_t{4} << 30;
    }
    set_sim_options(paced);
  }
  ~Pace() {
    try {
      set_sim_options(before_);
    } catch (const Error&) {  // a profile's file is gone; nothing is measured any more
    }
  }
  Pace(const Pace&) = delete;
  Pace& operator=(const Pace&) = delete;

 private:
  SimOptions before_;
};

class Chapter {
 public:
  Chapter(int rounds, bool print) : rounds_(rounds), print_(print) {
    accelerators_ = Device::all(DeviceKind::cuda);
    if (accelerators_.empty()) accelerators_ = Device::all(DeviceKind::sim);
    devices_ = {Device::cpu()};
    devices_.insert(devices_.end(), accelerators_.begin(), accelerators_.end());
  }

  Json run() {
    Json json;
    json["case"] = "gpu-chapter";
    for (const Device d : devices_) json["devices"].push_back(d.str());
    json["rounds"] = rounds_;
    const auto part = [&](const char* name, double slowdown, auto body) {
      std::optional<Pace> pace;
      if (accelerators_.empty() || accelerators_[0].kind == DeviceKind::sim) {
        pace.emplace(slowdown);
        const SimOptions sim = sim_options();
        json["sim_pace"][name] = {{"profile", sim.profile}, {"slowdown", sim.slowdown}};
      }
      (this->*body)(json[name]);
    };
    part("products", kSlow, &Chapter::products);
    part("parameters", kSlow, &Chapter::parameters);
    part("logs", kQuick, &Chapter::logs);
    part("two_devices", kSlow, &Chapter::two_devices);
    return json;
  }

 private:
  /// A heading, and the pace that holds below it.
  void say_part(const std::string& line) const {
    say(line);
    if (accelerators_.empty() || accelerators_[0].kind != DeviceKind::sim) return;
    say(fmt::format("   (sim: the pace of {}, {} times slower)", sim_options().profile,
                    sim_options().slowdown));
  }
  void say(const std::string& line) const {
    if (print_) fmt::print("{}\n", line);
    std::fflush(stdout);
  }

  /// 1. A large and a small product on each device.
  void products(Json& json) {
    say_part("1. products of two n x n matrices, f32");
    for (const int64_t n : {10, 100, 1000})
      for (const Device d : devices_) {
        const Tensor a = rand({n, n}, {.device = d}), b = rand({n, n}, {.device = d});
        const Spread time = measured(rounds_, [&] {
          (void)matmul(a, b);
          synchronize(d);
        });
        const double gflops = 2e-9 * static_cast<double>(n * n * n) / time.median;
        say(fmt::format("   {:<6} n = {:<5}{}  {:.2f} GFLOP/s", d.str(), n, time.str(), gflops));
        json.push_back(
            {{"device", d.str()}, {"n", n}, {"gflop_per_s", gflops}, {"time", time.json()}});
      }
  }

  /// 2. Parameters of a network on each device, read and written.
  void parameters(Json& json) {
    say_part("2. reading and writing the parameters of a 1000 -> 1000 layer there");
    const NoGrad guard;
    for (const Device d : devices_) {
      nn::Linear layer({.in = 1000, .out = 1000, .device = d});
      const Tensor values = rand({1000, 1000});
      const Spread write = measured(rounds_, [&] {
        layer.weight.copy_(values);
        synchronize(d);
      });
      const Spread read = measured(rounds_, [&] { (void)layer.weight.to_vector<float>(); });
      say(fmt::format("   {:<6} write    {}", d.str(), write.str()));
      say(fmt::format("   {:<6} read     {}", d.str(), read.str()));
      json.push_back({{"device", d.str()}, {"write", write.json()}, {"read", read.json()}});
    }
  }

  /// 3. 1,000 products and their Frobenius norms, logged on the host each time or on the device.
  void logs(Json& json) {
    constexpr int64_t kCount = 1000;
    say_part("3. 1,000 products of 100 x 100 matrices and their Frobenius norms");
    for (const Device d : devices_) {
      const Tensor a = rand({100, 100}, {.device = d}), b = rand({100, 100}, {.device = d});
      const auto norm = [&] {
        const Tensor c = matmul(a, b);
        return sqrt(sum(c * c));
      };
      std::vector<double> on_host(kCount);
      const Spread host = measured(rounds_, [&] {
        for (double& value : on_host) value = norm().item();
      });
      std::vector<float> on_device;
      const Spread device = measured(rounds_, [&] {
        Tensor log = zeros({kCount}, {.device = d});
        for (int64_t i = 0; i < kCount; ++i) log[i].copy_(norm());
        on_device = log.to_vector<float>();  // once
      });
      const double gain = host.median / device.median;
      say(fmt::format("   {:<6} host     {}", d.str(), host.str()));
      say(fmt::format("   {:<6} device   {}  {:.2f} times as fast", d.str(), device.str(), gain));
      json.push_back({{"device", d.str()},
                      {"log_on_host", host.json()},
                      {"log_on_device", device.json()},
                      {"gain", gain}});
    }
  }

  /// 4. Two products on one device, one after the other, and on two devices at once.
  void two_devices(Json& json) {
    if (accelerators_.size() < 2) {
      say("4. two products at once: skipped, there is only one accelerator");
      json = nullptr;
      return;
    }
    constexpr int64_t kSize = 1024;
    const Device d0 = accelerators_[0], d1 = accelerators_[1];
    const Tensor a0 = rand({kSize, kSize}, {.device = d0}), a1 = a0.to(d1);
    const Spread sequence = measured(rounds_, [&] {
      (void)matmul(a0, a0);
      (void)matmul(a0, a0);
      synchronize(d0);
    });
    const Spread at_once = measured(rounds_, [&] {
      (void)matmul(a0, a0);
      (void)matmul(a1, a1);
      synchronize(d0);
      synchronize(d1);
    });
    const double gain = sequence.median / at_once.median;
    say_part("4. two products of 1024 x 1024 matrices");
    say(fmt::format("   on {}, one after the other  {}", d0.str(), sequence.str()));
    say(fmt::format("   on {} and {} at once     {}  {:.2f} times as fast", d0.str(), d1.str(),
                    at_once.str(), gain));
    json = {{"one_after_the_other", sequence.json()}, {"at_once", at_once.json()}, {"gain", gain}};
  }

  // A T4 does in 0.3 ms what two CPU cores do in 25.
  static constexpr double kSlow = 1000;
  static constexpr double kQuick = 20;  // launches of 100 us and kernels of 60

  int rounds_;
  bool print_;
  std::vector<Device> accelerators_, devices_;
};

}  // namespace

Json run_gpu_chapter(int rounds, bool print) { return Chapter(rounds, print).run(); }

}  // namespace brim::command
