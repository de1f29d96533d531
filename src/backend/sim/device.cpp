#include "backend/sim/device.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/check.h"
#include "core/environment.h"

namespace brim::sim {
namespace {

constexpr int kMaxDevices = 64;
constexpr int kMaxStreams = 32;  // of a device beside its default one; then they serve in turn
constexpr int64_t kDefaultMemory = int64_t{4} << 30;

/// "512M", "16G", "1000": a count of bytes.
int64_t parse_bytes(const std::string& text) {
  int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const std::string unit(end, static_cast<size_t>(text.data() + text.size() - end));
  const int shift = unit.empty() ? 0 : unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : -1;
  BRIM_CHECK(
      error == std::errc() && shift >= 0 && count > 0 && count < (int64_t{1} << (47 - shift)),
      ValueError, "[sim] BRIM_SIM_MEMORY='{}' is no number of bytes; use for example 512M", text);
  return count << shift;
}

SimOptions from_environment() {
  SimOptions options;
  if (const std::string text = environment("BRIM_SIM_DEVICES"); !text.empty()) {
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), options.devices);
    BRIM_CHECK(error == std::errc() && end == text.data() + text.size(), ValueError,
               "[sim] BRIM_SIM_DEVICES='{}' is no number; use 0 to {}", text, kMaxDevices);
  }
  if (const std::string text = environment("BRIM_SIM_MEMORY"); !text.empty())
    options.memory = parse_bytes(text);
  options.profile = environment("BRIM_SIM_PROFILE");
  if (const std::string text = environment("BRIM_SIM_SLOWDOWN"); !text.empty()) {
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), options.slowdown);
    BRIM_CHECK(error == std::errc() && end == text.data() + text.size(), ValueError,
               "[sim] BRIM_SIM_SLOWDOWN='{}' is no number; use for example 100", text);
  }
  options.check = environment_switch("BRIM_SIM_CHECK");
  return options;
}

void check_options(const SimOptions& o) {
  BRIM_CHECK(o.devices >= 0 && o.devices <= kMaxDevices, ValueError,
             "[sim] {} devices; use 0 to {}", o.devices, kMaxDevices);
  BRIM_CHECK(o.memory >= 0 && o.memory < (int64_t{1} << 46), ValueError,
             "[sim] {} bytes of memory; use fewer than 2^46, or 0 for the profile's", o.memory);
  BRIM_CHECK(std::isfinite(o.slowdown) && o.slowdown > 0 && o.slowdown <= 1e9, ValueError,
             "[sim] a slowdown of {}; use a number above 0, for example 100", o.slowdown);
}

}  // namespace

Devices& Devices::all() {
  static Devices* devices = [] {
    static Devices* made = new Devices;
    std::atexit([] { made->stop(); });
    return made;
  }();
  return *devices;
}

Devices::Devices() { set_options(from_environment()); }

void Devices::stop() {
  const std::lock_guard lock(mutex_);
  for (auto& device : devices_)
    for (auto& stream : device->streams) stream->stop();
  for (auto& device : devices_) device->streams.clear();
}

SimOptions Devices::options() {
  const std::lock_guard lock(mutex_);
  return options_;
}

void Devices::set_options(const SimOptions& options) {
  check_options(options);
  const std::optional<DeviceProfile> profile =
      options.profile.empty() ? std::nullopt : std::optional(load_profile(options.profile));
  const std::lock_guard lock(mutex_);
  const auto used = [](const auto& d) { return d->memory || !d->streams.empty(); };
  const auto last = std::find_if(devices_.rbegin(), devices_.rend(), used);
  BRIM_CHECK(options.devices >= devices_.rend() - last, ValueError,
             "[sim] {} device(s) would be fewer than the {} in use; ask for at least as many",
             options.devices, devices_.rend() - last);
  for (size_t i = 0; i < devices_.size(); ++i) drain(static_cast<int>(i));
  devices_.resize(static_cast<size_t>(options.devices));
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (!devices_[i]) devices_[i] = std::make_unique<SimDevice>();
    devices_[i]->index = static_cast<int>(i);
    devices_[i]->pacer.set(profile, options.slowdown, options.paced);
  }
  options_ = options;
  profile_ = profile;
  checker_.reset();
  checking_ = options.check;
}

int Devices::count() {
  const std::lock_guard lock(mutex_);
  return options_.devices;
}

std::optional<DeviceProfile> Devices::profile() {
  const std::lock_guard lock(mutex_);
  return profile_;
}

