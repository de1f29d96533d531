// Where and how an op's kernel runs: passed explicitly to every internal function.
#pragma once

#include <cstddef>

#include <brim/core/allocator.h>
#include <brim/core/stream.h>

namespace brim {

/// Scratch memory from the device's allocator, given back at the end of the scope.
class Workspace {
 public:
  Workspace(size_t bytes, Stream stream)
      : allocator_(Allocator::of(stream.device)), block_(allocator_.allocate(bytes, stream)) {}
  ~Workspace() { allocator_.release(block_); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  template <class T>
  T* as() const {
    return static_cast<T*>(Allocator::address(block_));
  }

 private:
  Allocator& allocator_;
  Allocator::Block* block_;
};

struct Context {
  Stream stream;

  Device device() const { return stream.device; }
  Workspace workspace(size_t bytes) const { return Workspace(bytes, stream); }

  static Context current(Device device) { return {Stream::current(device)}; }
};

}  // namespace brim
