#include "plan/memory.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <unordered_map>

#include "backend/fused/chain.h"
#include "plan/stream_order.h"

namespace brim::plan {
namespace {

constexpr size_t kAlignment = 64;

size_t aligned(size_t bytes) {
  return (std::max<size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
}

std::vector<Block> lifetimes(const Program& program, Role role) {
  std::vector<Block> blocks;
  std::unordered_map<const Storage*, size_t> index;
  const StreamOrder order(program);
  for (size_t i = 0; i < program.launches.size(); ++i)
    for (const Operand& o : program.launches[i]->operands()) {
      if (!o.tensor->defined() || program.role(*o.tensor->storage()) != role) continue;
      const Storage* storage = o.tensor->storage().get();
      const int at = static_cast<int>(i);
      const auto [found, fresh] = index.try_emplace(storage, blocks.size());
      if (fresh) blocks.push_back({storage, 0, aligned(storage->bytes()), at, at});
      int& last = blocks[found->second].last;
      last = std::max(last, order.runs_beside(i));
    }
  return blocks;
}

/// Index of the block whose bytes the result of launch `i` may take over: an input as large, dense
/// in the same order, used here for the last time. -1 if there is none.
int taken_over(const std::vector<Block>& blocks,
               const std::unordered_map<const Storage*, size_t>& index, const Launch& launch,
               int i) {
  const auto operands = launch.operands();
  if (!backend::find_elementwise(launch.name(), launch.dtype()) || operands.empty() ||
      !operands.back().writes)
    return -1;
  const Tensor& y = *operands.back().tensor;
  const auto result = index.find(y.storage().get());
  if (result == index.end() || blocks[result->second].first != i || !covers_storage(y)) return -1;
  for (const Operand& o : operands) {
    const Tensor& x = *o.tensor;
    // Another view of it would be read after its elements were overwritten.
    if (std::any_of(operands.begin(), operands.end(), [&](const Operand& other) {
          return !other.writes && other.tensor->storage() == x.storage() &&
                 !same_view(*other.tensor, x);
        }))
      continue;
    const auto found = index.find(x.storage().get());
    if (!o.writes && found != index.end() && blocks[found->second].last == i && covers_storage(x) &&
        x.dtype() == y.dtype() && x.shape() == y.shape() && x.strides() == y.strides())
      return static_cast<int>(found->second);
  }
  return -1;
}

/// Joins results with the inputs whose place they take.
int join_in_place(const Program& program, std::vector<Block>& blocks) {
  std::unordered_map<const Storage*, size_t> index;
  for (size_t k = 0; k < blocks.size(); ++k) index[blocks[k].storage] = k;
  int joined = 0;
  for (size_t i = 0; i < program.launches.size(); ++i) {
    const Launch& launch = *program.launches[i];
    int from = taken_over(blocks, index, launch, static_cast<int>(i));
    if (from < 0) continue;
    Block& result = blocks[index.at(launch.operands().back().tensor->storage().get())];
    while (blocks[static_cast<size_t>(from)].in_place_of >= 0)
      from = blocks[static_cast<size_t>(from)].in_place_of;
    result.in_place_of = from;
    ++joined;
  }
  // Lifetimes only now: above, `last` tells where a storage itself ends.
  for (const Block& b : blocks)
    if (b.in_place_of >= 0) {
      Block& owner = blocks[static_cast<size_t>(b.in_place_of)];
      owner.last = std::max(owner.last, b.last);
    }
  return joined;
}

/// The most bytes that live at one time.
size_t largest_sum(const std::vector<Block>& blocks) {
  int last = -1;
  for (const Block& b : blocks) last = std::max(last, b.last);
  std::vector<int64_t> change(static_cast<size_t>(last) + 2, 0);
  for (const Block& b : blocks) {
    if (b.in_place_of >= 0) continue;
    change[static_cast<size_t>(b.first)] += static_cast<int64_t>(b.bytes);
    change[static_cast<size_t>(b.last) + 1] -= static_cast<int64_t>(b.bytes);
  }
  int64_t live = 0, peak = 0;
  for (const int64_t c : change) peak = std::max(peak, live += c);
  return static_cast<size_t>(peak);
}

/// One after the other, in this order.
size_t place_in_order(std::vector<Block>& blocks, const std::vector<size_t>& order, bool share) {
  size_t bytes = 0;
  std::vector<const Block*> placed;  // by offset
  for (const size_t i : order) {
    Block& b = blocks[i];
    if (b.in_place_of >= 0) continue;
    size_t offset = 0;
    for (const Block* other : placed) {
      if (share && (other->last < b.first || other->first > b.last)) continue;
      if (offset + b.bytes <= other->offset) break;
      offset = std::max(offset, other->offset + other->bytes);
    }
    b.offset = offset;
    bytes = std::max(bytes, offset + b.bytes);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), &b,
                         [](const Block* x, const Block* y) { return x->offset < y->offset; }),
        &b);
  }
  for (Block& b : blocks)
    if (b.in_place_of >= 0) b.offset = blocks[static_cast<size_t>(b.in_place_of)].offset;
  return bytes;
}

}  // namespace

size_t place(std::vector<Block>& blocks, bool share) {
  const auto ordered = [&](const auto& size) {
    std::vector<size_t> order(blocks.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return size(blocks[i]); });
    return order;
  };
  const size_t least = largest_sum(blocks);
  size_t best = std::numeric_limits<size_t>::max();
  std::vector<Block> placed = blocks;
  const auto attempt = [&](const std::vector<size_t>& order) {
    const size_t bytes = place_in_order(placed, order, share);
    if (bytes < best) {
      best = bytes;
      blocks = placed;
    }
    return bytes;
  };
  std::vector<size_t> order = ordered([](const Block& b) { return b.bytes; });
  size_t bytes = attempt(order);
  if (!share || best <= least) return best;
  std::vector<size_t> by_area =
      ordered([](const Block& b) { return static_cast<double>(b.bytes) * (b.last - b.first + 1); });
  if (const size_t other = attempt(by_area); other < bytes) {
    bytes = other;
    order = std::move(by_area);
  } else {
    (void)place_in_order(placed, order, share);  // as it was
  }
  // What sticks out at the top comes first the next time.
  constexpr size_t kWork = 20'000'000;
  const size_t attempts = std::min<size_t>(64, kWork / (blocks.size() * blocks.size() + 1));
  for (size_t n = 0; n < attempts && best > least; ++n) {
    const auto top = std::ranges::find_if(order, [&](size_t i) {
      return placed[i].in_place_of < 0 && placed[i].offset + placed[i].bytes == bytes;
    });
    if (top == order.begin() || top == order.end()) break;
    std::rotate(order.begin(), top, top + 1);
    bytes = attempt(order);
  }
  return best;
}

MemoryPlan plan_memory(const Program& program, bool share, Role role) {
  MemoryPlan plan{.blocks = lifetimes(program, role)};
  if (share) plan.in_place = join_in_place(program, plan.blocks);
  plan.largest = largest_sum(plan.blocks);
  for (const Block& b : plan.blocks) plan.separate += b.bytes;
  plan.bytes = place(plan.blocks, share);
  return plan;
}

}  // namespace brim::plan
