// First fit over a map of gaps, which keeps the used part low and small.
#include "backend/sim/address_space.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace brim::sim {
namespace {

constexpr size_t kGranule = 256;
constexpr size_t kStep = size_t{4} << 20;        // usable memory grows by this much
constexpr size_t kGiveBack = size_t{256} << 10;  // freed ranges from here on return to the system
constexpr size_t kRanges = 4;
constexpr size_t kMaxOfRange = size_t{1} << 40;

size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

char* map_addresses(size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? nullptr : static_cast<char*>(at);
}

}  // namespace

AddressSpace::AddressSpace(size_t capacity) : capacity_(round_up(capacity, kPage)) {
  for (const size_t ranges : {capacity_ <= kMaxOfRange ? kRanges : 0, size_t{0}}) {
    addresses_ = (1 + ranges) * capacity_;
    front_ = map_addresses(addresses_);
    back_ = front_ ? map_addresses(addresses_) : nullptr;
    if (back_) break;
    if (front_) munmap(front_, addresses_);
  }
  if (!back_)
    throw OutOfMemory(
        fmt::format("[sim] no room for {} bytes of addresses; use a smaller BRIM_SIM_MEMORY",
                    capacity_),
        static_cast<int64_t>(capacity_), 0, 0);
  reserved_ = capacity_;
  gaps_[0] = capacity_;
}

AddressSpace::~AddressSpace() {
  munmap(front_, addresses_);
  munmap(back_, addresses_);
}

bool AddressSpace::make_usable(size_t end) {
  if (end <= usable_) return true;
  const size_t upto = std::min(capacity_, round_up(end, kStep));
  if (mprotect(back_ + usable_, upto - usable_, PROT_READ | PROT_WRITE) != 0) return false;
  usable_ = upto;
  return true;
}

void* AddressSpace::allocate(size_t bytes) {
  if (bytes > capacity_) return nullptr;
  bytes = round_up(std::max<size_t>(bytes, 1), kGranule);
  const std::lock_guard lock(mutex_);
  const auto gap = std::find_if(gaps_.begin(), gaps_.end(),
                                [&](const auto& entry) { return entry.second >= bytes; });
  if (gap == gaps_.end() || bytes > capacity_ - taken_ || !make_usable(gap->first + bytes))
    return nullptr;
  const auto [offset, room] = *gap;
  gaps_.erase(gap);
  if (room > bytes) gaps_[offset + bytes] = room - bytes;
  taken_ += bytes;
  return front_ + offset;
}

void AddressSpace::deallocate(void* address, size_t bytes) noexcept {
  bytes = round_up(std::max<size_t>(bytes, 1), kGranule);
  const std::lock_guard lock(mutex_);
  size_t offset = offset_of(address);
  taken_ -= bytes;
  if (bytes >= kGiveBack) {
    const size_t first = round_up(offset, kPage), last = (offset + bytes) / kPage * kPage;
    madvise(back_ + first, last - first, MADV_DONTNEED);  // a hint: failing is harmless
  }
  auto next = gaps_.lower_bound(offset);
  if (next != gaps_.end() && offset + bytes == next->first) {
    bytes += next->second;
    next = gaps_.erase(next);
  }
  if (next != gaps_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      gaps_.erase(before);
    }
  }
  gaps_[offset] = bytes;
}

void* AddressSpace::reserve(size_t bytes) {
  const std::lock_guard lock(mutex_);
  bytes = round_up(bytes, kPage);
  if (bytes > addresses_ - reserved_) return nullptr;
  return front_ + std::exchange(reserved_, reserved_ + bytes);
}

bool AddressSpace::commit(void* address, size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > capacity_ - taken_) return false;
  if (mprotect(back_ + offset_of(address), bytes, PROT_READ | PROT_WRITE) != 0) return false;
  taken_ += bytes;
  return true;
}

void AddressSpace::decommit(void* address, size_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  taken_ -= bytes;
  madvise(back_ + offset_of(address), bytes, MADV_DONTNEED);  // a hint: failing is harmless
}

size_t AddressSpace::free_bytes() const {
  const std::lock_guard lock(mutex_);
  return capacity_ - taken_;
}

}  // namespace brim::sim
