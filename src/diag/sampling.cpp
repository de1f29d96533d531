// See sampling.h. The windows themselves are DeviceMeter::pause() and resume().
#include <brim/diag/sampling.h>

#include <algorithm>

#include "core/runtime.h"
#include "diag/device_meter.h"
#include "diag/trace_sink.h"

namespace brim::diag {
namespace {

constexpr double kAdvanceUs = 20'000;  // between flushes of records, which take time, too

}  // namespace

Sampling::Sampling(const std::vector<Device>& devices) : begin_(ticks()), advanced_(begin_) {
  for (const Device device : devices)
    if (DeviceMeter::of(device).has_records()) devices_.push_back(device);
  // One source tells of all devices of a kind.
  if (!devices_.empty()) taken_before_ = DeviceMeter::of(devices_[0]).records_taken();
}

Sampling::~Sampling() {
  try {
    for (const Device device : devices_) DeviceMeter::of(device).resume();
  } catch (...) {  // a device that is lost records no more
  }
}

void Sampling::border(double max_share) {
  if (devices_.empty()) return;
  const uint64_t now = ticks();
  if (static_cast<double>(now - advanced_) > kAdvanceUs * ticks_per_us()) {
    DeviceMeter::of(devices_[0]).advance();  // or full buffers alone would be counted
    advanced_ = now;
  }
  const int64_t taken = DeviceMeter::of(devices_[0]).records_taken() - taken_before_;
  const double cost =
      kRecordUs * static_cast<double>(taken) + kWindowUs * static_cast<double>(windows_);
  const double passed = static_cast<double>(now - begin_) / ticks_per_us();
  const bool record = tracing() || cost <= max_share * passed;
  const auto paused = [](Device device) { return DeviceMeter::of(device).is_paused(); };
  if (std::ranges::none_of(devices_, [&](Device d) { return paused(d) == record; })) return;
  for (const Device device : devices_) synchronize(device);
  for (const Device device : devices_)
    record ? DeviceMeter::of(device).resume() : DeviceMeter::of(device).pause();
  if (record) ++windows_;
}

double Sampling::recorded(Device device) const {
  const auto missing = static_cast<double>(DeviceMeter::of(device).unrecorded());
  return std::clamp(1 - missing / static_cast<double>(std::max<uint64_t>(ticks() - begin_, 1)), 0.0,
                    1.0);
}

}  // namespace brim::diag