int64_t Devices::capacity() {
  const std::lock_guard lock(mutex_);
  if (options_.memory) return options_.memory;
  return profile_ ? profile_->memory : kDefaultMemory;
}

SimDevice& Devices::at(int device) {
  BRIM_CHECK(device >= 0 && static_cast<size_t>(device) < devices_.size(), DeviceError,
             "[sim] sim:{} does not exist: this process has {} (BRIM_SIM_DEVICES)", device,
             devices_.size());
  return *devices_[static_cast<size_t>(device)];
}

AddressSpace& Devices::memory(int device) {
  const std::lock_guard lock(mutex_);
  SimDevice& d = at(device);
  if (!d.memory) d.memory = std::make_unique<AddressSpace>(static_cast<size_t>(capacity()));
  return *d.memory;
}

SimStream& Devices::add_stream(SimDevice& device) {
  const Device name = Device::sim(device.index);
  const int id = static_cast<int>(device.streams.size());
  checker_.name_stream(streams_, fmt::format("{} stream {}", name.str(), id));
  device.streams.push_back(std::make_unique<SimStream>(name, id, streams_++, device.pacer));
  return *device.streams.back();
}

SimStream& Devices::stream(const Stream& stream) {
  const std::lock_guard lock(mutex_);
  SimDevice& d = at(stream.device.index);
  if (d.streams.empty()) add_stream(d);
  BRIM_CHECK(stream.id >= 0 && static_cast<size_t>(stream.id) < d.streams.size(), DeviceError,
             "[stream] {} has no stream {}; make one with Stream::create", stream.device.str(),
             stream.id);
  return *d.streams[static_cast<size_t>(stream.id)];
}

Stream Devices::create_stream(int device) {
  const std::lock_guard lock(mutex_);
  SimDevice& d = at(device);
  if (d.streams.empty()) add_stream(d);
  if (d.shared.size() == kMaxStreams)
    return {Device::sim(device), d.shared[d.next_stream++ % kMaxStreams]};
  const Stream made = create_private_stream(device);
  d.shared.push_back(made.id);
  return made;
}

Stream Devices::create_private_stream(int device) {
  const std::lock_guard lock(mutex_);
  SimDevice& d = at(device);
  if (d.streams.empty()) add_stream(d);
  add_stream(d);
  return {Device::sim(device), static_cast<int32_t>(d.streams.size() - 1)};
}

Pacer& Devices::pacer(int device) {
  const std::lock_guard lock(mutex_);
  return at(device).pacer;
}

int64_t Devices::used(int device) {
  const std::lock_guard lock(mutex_);
  const auto& memory = at(device).memory;
  return memory ? static_cast<int64_t>(memory->capacity() - memory->free_bytes()) : 0;
}

std::vector<SimStream*> Devices::streams(int device) {
  const std::lock_guard lock(mutex_);
  std::vector<SimStream*> streams;
  for (const auto& stream : at(device).streams) streams.push_back(stream.get());
  return streams;
}

void Devices::drain(int device) {
  for (SimStream* stream : streams(device)) wait_on_host(*record(*stream));
}

std::shared_ptr<StreamEvent> Devices::record(SimStream& stream) {
  backend::StreamChecker::Clock clock;  // taken first: what is queued in between is not covered
  if (backend::StreamChecker* c = checker()) clock = c->record(stream.number());
  auto event = stream.record();
  event->clock = std::move(clock);
  return event;
}

void Devices::synchronize(int device) {
  drain(device);
  std::exception_ptr error;
  for (SimStream* stream : streams(device)) {
    const std::exception_ptr found = stream->take_error();
    if (!error) error = found;
  }
  if (error) std::rethrow_exception(error);
}

backend::StreamChecker* Devices::checker() {
  return checking_.load(std::memory_order_relaxed) ? &checker_ : nullptr;
}

void wait_on_host(StreamEvent& event) {
  event.done.wait(false, std::memory_order_acquire);
  if (backend::StreamChecker* c = Devices::all().checker()) c->wait_on_host(event.clock);
}

}  // namespace brim::sim

namespace brim {

SimOptions sim_options() { return sim::Devices::all().options(); }
void set_sim_options(const SimOptions& options) { sim::Devices::all().set_options(options); }
SimReadings sim_readings(Device device) {
  BRIM_CHECK(device.kind == DeviceKind::sim, DeviceError,
             "[sim] {} is no virtual accelerator; use sim:N", device.str());
  return sim::Devices::all().pacer(device.index).readings();
}

}  // namespace brim
