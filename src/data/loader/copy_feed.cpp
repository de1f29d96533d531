// See copy_feed.h.
#include "data/loader/copy_feed.h"

#include <brim/core/sim.h>
#include <brim/ops/create.h>

#include <algorithm>
#include <utility>

#include "backend/launch_policy.h"
#include "diag/span.h"

namespace brim::data {
namespace {

bool works_beside_the_host(Device device) {
  return backend::has_own_kernels(device.kind) ||
         (device.kind == DeviceKind::sim && !sim_options().profile.empty());
}

int64_t full_batch(const Loader& loader) {
  return std::min(loader.options().batch, loader.samples());
}

}  // namespace

CopyFeed::CopyFeed(const Loader& loader, const std::vector<Device>& devices)
    : loader_(loader), layout_{full_batch(loader), loader.raw_shape()} {
  for (const Device device : devices) {
    lanes_.push_back({device, {}});
    if (works_beside_the_host(device)) lanes_.back().copies = Stream::create(device);
    ahead_ = ahead_ || lanes_.back().copies;
  }
  for (Slot& slot : slots_) slot.parts.resize(lanes_.size());
  if (!loader.options().raw) return;
  pictures_.emplace(loader, devices[0]);
  position_ = zeros({2}, {.dtype = DType::i64, .device = devices[0]});
}

void CopyFeed::start(int64_t epoch, int64_t first_batch) {
  const diag::Span span("loader", diag::Cause::input);
  finish();  // its memory serves the next one
  epoch_.emplace(loader_.epoch(epoch, first_batch));
  next_position_ = std::min(first_batch * loader_.options().batch, loader_.samples());
  if (!ahead_) return;
  for (Slot& slot : slots_) make_room(slot);
}

void CopyFeed::finish() {
  epoch_.reset();
  fetched_ = false;
  ready_ = nullptr;
  error_ = nullptr;
  let_go();
}

void CopyFeed::let_go() {
  batch_.x = batch_.y = {};
  for (Batch& part : batch_.parts) part.x = part.y = {};
  if (!current_) return;
  // What is held beyond its turn may be read by work that is queued later still: its memory goes to
  // whoever holds it, and the slot gets another.
  const auto leave = [](Tensor& t) {
    if (t.defined() && t.storage()->use_count() > 1) t = {};
  };
  for (size_t k = 0; k < lanes_.size(); ++k) {
    Part& part = current_->parts[k];
    if (lanes_[k].device.is_cpu())
      part.x = part.y = part.bytes = {};  // the loader's own
    else if (!pictures_)                  // of which bytes were read when they became floats
      part.used.record(Stream::current(lanes_[k].device));
    leave(part.x);
    leave(part.y);
  }
  current_ = nullptr;
}

void CopyFeed::make_room(Slot& slot) {
  const auto count = static_cast<int64_t>(lanes_.size());
  for (size_t k = 0; k < lanes_.size(); ++k)
    if (!lanes_[k].device.is_cpu())
      make_room(lanes_[k], slot.parts[k], (layout_.batch + count - 1) / count);
}

void CopyFeed::make_room(const Lane& lane, Part& part, int64_t samples) {
  bool fresh = false;
  const auto make = [&](Tensor& t, const Shape& shape, DType dtype) {
    if (t.defined() && t.storage()->use_count() == 1) return;
    t = empty(shape, {.dtype = dtype, .device = lane.device});
    fresh = true;
    if (lane.copies) t.record_stream(*lane.copies);
  };
  if (pictures_) {
    make(part.bytes, {layout_.bytes(samples)}, DType::u8);
  } else {
    const ImageShape shape = loader_.sample_shape();
    make(part.x, {samples, shape.channels, shape.height, shape.width}, DType::f32);
    make(part.y, {samples}, DType::i64);
  }
  if (!fresh || !lane.copies) return;
  // The loop's stream may still use what was there before.
  Event made;
  made.record(Stream::current(lane.device));
  made.wait(*lane.copies);
}

Batch* CopyFeed::next_of_loader() {
  const diag::Span span("loader", diag::Cause::input);
  if (!epoch_) return nullptr;
  Batch* batch = nullptr;
  try {
    batch = epoch_->next();
  } catch (...) {
    epoch_.reset();  // it is at its end
    throw;
  }
  return batch;
}

void CopyFeed::copy(const Batch& batch, const Lane& lane, Part& part) {
  const Stream stream = lane.copies.value_or(Stream::current(lane.device));
  const StreamGuard guard(stream);
  part.used.wait(stream);
  if (pictures_) {
    part.bytes.alias(batch.packed.shape(), {1}, 0).copy_(batch.packed);
  } else {
    const int64_t end = part.first + part.count;
    part.x.slice(0, 0, part.count).copy_(batch.x.slice(0, part.first, end));
    part.y.slice(0, 0, part.count).copy_(batch.y.slice(0, part.first, end));
  }
  part.copied.record(stream);
}

void CopyFeed::copy(Batch& batch, Slot& slot) {
  make_room(slot);
  const int64_t n = batch.y.numel(), count = static_cast<int64_t>(lanes_.size());
  int64_t first = 0;
  for (int64_t k = 0; k < count; ++k) {
    const Lane& lane = lanes_[static_cast<size_t>(k)];
    Part& part = slot.parts[static_cast<size_t>(k)];
    part.first = first;
    part.count = n / count + (k < n % count);
    first += part.count;
    if (part.count == 0) continue;
    if (!lane.device.is_cpu()) {
      copy(batch, lane, part);
    } else if (pictures_) {
      part.bytes = batch.packed;
    } else {
      part.x = batch.x.slice(0, part.first, first);
      part.y = batch.y.slice(0, part.first, first);
    }
  }
  slot.index = batch.index;
  slot.samples.swap(batch.samples);
}

void CopyFeed::fetch() {
  fetched_ = true;
  ready_ = nullptr;
  try {
    Batch* const batch = next_of_loader();
    if (!batch) return;
    Slot& slot = slots_[turn_];
    copy(*batch, slot);
    ready_ = &slot;
    if (ahead_) turn_ = 1 - turn_;
  } catch (...) {
    epoch_.reset();
    throw;
  }
}

void CopyFeed::open(const Lane& lane, Part& part, Batch& batch) {
  const int64_t n = part.count;
  const Stream stream = Stream::current(lane.device);
  if (!lane.device.is_cpu()) {
    part.copied.wait(stream);
    for (const Tensor* t : {&part.x, &part.y, &part.bytes})
      if (t->defined()) t->record_stream(stream);
  }
  if (!pictures_) {  // fresh handles: what the loop does to them ends with the batch
    batch.x = part.x.slice(0, 0, n);
    batch.y = part.y.slice(0, 0, n);
    return;
  }
  pictures_->make(layout_.pixels(part.bytes, n), layout_.labels(part.bytes, n),
                  layout_.windows(part.bytes, n), position_, n, 0, batch);
  part.used.record(stream);
}

Batch* CopyFeed::open(Slot& slot) {
  current_ = &slot;
  count_skipped(slot.index, slot.samples.size());
  batch_.index = slot.index;
  batch_.samples.swap(slot.samples);
  if (lanes_.size() == 1) {
    open(lanes_[0], slot.parts[0], batch_);
    return &batch_;
  }
  batch_.parts.clear();
  for (size_t k = 0; k < lanes_.size() && slot.parts[k].count > 0; ++k) {
    Part& part = slot.parts[k];
    Batch& to = batch_.parts.emplace_back();
    to.index = slot.index;
    const auto first = batch_.samples.begin() + part.first;
    to.samples.assign(first, first + part.count);
    open(lanes_[k], part, to);
  }
  return &batch_;
}

void CopyFeed::count_skipped(int64_t batch, size_t samples) {
  const int64_t end = std::min((batch + 1) * loader_.options().batch, loader_.samples());
  skipped_ += end - next_position_ - static_cast<int64_t>(samples);
  next_position_ = end;
}

void CopyFeed::count_skipped_at_end() {
  if (!epoch_) return;  // it ended with an error
  skipped_ += loader_.samples() - next_position_;
  next_position_ = loader_.samples();
}

Batch* CopyFeed::next() {
  let_go();
  if (lanes_.size() == 1 && lanes_[0].device.is_cpu() && !pictures_) {
    Batch* const batch = next_of_loader();
    batch ? count_skipped(batch->index, batch->samples.size()) : count_skipped_at_end();
    return batch;
  }
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  if (!fetched_) fetch();
  fetched_ = false;
  Slot* const slot = std::exchange(ready_, nullptr);
  if (!slot) {
    count_skipped_at_end();
    return nullptr;
  }
  Batch* batch = nullptr;
  try {
    batch = open(*slot);
  } catch (...) {  // the epoch is at its end, so that no batch is missing in its middle
    epoch_.reset();
    current_ = nullptr;
    throw;
  }
  if (ahead_ && epoch_ && epoch_->ready()) prefetch();
  return batch;
}

void CopyFeed::prefetch() {
  if (!ahead_ || !epoch_ || fetched_ || error_) return;
  try {
    fetch();
  } catch (...) {
    error_ = std::current_exception();
  }
}

}  // namespace brim::data
