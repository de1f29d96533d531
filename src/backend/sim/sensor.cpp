// The sensors of virtual accelerators: what the model of their profile says of power and heat.
// Shares and power are means since the reading before, of sums that the pacer keeps, so they are
// exact however rarely they are read.
#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include <brim/core/error.h>

#include "backend/sim/device.h"
#include "diag/gpu_sensor.h"

namespace brim::sim {
namespace {

class SimSensor final : public diag::GpuSensor {
 public:
  diag::GpuReading read(int device) override {
    diag::GpuReading r;
    try {
      fill(device, r);
    } catch (const Error& e) {
      r = {};
      r.error = e.what();
    }
    return r;
  }
  bool charges_throttle() const override { return true; }
  std::optional<double> worked(int device) override {
    return Devices::all().pacer(device).sums().worked;
  }

 private:
  void fill(int device, diag::GpuReading& r) {
    Devices& all = Devices::all();
    Pacer& pacer = all.pacer(device);
    r.memory_used = all.used(device);
    r.memory_total = all.capacity();
    const std::lock_guard lock(mutex_);
    const Pacer::Sums now = pacer.sums();
    const Pacer::Sums before = std::exchange(before_[device], now);
    if (const double passed = now.seconds - before.seconds; passed > 0)
      r.utilisation = std::clamp((now.computed - before.computed) / passed, 0.0, 1.0);
    if (!pacer.draws_power()) return;
    const std::optional<DeviceProfile> profile = all.profile();
    if (!profile) return;
    const SimReadings state = pacer.readings();
    const double played = now.played - before.played;
    r.power = played > 0 ? (now.energy - before.energy) / played : state.power;
    r.power_limit = profile->peak_power;
    r.temperature = state.temperature;
    r.energy = now.energy;
    r.throttled = state.clock < 1;
    if (r.throttled) r.clocks_held_by = {"heat"};
    if (profile->clock <= 0) return;
    r.max_sm_clock = profile->clock;
    r.sm_clock = profile->clock * state.clock;
  }

  std::mutex mutex_;
  std::map<int, Pacer::Sums> before_;  // by device
};

const bool sensor_registered = [] {
  static auto* const sensor = new SimSensor;  // read by threads that may end after static objects
  diag::set_gpu_sensor(DeviceKind::sim, *sensor);
  return true;
}();

}  // namespace
}  // namespace brim::sim
