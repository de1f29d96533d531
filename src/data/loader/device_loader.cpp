// DeviceLoader: chooses how a loader's batches come to the devices, and keeps epochs apart.
#include <brim/data/device_loader.h>

#include <algorithm>
#include <utility>

#include "backend/launch_policy.h"
#include "core/check.h"
#include "core/device_names.h"
#include "core/runtime.h"
#include "data/loader/copy_feed.h"
#include "data/loader/loop_watch.h"
#include "data/loader/resident_feed.h"

namespace brim::data {
namespace {

bool augments_on_device(const Loader& loader, const std::vector<Device>& devices,
                        const DeviceLoaderOptions& options) {
  if (options.resident || options.augment_on == AugmentOn::device) return true;
  if (!loader.has_pictures() || options.augment_on == AugmentOn::host || devices.size() > 1)
    return false;
  if (loader.options().collate && options.augment_on == AugmentOn::automatic) return false;
  return loader.options().raw ||
         (backend::has_own_kernels(devices[0].kind) && loader.raw_shape() != ImageShape{});
}

/// Where copies to `devices` start from; the memory of the CPU is good for itself.
Device target_of(const std::vector<Device>& devices) {
  const auto at = std::ranges::find_if(devices, [](Device device) { return !device.is_cpu(); });
  return at == devices.end() ? Device::cpu() : *at;
}

Loader place(const Loader& loader, const std::vector<Device>& devices,
             const DeviceLoaderOptions& options) {
  BRIM_CHECK(!devices.empty(), ValueError, "[loader] no device; name one or more");
  for (const Device device : devices) check_available(device);
  BRIM_CHECK(
      loader.has_pictures() || (!options.resident && options.augment_on != AugmentOn::device),
      ValueError,
      "[loader] pictures with labels can lie on the device and be augmented there, other "
      "data sets not; leave `resident` and AugmentOn::device out");
  BRIM_CHECK(devices.size() == 1 || options.augment_on != AugmentOn::device, ValueError,
             "[loader] pictures are augmented on one device, not on {}; choose AugmentOn::host",
             names_of(devices));
  BRIM_CHECK(devices.size() == 1 || !options.resident, ValueError,
             "[loader] the data can lie on one device, not on {}; leave `resident` out",
             names_of(devices));
  BRIM_CHECK(options.augment_on != AugmentOn::host || !options.resident, ValueError,
             "[loader] data on the device is augmented there; leave AugmentOn::host out");
  const Device target = target_of(devices);
  return loader.placed(target.is_cpu() ? loader.options().target : target,
                       augments_on_device(loader, devices, options));
}

}  // namespace

struct DeviceLoader::State {
  State(const Loader& from, std::vector<Device> to, const DeviceLoaderOptions& options)
      : devices(std::move(to)), loader(place(from, devices, options)) {
    const LoaderCall call;  // data that is resident is read now
    if (options.resident)
      feed = std::make_unique<ResidentFeed>(loader, devices[0], options.progress);
    else
      feed = std::make_unique<CopyFeed>(loader, devices);
  }

  const std::vector<Device> devices;
  const Loader loader;
  std::unique_ptr<DeviceFeed> feed;
  int64_t next_epoch = 0;
  int64_t running = 0;  // number of the epoch that may use the feed, counted as they begin
};

/// An epoch's hold on the loader, which may end before it.
struct DeviceEpoch::Link {
  std::shared_ptr<DeviceLoader::State> loader;
  int64_t number;

  DeviceFeed& feed() const {
    BRIM_CHECK(loader->running == number, ValueError,
               "[loader] this epoch ended when the next one of its DeviceLoader began; to run two "
               "at a time, make two");
    return *loader->feed;
  }
};

DeviceEpoch::DeviceEpoch(std::unique_ptr<Link> link) : link_(std::move(link)) {}
DeviceEpoch::DeviceEpoch(DeviceEpoch&&) noexcept = default;
DeviceEpoch::~DeviceEpoch() { end_it(); }

DeviceEpoch& DeviceEpoch::operator=(DeviceEpoch&& other) noexcept {
  if (this == &other) return *this;
  end_it();
  link_ = std::move(other.link_);
  return *this;
}

void DeviceEpoch::end_it() noexcept {
  if (!link_ || link_->loader->running != link_->number) return;
  try {
    link_->feed().finish();
  } catch (...) {  // of a device that failed; whoever waits for it is told
  }
}

Batch* DeviceEpoch::next() {
  DeviceLoader::State& from = *link_->loader;
  LoaderCall call(from.devices, &from, &from.loader);
  Batch* const batch = link_->feed().next();
  call.took(batch ? 1 : 0);
  return batch;
}

void DeviceEpoch::prefetch() {
  const LoaderCall call;
  link_->feed().prefetch();
}

bool DeviceEpoch::take(int64_t count) {
  BRIM_CHECK(count >= 1, ValueError, "[loader] {} batches cannot be taken; ask for 1 or more",
             count);
  DeviceLoader::State& from = *link_->loader;
  LoaderCall call(from.devices, &from, &from.loader);
  const bool taken = link_->feed().take(count);
  call.took(taken ? count : 0);
  return taken;
}

DeviceLoader::DeviceLoader(const Loader& loader, Device device, const DeviceLoaderOptions& options)
    : DeviceLoader(loader, std::vector<Device>{device}, options) {}

DeviceLoader::DeviceLoader(const Loader& loader, std::vector<Device> devices,
                           const DeviceLoaderOptions& options)
    : state_(std::make_shared<State>(loader, std::move(devices), options)) {}

DeviceLoader::DeviceLoader(DeviceLoader&&) noexcept = default;
DeviceLoader& DeviceLoader::operator=(DeviceLoader&&) noexcept = default;
DeviceLoader::~DeviceLoader() = default;

DeviceEpoch DeviceLoader::epoch(int64_t epoch, int64_t first_batch) {
  State& s = *state_;
  const LoaderCall call(s.devices, &s, nullptr);
  ++s.running;
  s.feed->start(epoch, first_batch);
  s.next_epoch = epoch + 1;
  return DeviceEpoch(std::make_unique<DeviceEpoch::Link>(DeviceEpoch::Link{state_, s.running}));
}

DeviceEpoch::Iterator DeviceLoader::begin() {
  return DeviceEpoch::Iterator(epoch(state_->next_epoch));
}

Batch DeviceLoader::next_in_step() {
  BRIM_CHECK(state_->feed->resident_bytes() > 0, ValueError,
             "[loader] batches are made within a step where the data lies on the device; set "
             "DeviceLoaderOptions::resident");
  return state_->feed->next_in_step();
}

const Loader& DeviceLoader::loader() const { return state_->loader; }
const std::vector<Device>& DeviceLoader::devices() const { return state_->devices; }
int64_t DeviceLoader::resident_bytes() const { return state_->feed->resident_bytes(); }
int64_t DeviceLoader::skipped() const { return state_->feed->skipped(); }

std::string DeviceLoader::describe() const {
  const State& s = *state_;
  const std::string device = names_of(s.devices);
  if (const int64_t bytes = resident_bytes(); bytes > 0)
    return fmt::format("{} pictures ({} bytes) on {}, augmented there", s.loader.source().size(),
                       bytes, device);
  if (!s.loader.has_pictures()) return fmt::format("samples from the host to {}", device);
  if (s.loader.options().raw) return fmt::format("pictures as bytes, augmented on {}", device);
  return "pictures as floats, augmented on the host";
}

}  // namespace brim::data
