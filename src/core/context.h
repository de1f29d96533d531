// Where and how an op's kernel runs: passed explicitly to every internal function.
#pragma once

#include <cstddef>

#include <brim/core/allocator.h>
#include <brim/core/stream.h>

#include "core/scratch_stack.h"

namespace brim {

/// Scratch memory, given back at the end of the scope: from a plan's own where there is one and it
/// is large enough, else from the device's allocator. Taken by the thread that runs the kernel, not
/// inside parallel loops.
class Workspace {
 public:
  Workspace(size_t bytes, Stream stream, ScratchStack* scratch) : scratch_(scratch), bytes_(bytes) {
    if (scratch_) data_ = scratch_->take(bytes);
    if (data_) return;
    allocator_ = &Allocator::of(stream.device);
    try {
      block_ = allocator_->allocate(bytes, stream);
    } catch (...) {
      if (scratch_) scratch_->take_back(bytes);
      throw;
    }
    data_ = Allocator::address(block_);
  }
  ~Workspace() {
    if (block_) allocator_->release(block_);
    if (scratch_) scratch_->give_back(bytes_);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  ScratchStack* scratch_;
  size_t bytes_;
  void* data_ = nullptr;
  Allocator* allocator_ = nullptr;
  Allocator::Block* block_ = nullptr;
};

struct Context {
  Stream stream;
  ScratchStack* scratch = nullptr;  // of the plan that runs

  Device device() const { return stream.device; }
  Workspace workspace(size_t bytes) const { return Workspace(bytes, stream, scratch); }

  static Context current(Device device) { return {Stream::current(device)}; }
};

}  // namespace brim
