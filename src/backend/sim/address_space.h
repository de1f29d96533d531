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

  static constexpr size_t kPage = 4096;
  /// A range as large as the device, without memory; null when there are no more.
  void* reserve(size_t bytes);
  /// Gives a part of it memory; false when there is too little.
  bool commit(void* address, size_t bytes);
  void decommit(void* address, size_t bytes) noexcept;

  size_t capacity() const { return capacity_; }
  size_t free_bytes() const;
  /// Where the bytes of a device address really are. For the device's own threads.
  void* translate(const void* address) const {
    return back_ + (static_cast<const char*>(address) - front_);
  }

 private:
  bool make_usable(size_t end);
  size_t offset_of(const void* address) const {
    return static_cast<size_t>(static_cast<const char*>(address) - front_);
  }

  size_t capacity_;
  size_t addresses_ = 0;   // a capacity for allocate(), and one for each range
  char* front_ = nullptr;  // what tensors see: no access
  char* back_ = nullptr;   // the bytes, readable below usable_
  mutable std::mutex mutex_;
  size_t usable_ = 0;    // of the first capacity
  size_t reserved_ = 0;  // ends of ranges lie below
  size_t taken_ = 0;
  std::map<size_t, size_t> gaps_;  // offset -> bytes
};

}  // namespace brim::sim
