// See device_feed.h.
#include "train/device_feed.h"

#include <brim/core/sim.h>
#include <brim/ops/create.h>

#include <utility>

#include "diag/span.h"

namespace brim::train {
namespace {

/// `to` becomes a copy of `from` on the device, in the memory it has where that fits.
void copy_into(Tensor& to, const Tensor& from, Device device) {
  if (!to.defined() || to.shape() != from.shape() || to.dtype() != from.dtype())
    to = empty(from.shape(), {.dtype = from.dtype(), .device = device});
  to.copy_(from);
}

bool works_beside_the_host(Device device) {
  return device.kind == DeviceKind::cuda ||
         (device.kind == DeviceKind::sim && !sim_options().profile.empty());
}

}  // namespace

DeviceFeed::DeviceFeed(data::Loader& loader, Device device) : loader_(loader), device_(device) {
  if (works_beside_the_host(device)) copies_ = Stream::create(device);
}

void DeviceFeed::fetch(data::Epoch& epoch) {
  const data::Batch* batch = nullptr;
  {
    const diag::Span span("loader", diag::Cause::input);
    batch = epoch.next();
  }
  fetched_ = true;
  ready_ = nullptr;
  skipped_ahead_ = loader_.skipped();
  if (!batch) return;
  Slot& slot = slots_[turn_];
  turn_ = 1 - turn_;
  const StreamGuard guard(*copies_);
  slot.used.wait(*copies_);
  copy_into(slot.batch.x, batch->x, device_);
  copy_into(slot.batch.y, batch->y, device_);
  slot.copied.record(*copies_);
  slot.batch.index = batch->index;
  slot.batch.samples = batch->samples;
  ready_ = &slot;
}

const data::Batch* DeviceFeed::next(data::Epoch& epoch) {
  if (!copies_) {
    const data::Batch* batch = nullptr;
    {
      const diag::Span span("loader", diag::Cause::input);
      batch = epoch.next();
    }
    skipped_ = loader_.skipped();
    if (!batch || device_.is_cpu()) return batch;
    slots_[0].batch = {batch->x.to(device_), batch->y.to(device_), batch->index, batch->samples};
    return &slots_[0].batch;
  }
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  if (!fetched_) fetch(epoch);
  fetched_ = false;
  skipped_ = skipped_ahead_;
  current_ = std::exchange(ready_, nullptr);
  if (!current_) return nullptr;
  current_->copied.wait(Stream::current(device_));
  return &current_->batch;
}

void DeviceFeed::ahead(data::Epoch& epoch) {
  if (!copies_) return;
  if (current_) current_->used.record(Stream::current(device_));
  try {
    fetch(epoch);
  } catch (...) {
    error_ = std::current_exception();
  }
}

}  // namespace brim::train
