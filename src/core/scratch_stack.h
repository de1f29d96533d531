// The scratch memory of a plan's kernels: one block, taken and given back like a stack.
#pragma once

#include <algorithm>
#include <cstddef>

namespace brim {

class ScratchStack {
 public:
  /// Memory for later calls of take(); its owner keeps it alive. Call while nothing is taken.
  void rebind(void* data, size_t bytes) {
    data_ = static_cast<char*>(data);
    bytes_ = bytes;
  }
  /// Aligned as the block is, up to 256 bytes, which NVIDIA's libraries want; or null where the
  /// block is too small. Either way give_back() follows.
  void* take(size_t bytes) {
    const size_t at = used_;
    max_before_ = max_;
    used_ += rounded(bytes);
    max_ = std::max(max_, used_);
    return used_ <= bytes_ ? data_ + at : nullptr;
  }
  void give_back(size_t bytes) { used_ -= rounded(bytes); }
  /// In place of give_back(), right behind take(): there is no such memory, so nobody wants it.
  void take_back(size_t bytes) {
    give_back(bytes);
    max_ = max_before_;
  }
  size_t bytes() const { return bytes_; }
  size_t max_bytes() const { return max_; }  ///< bytes that were wanted at one time

 private:
  static size_t rounded(size_t bytes) { return (bytes + 255) / 256 * 256; }
  char* data_ = nullptr;
  size_t bytes_ = 0, used_ = 0, max_ = 0, max_before_ = 0;
};

}  // namespace brim
