// Ranges of addresses: blocks of one without memory are gaps, which begin and end with pages.
#include <algorithm>
#include <cstdint>

#include "core/segment_pool.h"

namespace brim {
namespace {

using Block = Allocator::Block;

uintptr_t begin_of(const Block& block) { return reinterpret_cast<uintptr_t>(block.data); }
uintptr_t end_of(const Block& block) { return begin_of(block) + block.capacity; }

/// The whole pages in a block.
struct Pages {
  uintptr_t begin = 0, end = 0;
  size_t bytes() const { return end > begin ? end - begin : 0; }
};
Pages pages_of(uintptr_t begin, uintptr_t end, size_t page) {
  return {(begin + page - 1) / page * page, end / page * page};
}

/// The bytes of a neighbour that a growing block has already.
size_t joinable(const Block* block, Stream stream) {
  const bool serves = block && block->state == Block::joined && block->uses.empty();
  return serves && block->stream == stream ? block->capacity : 0;
}

}  // namespace

void SegmentPool::add_range(void* data, size_t capacity, size_t page, Stream stream) {
  Segment& range = range_segments_.emplace_back(
      Segment{.data = data, .capacity = capacity, .page = page, .stream = stream});
  range.first = new Block{
      .data = data, .capacity = capacity, .stream = stream, .segment = &range, .state = Block::gap};
  ranges_[stream.id] = &range;
}

size_t SegmentPool::Growth::takes(const Block* block) const {
  if (!gap) return 0;
  return block->right == gap ? block->capacity : block->left == gap ? from_right : 0;
}

SegmentPool::Growth SegmentPool::growth_for(size_t capacity, Stream stream) const {
  Growth least;
  const auto range = ranges_.find(stream.id);
  if (range == ranges_.end()) return least;
  const size_t page = range->second->page;
  for (Block* gap = range->second->first; gap; gap = gap->right) {
    if (gap->state != Block::gap) continue;
    const size_t before = joinable(gap->left, stream);
    if (before >= capacity) continue;  // it waits for something
    size_t bytes = (capacity - before + page - 1) / page * page;
    size_t from_right = 0;
    if (bytes > gap->capacity) {
      bytes = gap->capacity;
      from_right = capacity - before - bytes;
      if (joinable(gap->right, stream) < from_right) continue;
    }
    if (!least.gap || bytes < least.bytes) least = {gap, bytes, from_right};
  }
  return least;
}

SegmentPool::Block* SegmentPool::grow(const Growth& growth, size_t capacity) {
  Block* block = growth.gap;
  const Stream stream = block->stream;
  if (growth.bytes < block->capacity) {
    auto* rest = new Block{.data = static_cast<char*>(block->data) + growth.bytes,
                           .capacity = block->capacity - growth.bytes,
                           .stream = stream,
                           .segment = block->segment,
                           .state = Block::gap,
                           .left = block,
                           .right = block->right};
    if (rest->right) rest->right->left = rest;
    block->right = rest;
    block->capacity = growth.bytes;
  }
  free_bytes_ += growth.bytes;
  block->state = Block::taken;
  if (joinable(block->right, stream)) {
    remove(block->right);
    join(block);
  }
  if (joinable(block->left, stream)) {
    block = block->left;
    remove(block);
    join(block);
  }
  cut(block, capacity);
  free_bytes_ -= capacity;
  return block;
}

size_t SegmentPool::give_back_pages(Segment& range, size_t bytes, const Growth& coming,
                                    const GiveBack& give) {
  Block* block = range.first;
  for (; block->right; block = block->right) {
    // Memory is given back once nobody uses it: what the blocks wait for keeps none apart.
    const auto is_like = [&](const Block* b) {
      return b->state == Block::joined && b->stream == block->stream && coming.takes(b) == 0;
    };
    while (is_like(block) && block->right && is_like(block->right)) {
      remove(block);
      remove(block->right);
      block->uses.insert(block->uses.end(), block->right->uses.begin(), block->right->uses.end());
      join(block);
      insert(block);
    }
    if (!block->right) break;
  }
  size_t given = 0;
  for (; block && given < bytes; block = block->left) {
    if (block->state != Block::joined) continue;
    const uintptr_t begin = begin_of(*block) + coming.takes(block);
    const Pages pages = pages_of(begin, end_of(*block), range.page);
    if (pages.bytes() == 0) continue;
    if (!give(reinterpret_cast<void*>(pages.begin), pages.bytes(), /*is_part=*/true)) break;
    remove(block);
    const size_t before = pages.begin - begin_of(*block);
    if (before > 0) {
      cut(block, before);  // the rest is free
      insert(block);
      block = block->right;
      remove(block);
    }
    cut(block, pages.bytes());
    block->state = Block::gap;
    block->uses.clear();
    block->stream = range.stream;
    given += pages.bytes();
    free_bytes_ -= pages.bytes();
    if (block->right && block->right->state == Block::gap) join(block);
    if (block->left && block->left->state == Block::gap) {
      block = block->left;
      join(block);
    }
  }
  return given;
}

size_t SegmentPool::idle_bytes() const {
  size_t idle = idle_bytes_;
  for (const Segment& range : range_segments_) {
    uintptr_t free_from = 0;  // of neighbours that are free and of one stream
    for (const Block* block = range.first; block; block = block->right) {
      if (block->state != Block::fresh && block->state != Block::joined) continue;
      if (free_from == 0) free_from = begin_of(*block);
      const Block* right = block->right;
      const bool goes_on = right && right->stream == block->stream &&
                           (right->state == Block::fresh || right->state == Block::joined);
      if (goes_on) continue;
      idle += pages_of(free_from, end_of(*block), range.page).bytes();
      free_from = 0;
    }
  }
  return idle;
}

}  // namespace brim
