// See device_feed.h.
#include "train/device_feed.h"

#include <brim/core/sim.h>
#include <brim/ops/create.h>

#include <algorithm>
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
  if (!loader.options().raw) return;
  layout_ = {std::min(loader.options().batch, loader.samples()), loader.raw_shape()};
  pictures_.emplace(loader, device);
  position_ = zeros({2}, {.dtype = DType::i64, .device = device});
}

void DeviceFeed::start(int64_t epoch, int64_t first_batch) {
  const diag::Span span("loader", diag::Cause::input);
  finish();  // its memory serves the next one
  epoch_.emplace(loader_.epoch(epoch, first_batch));
}

void DeviceFeed::finish() {
  note_used();
  epoch_.reset();
  fetched_ = false;
  ready_ = current_ = nullptr;
  error_ = nullptr;
}

void DeviceFeed::note_used() {
  // A raw slot was read when its batch was made.
  if (current_ && !pictures_) current_->used.record(Stream::current(device_));
}

const data::Batch* DeviceFeed::take() {
  const diag::Span span("loader", diag::Cause::input);
  return epoch_->next();
}

void DeviceFeed::copy(const data::Batch& batch, Slot& slot) {
  slot.batch.index = batch.index;
  slot.batch.samples = batch.samples;
  slot.count = batch.y.numel();
  if (!pictures_) {
    copy_into(slot.batch.x, batch.x, device_);
    copy_into(slot.batch.y, batch.y, device_);
  } else if (device_.is_cpu()) {
    slot.bytes = batch.packed;
  } else {
    if (!slot.bytes.defined())
      slot.bytes = empty({layout_.bytes(layout_.batch)}, {.dtype = DType::u8, .device = device_});
    slot.bytes.alias(batch.packed.shape(), {1}, 0).copy_(batch.packed);
  }
}

const data::Batch* DeviceFeed::open(Slot& slot) {
  if (!pictures_) return &slot.batch;
  const int64_t n = slot.count;
  (void)pictures_->make(layout_.pixels(slot.bytes, n), layout_.labels(slot.bytes, n),
                        layout_.windows(slot.bytes, n), position_, n);
  if (device_.is_cpu()) slot.bytes = {};  // the loader's own
  data::Batch& batch = pictures_->batch();
  batch.index = slot.batch.index;
  batch.samples.swap(slot.batch.samples);
  return &batch;
}

void DeviceFeed::fetch() {
  const data::Batch* const batch = take();
  fetched_ = true;
  ready_ = nullptr;
  skipped_ahead_ = loader_.skipped();
  if (!batch) return;
  Slot& slot = slots_[turn_];
  turn_ = 1 - turn_;
  const StreamGuard guard(*copies_);
  slot.used.wait(*copies_);
  copy(*batch, slot);
  slot.copied.record(*copies_);
  ready_ = &slot;
}

const data::Batch* DeviceFeed::next() {
  if (!copies_) {
    const data::Batch* const batch = take();
    skipped_ = loader_.skipped();
    if (!batch || (device_.is_cpu() && !pictures_)) return batch;
    copy(*batch, slots_[0]);
    return open(slots_[0]);
  }
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  if (!fetched_) fetch();
  fetched_ = false;
  skipped_ = skipped_ahead_;
  current_ = std::exchange(ready_, nullptr);
  if (!current_) return nullptr;
  const Stream stream = Stream::current(device_);
  current_->copied.wait(stream);
  const data::Batch* const batch = open(*current_);
  if (pictures_) current_->used.record(stream);
  return batch;
}

void DeviceFeed::ahead() {
  if (!copies_) return;
  note_used();
  try {
    fetch();
  } catch (...) {
    error_ = std::current_exception();
  }
}

}  // namespace brim::train
