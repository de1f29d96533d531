// The memory of one virtual accelerator. Its addresses lie in a range that nobody may touch, so a
// host that reads one crashes as it would on a GPU; the bytes themselves lie elsewhere.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace brim::sim {

class AddressSpace {
 public:
  /// Throws OutOfMemory when the process has no room for so many addresses.
  explicit AddressSpace(size_t capacity);
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  /// A device address, aligned to 256 bytes, or null when no gap is large enough.
  void* allocate(size_t bytes);
  void deallocate(void* address, size_t bytes) noexcept;

  size_t capacity() const { return capacity_; }
  size_t free_bytes() const;
  /// Where the bytes of a device address really are. For the device's own threads.
  void* translate(const void* address) const {
    return back_ + (static_cast<const char*>(address) - front_);
  }

 private:
  bool make_usable(size_t end);

  size_t capacity_;
  char* front_ = nullptr;  // what tensors see: no access
  char* back_ = nullptr;   // the bytes, readable below usable_
  mutable std::mutex mutex_;
  size_t usable_ = 0;
  size_t taken_ = 0;
  std::map<size_t, size_t> gaps_;  // offset -> bytes
};

}  // namespace brim::sim
