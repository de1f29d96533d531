// See copy_feed.h.
#include "data/loader/copy_feed.h"

#include <brim/core/sim.h>
#include <brim/ops/create.h>

#include <algorithm>
#include <utility>

#include "backend/launch_policy.h"
#include "core/check.h"
#include "data/loader/batch_fields.h"
#include "diag/span.h"

namespace brim::data {
namespace {

bool works_beside_the_host(Device device) {
  return backend::has_own_kernels(device.kind) ||
         (device.kind == DeviceKind::sim && !sim_options().profile.empty());
}

}  // namespace

CopyFeed::CopyFeed(const Loader& loader, const std::vector<Device>& devices)
    : loader_(loader),
      full_batch_(loader.is_iterable() ? loader.options().batch
                                       : std::min(loader.options().batch, loader.samples())),
      layout_{full_batch_, loader.options().raw ? loader.raw_shape() : ImageShape{}} {
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
  counted_ = 0;
}

void CopyFeed::finish() {
  epoch_.reset();
  fetched_ = false;
  ready_ = nullptr;
  error_ = nullptr;
  let_go();
}

void CopyFeed::let_go() {
  FieldWriter(batch_).finish();
  for (Batch& part : batch_.parts) FieldWriter(part).finish();
  if (!current_) return;
  // What is held beyond its turn may be read by work that is queued later still: its memory goes to
  // whoever holds it, and the slot gets another.
  const auto leave = [](Tensor& t) {
    if (t.defined() && t.storage()->use_count() > 1) t = {};
  };
  for (size_t k = 0; k < lanes_.size(); ++k) {
    Part& part = current_->parts[k];
    if (lanes_[k].device.is_cpu()) {  // the loader's own
      part.fields.clear();
      part.bytes = {};
    } else if (!pictures_) {  // of which bytes were read when they became floats
      part.used.record(Stream::current(lanes_[k].device));
    }
    for (Field& field : part.fields) leave(field.memory);
  }
  current_ = nullptr;
}

int64_t CopyFeed::capacity_for(int64_t numel, const Part& part) const {
  // The next batch may be somewhat longer; stacked ones have rows of one size.
  if (loader_.options().collate) return numel + numel / 8;
  const auto lanes = static_cast<int64_t>(lanes_.size());
  return numel / part.count * std::max(part.count, (full_batch_ + lanes - 1) / lanes);
}

void CopyFeed::make_room(const Lane& lane, Tensor& memory, int64_t numel, DType dtype) {
  if (memory.defined() && memory.storage()->use_count() == 1 && memory.dtype() == dtype &&
      memory.numel() >= numel)
    return;
  memory = {};
  memory = empty({numel}, {.dtype = dtype, .device = lane.device});
  if (!lane.copies) return;
  memory.record_stream(*lane.copies);
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

void CopyFeed::make_room(const Batch& batch, const Lane& lane, Part& part) {
  if (pictures_) return make_room(lane, part.bytes, layout_.bytes(layout_.batch), DType::u8);
  size_t k = 0;
  for_each_field(batch, [&](std::string_view name, const Tensor& from) {
    if (k == part.fields.size()) part.fields.emplace_back();
    Field& field = part.fields[k++];
    field.name = name;
    field.shape = part_of(from, batch, part).shape();
    const int64_t numel = field.shape.numel();
    make_room(lane, field.memory, std::max(numel, capacity_for(numel, part)), from.dtype());
  });
  part.fields.resize(k);
}

void CopyFeed::copy(const Batch& batch, const Lane& lane, Part& part) {
  const Stream stream = lane.copies.value_or(Stream::current(lane.device));
  make_room(batch, lane, part);
  const StreamGuard guard(stream);
  part.used.wait(stream);
  if (pictures_) {
    part.bytes.alias(batch.packed.shape(), {1}, 0).copy_(batch.packed);
  } else {
    size_t k = 0;
    for_each_field(batch, [&](std::string_view, const Tensor& from) {
      part.fields[k++].view().copy_(part_of(from, batch, part));
    });
  }
  part.copied.record(stream);
}

Tensor CopyFeed::part_of(const Tensor& tensor, const Batch& batch, const Part& part) const {
  if (lanes_.size() == 1) return tensor;
  const auto n = static_cast<int64_t>(batch.samples.size());
  BRIM_CHECK(tensor.rank() > 0 && tensor.size(0) == n, ShapeError,
             "[loader] a tensor of {} for {} samples: devices share a batch by its rows, so give "
             "them stacked or padded ones",
             tensor.shape().str(), n);
  return tensor.slice(0, part.first, part.first + part.count);
}

void CopyFeed::copy(Batch& batch, Slot& slot) {
  const auto n = static_cast<int64_t>(batch.samples.size());
  const auto count = static_cast<int64_t>(lanes_.size());
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
      // The memory of the next one is there from the start: a plan that is made meanwhile counts
      // it.
      Part& next = slots_[1 - turn_].parts[static_cast<size_t>(k)];
      if (lane.copies && next.fields.empty() && !next.bytes.defined()) {
        next.first = part.first;
        next.count = part.count;
        try {
          make_room(batch, lane, next);
        } catch (const OutOfMemory&) {  // there may be no next batch
          next.fields.clear();
        }
      }
    } else if (pictures_) {
      part.bytes = batch.packed;
    } else {
      part.fields.clear();
      for_each_field(batch, [&](std::string_view name, const Tensor& from) {
        const Tensor view = part_of(from, batch, part);
        part.fields.push_back({std::string(name), view, view.shape()});
      });
    }
  }
  slot.index = batch.index;
  slot.skipped = epoch_->skipped();
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
    if (part.bytes.defined()) part.bytes.record_stream(stream);
    for (const Field& field : part.fields) field.memory.record_stream(stream);
  }
  if (!pictures_) {  // fresh handles: what the loop does to them ends with the batch
    FieldWriter fields(batch);
    for (const Field& field : part.fields) fields.put(field.name, field.view());
    fields.finish();
    return;
  }
  pictures_->make(layout_.pixels(part.bytes, n), layout_.labels(part.bytes, n),
                  layout_.windows(part.bytes, n), position_, n, 0, batch);
  part.used.record(stream);
}

Batch* CopyFeed::open(Slot& slot) {
  current_ = &slot;
  count_skipped(slot.skipped);
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

void CopyFeed::count_skipped(int64_t in_epoch) {
  skipped_ += in_epoch - counted_;
  counted_ = in_epoch;
}

Batch* CopyFeed::next() {
  let_go();
  if (lanes_.size() == 1 && lanes_[0].device.is_cpu() && !pictures_) {
    Batch* const batch = next_of_loader();
    if (epoch_) count_skipped(epoch_->skipped());
    return batch;
  }
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  if (!fetched_) fetch();
  fetched_ = false;
  Slot* const slot = std::exchange(ready_, nullptr);
  if (!slot) {
    if (epoch_) count_skipped(epoch_->skipped());
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
