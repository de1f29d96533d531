// Large blocks, cut from segments, which are what the device's runtime gave: a free block is cut to
// what is asked for, and becomes one with its free neighbours. So tensors whose sizes change from
// step to step live in little more memory than they need at once. Blocks are joined when a size is
// asked for that none of them has: steps whose sizes stay cut and join nothing.
//
// A segment has all its memory from the start, or is a stream's range of addresses, which gets
// memory page by page: where no free block is large enough, the one before a gap grows by what is
// missing. Without ranges that takes a segment of the whole size, while free ones lie idle.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <brim/core/allocator.h>
#include <brim/core/stream.h>

namespace brim {

struct Segment;

struct Allocator::Block {
  void* data = nullptr;
  size_t capacity = 0;   // a small one's is its class's size
  size_t requested = 0;  // what the tensor asked for
  int size_class = 0;
  Stream stream;
  std::atomic<bool> has_users = false;
  std::vector<Stream> users;  // streams beside its own that tensors in it were used on
  std::vector<std::shared_ptr<void>> uses;  // of a cached block: events its next use waits for
  Block* previous = nullptr;                // neighbours in the list of live blocks
  Block* next = nullptr;                    // the same, or the next one of a BlockStack
  Segment* segment = nullptr;               // a large one's; null: a small one, by itself
  bool is_alone = false;                    // never cut, in a segment for itself
  enum State : uint8_t {
    taken,
    fresh,   // free, not joined yet
    joined,  // free, and one with its free neighbours
    gap,     // a part of a range that has no memory
  } state = taken;
  Block* left = nullptr;  // neighbours in the segment
  Block* right = nullptr;
};

/// Free blocks, the newest first. To add one takes no memory.
class BlockStack {
 public:
  using Block = Allocator::Block;
  bool empty() const { return top_ == nullptr; }
  void push(Block* block) noexcept { block->next = std::exchange(top_, block); }
  Block* pop() noexcept { return top_ ? std::exchange(top_, top_->next) : nullptr; }
  /// Takes the newest that a predicate holds for; null where there is none.
  template <class Predicate>
  Block* take(const Predicate& serves) {
    for (Block** at = &top_; *at; at = &(*at)->next)
      if (serves(**at)) return std::exchange(*at, (*at)->next);
    return nullptr;
  }

 private:
  Block* top_ = nullptr;
};

struct Segment {
  void* data = nullptr;
  size_t capacity = 0;
  Allocator::Block* first = nullptr;
  size_t live = 0;  // blocks of tensors in it
  size_t page = 0;  // of a range; 0: all of it has memory
  Stream stream;    // of a range
};

/// Not safe by itself: its allocator locks.
class SegmentPool {
 public:
  using Block = Allocator::Block;
  /// Whether what an event stands for is done.
  using IsDone = std::function<bool(const std::shared_ptr<void>& event)>;
  /// `is_part`: of a range. False where that part stays.
  using GiveBack = std::function<bool(void* data, size_t capacity, bool is_part)>;

  static constexpr size_t kGranule = 512;  // bytes that blocks are multiples of

  /// A free block for so many bytes (a multiple of kGranule): the newest of this size, or else the
  /// smallest one, of which the rest stays free; or null. One that was freed on another stream may
  /// still be in use there and does not serve, and where `may_wait` is false none with uses. One
  /// that is alone is an eighth larger at most.
  Block* take(size_t capacity, Stream stream, bool alone, bool may_wait, const IsDone& is_done);
  /// The block that a new segment is at first.
  Block* add(void* data, size_t capacity, Stream stream, bool alone);
  /// Frees a block that take(), add() or grow() gave.
  void put(Block* block) noexcept;

  bool has_range(Stream stream) const { return ranges_.contains(stream.id); }
  size_t ranges() const { return ranges_.size(); }
  void add_range(void* data, size_t capacity, size_t page, Stream stream);
  /// What a range lacks for a block.
  struct Growth {
    Block* gap = nullptr;
    size_t bytes = 0;       // from the gap's begin; 0: the range is too small
    size_t from_right = 0;  // bytes of the block behind the gap; of the one before it all
    /// The first bytes of a free block that become a part of the one that grows.
    size_t takes(const Block* block) const;
  };
  /// The smallest growth that makes a block of so many bytes, behind a take() in vain.
  Growth growth_for(size_t capacity, Stream stream) const;
  /// The block, once the growth has memory.
  Block* grow(const Growth& growth, size_t capacity);

  /// Gives segments without tensors back, the oldest first, then free pages of ranges, until
  /// `bytes` of them are; none that a growth to come takes.
  void give_back(size_t bytes, const Growth& coming, const IsDone& is_done, const GiveBack& give);

  size_t free_bytes() const { return free_bytes_; }
  /// Of them what give_back() can give.
  size_t idle_bytes() const;

 private:
  struct Size {
    int32_t stream;
    bool is_alone;
    size_t capacity;
    auto operator<=>(const Size&) const = default;
  };
  struct HashOfSize {
    size_t operator()(const Size& s) const {
      return (s.capacity / kGranule * 2 + (s.is_alone ? 1 : 0)) ^
             static_cast<size_t>(static_cast<uint32_t>(s.stream)) << 40;
    }
  };
  static Size size_of(const Block& b) { return {b.stream.id, b.is_alone, b.capacity}; }
  /// The order in which a search finds the smallest that serves, and of those the first in memory.
  using Place = std::pair<Size, const void*>;
  static Place place_of(const Block& b) { return {size_of(b), b.data}; }

  Block* take_same(const Size& size, bool may_wait);
  Block* take_smallest(const Size& least, bool may_wait);
  /// Joins free blocks with their free neighbours.
  void join_all(const IsDone& is_done);
  void insert(Block* block);
  void remove(Block* block);
  /// Cuts all but the first `capacity` bytes off; they become a free block.
  void cut(Block* block, size_t capacity);
  /// Makes two neighbours one: the first of them.
  static void join(Block* left);
  void count_live(Segment& segment, int change);
  /// Takes a range's free pages until `bytes` are given; returns how many were.
  size_t give_back_pages(Segment& range, size_t bytes, const Growth& coming, const GiveBack& give);

  std::list<Segment> segments_;                             // the newest first
  std::list<Segment> range_segments_;                       // as they came
  std::unordered_map<int32_t, Segment*> ranges_;            // of these, by stream
  std::unordered_map<Size, BlockStack, HashOfSize> fresh_;  // not joined yet
  BlockStack unsorted_;  // nor these, for which the table above could not grow
  std::map<Place, Block*> joined_;
  std::unordered_set<Block*> used_;  // of these, those with uses when they were last asked
  size_t free_bytes_ = 0;
  size_t idle_bytes_ = 0;  // in segments that hold no tensor
};

}  // namespace brim
