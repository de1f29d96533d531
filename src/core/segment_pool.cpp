#include "core/segment_pool.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

namespace brim {
namespace {

constexpr size_t kSpare = 8;  // what is never cut serves requests of down to 1/8 less

/// Nothing has to be waited for.
bool is_at_once(const Allocator::Block& block) { return block.uses.empty(); }

}  // namespace

void SegmentPool::insert(Block* block) {
  block->state = Block::joined;
  joined_.emplace(place_of(*block), block);
  if (!is_at_once(*block)) used_.insert(block);
}

void SegmentPool::remove(Block* block) {
  joined_.erase(place_of(*block));
  used_.erase(block);
  block->state = Block::taken;
}

void SegmentPool::count_live(Segment& segment, int change) {
  if (segment.page) return;
  if (segment.live == 0) idle_bytes_ -= segment.capacity;
  segment.live += static_cast<size_t>(change);
  if (segment.live == 0) idle_bytes_ += segment.capacity;
}

void SegmentPool::cut(Block* block, size_t capacity) {
  if (block->is_alone || block->capacity == capacity) return;
  auto* rest = new Block{.data = static_cast<char*>(block->data) + capacity,
                         .capacity = block->capacity - capacity,
                         .stream = block->stream,
                         .uses = block->uses,
                         .segment = block->segment,
                         .left = block,
                         .right = block->right};
  if (rest->right) rest->right->left = rest;
  block->right = rest;
  block->capacity = capacity;
  insert(rest);
}

void SegmentPool::join(Block* left) {
  Block* right = left->right;
  left->capacity += right->capacity;
  left->right = right->right;
  if (left->right) left->right->left = left;
  delete right;
}

SegmentPool::Block* SegmentPool::take_same(const Size& size, bool may_wait) {
  const auto found = fresh_.find(size);
  if (found == fresh_.end()) return nullptr;
  if (Block* block = found->second.take(is_at_once)) return block;
  return may_wait ? found->second.pop() : nullptr;
}

SegmentPool::Block* SegmentPool::take_smallest(const Size& least, bool may_wait) {
  Size beyond = least;
  beyond.capacity = least.is_alone ? least.capacity + least.capacity / kSpare + 1 : SIZE_MAX;
  const auto first = joined_.lower_bound({least, nullptr});
  const auto end = joined_.lower_bound({beyond, nullptr});
  const auto at_once =
      std::find_if(first, end, [](const auto& entry) { return is_at_once(*entry.second); });
  const bool is_as_small = at_once != end && at_once->second->capacity == first->second->capacity;
  const auto at = !may_wait || is_as_small ? at_once : first;
  if (at == end) return nullptr;
  Block* block = at->second;
  remove(block);
  cut(block, least.capacity);
  return block;
}

SegmentPool::Block* SegmentPool::take(size_t capacity, Stream stream, bool alone, bool may_wait,
                                      const IsDone& is_done) {
  const Size size{stream.id, alone, capacity};
  Block* block = take_same(size, may_wait);
  if (!block) {
    join_all(is_done);
    block = take_smallest(size, may_wait);
  }
  if (!block) return nullptr;
  block->state = Block::taken;
  free_bytes_ -= block->capacity;
  count_live(*block->segment, 1);
  return block;
}

SegmentPool::Block* SegmentPool::add(void* data, size_t capacity, Stream stream, bool alone) {
  segments_.push_front({.data = data, .capacity = capacity, .live = 1});
  Segment& segment = segments_.front();
  segment.first = new Block{
      .data = data, .capacity = capacity, .stream = stream, .segment = &segment, .is_alone = alone};
  return segment.first;
}

void SegmentPool::put(Block* block) noexcept {
  count_live(*block->segment, -1);
  free_bytes_ += block->capacity;
  block->state = Block::fresh;
  try {
    fresh_[size_of(*block)].push(block);
  } catch (const std::bad_alloc&) {
    unsorted_.push(block);
  }
}

void SegmentPool::join_all(const IsDone& is_done) {
  // Whoever takes one with uses waits for them: what is free at once stays apart from it.
  const auto is_free_at_once = [&](Block& b) {
    std::erase_if(b.uses, is_done);
    return is_at_once(b);
  };
  std::vector<Block*> done;
  for (Block* block : used_)
    if (is_free_at_once(*block)) done.push_back(block);
  for (Block* block : done) {
    remove(block);
    block->state = Block::fresh;
    fresh_[size_of(*block)].push(block);
  }
  const auto sort_in = [&](BlockStack& blocks) {
    while (Block* block = blocks.pop()) {
      const auto may_join = [&](Block* b) {
        return b && b->state == Block::joined && b->stream == block->stream && is_free_at_once(*b);
      };
      if (is_free_at_once(*block)) {
        if (may_join(block->right)) {
          remove(block->right);
          join(block);
        }
        if (may_join(block->left)) {
          block = block->left;
          remove(block);
          join(block);
        }
      }
      insert(block);
    }
  };
  for (auto& [size, blocks] : fresh_) sort_in(blocks);
  sort_in(unsorted_);
  fresh_.clear();
}

void SegmentPool::give_back(size_t bytes, const Growth& coming, const IsDone& is_done,
                            const GiveBack& give) {
  join_all(is_done);
  size_t given = 0;
  for (auto at = segments_.end(); at != segments_.begin() && given < bytes;) {
    --at;
    if (at->live > 0) continue;
    for (Block* block = at->first; block;) {
      remove(block);
      delete std::exchange(block, block->right);
    }
    given += at->capacity;
    free_bytes_ -= at->capacity;
    idle_bytes_ -= at->capacity;
    (void)give(at->data, at->capacity, /*is_part=*/false);
    at = segments_.erase(at);
  }
  for (Segment& range : range_segments_)
    if (given < bytes) given += give_back_pages(range, bytes - given, coming, give);
}

}  // namespace brim
