// Which of the host's memory is page-locked: CUDA copies out of it behind the host's back, where
// Runtime::copy has promised to be done with its source.
#pragma once

#include <cstddef>
#include <iterator>
#include <map>
#include <mutex>

namespace brim::cuda {

/// The host's memory that is page-locked.
class PinnedRanges {
 public:
  void add(const void* data, size_t bytes) {
    const std::lock_guard lock(mutex_);
    bytes_[static_cast<const char*>(data)] = bytes;
  }
  void remove(const void* data) {
    const std::lock_guard lock(mutex_);
    bytes_.erase(static_cast<const char*>(data));
  }
  bool contains(const void* address) {
    const std::lock_guard lock(mutex_);
    const auto after = bytes_.upper_bound(static_cast<const char*>(address));
    if (after == bytes_.begin()) return false;
    const auto& [data, bytes] = *std::prev(after);
    return static_cast<const char*>(address) < data + bytes;
  }

 private:
  std::mutex mutex_;
  std::map<const char*, size_t> bytes_;
};

/// Never destroyed: memory may be given back late.
inline PinnedRanges& pinned_ranges() {
  static auto* all = new PinnedRanges;
  return *all;
}

}  // namespace brim::cuda
