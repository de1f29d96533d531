// Storage: from the allocator, from pinned memory, or wrapped.
#include <brim/core/storage.h>

#include <utility>

#include "core/check.h"
#include "core/pinned_memory.h"
#include "core/recording.h"
#include "core/runtime.h"

namespace brim {

thread_local constinit RecordingListener* recording = nullptr;

Ref<Storage> Storage::allocate(size_t bytes, Device device, bool alone) {
  if (recording) [[unlikely]]
    return recording->make_storage(bytes, device);
  Ref<Storage> s(new Storage);
  s->allocator_ = &Allocator::of(device);
  s->block_ = s->allocator_->allocate(bytes, Stream::current(device), alone);
  s->data_ = Allocator::address(s->block_);
  s->bytes_ = bytes;
  s->device_ = device;
  return s;
}

Ref<Storage> Storage::wrap(void* data, size_t bytes, Device device, std::function<void()> release) {
  Ref<Storage> s(new Storage);
  s->data_ = data;
  s->bytes_ = bytes;
  s->device_ = device;
  s->release_ = std::move(release);
  return s;
}

Ref<Storage> Storage::pinned(size_t bytes, DeviceKind kind) {
  Ref<Storage> s(new Storage);
  s->data_ = PinnedMemory::of(kind).allocate(bytes);
  s->bytes_ = bytes;
  s->pinned_for_ = kind;
  return s;
}

void Storage::finish_copies() {
  std::exchange(last_copy, {}).synchronize();
  const Device from = std::exchange(copied_from, {});
  if (!from.is_cpu()) runtime(from.kind).rethrow_deferred(from.index);
}

void Storage::check_computed() const {
  BRIM_CHECK(!uncomputed, CompileError,
             "[compile] a tensor that '{}' made while a step was recorded is used, but no plan "
             "computes it; make it before the first step, or let the step return it",
             uncomputed);
}

void Storage::record_stream(const Stream& stream) {
  refuse_in_recording("record_stream",
                      "a plan orders its streams by itself; mark tensors around the step");
  if (pinned_for_ == stream.device.kind && pinned_for_ != DeviceKind::cpu)
    return;  // copies guard it
  BRIM_CHECK(stream.device == device_, ValueError,
             "[record_stream] a tensor on {} is not used on a stream of {}; copy it there",
             device_.str(), stream.device.str());
  if (block_) allocator_->used_on(block_, stream);
  if (kept_) kept_->record_stream(stream);
}

bool Storage::is_used_elsewhere() const {
  return (block_ && allocator_->is_used_elsewhere(block_)) || (kept_ && kept_->is_used_elsewhere());
}

void Storage::keep_alive(Ref<Storage> memory) { kept_ = std::move(memory); }

Storage::~Storage() {
  if (recorded && recording) [[unlikely]]
    recording->storage_ends(*this);
  if (block_) allocator_->release(block_);
  if (data_ && pinned_for_ != DeviceKind::cpu)
    PinnedMemory::of(pinned_for_).release(data_, bytes_, std::move(last_copy));
  if (release_) release_();
}

}  // namespace brim
