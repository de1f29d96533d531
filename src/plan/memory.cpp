#include "plan/memory.h"

#include <algorithm>
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

std::vector<Block> lifetimes(const Program& program) {
  std::vector<Block> blocks;
  std::unordered_map<const Storage*, size_t> index;
  const StreamOrder order(program);
  for (size_t i = 0; i < program.launches.size(); ++i)
    for (const Operand& o : program.launches[i]->operands()) {
      if (!o.tensor->defined() || !program.temporary(*o.tensor)) continue;
      const Storage* storage = o.tensor->storage().get();
      const int at = static_cast<int>(i);
      const auto [found, fresh] = index.try_emplace(storage, blocks.size());
      if (fresh) blocks.push_back({storage, 0, aligned(storage->bytes()), at, at});
      // Beside a launch of the side stream others run until one waits for it.
      int& last = blocks[found->second].last;
      last = std::max(last, order.joined_by(i));
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

size_t largest_sum(const std::vector<Block>& blocks, size_t launches) {
  std::vector<int64_t> change(launches + 2, 0);  // the step's end may be a block's last use
  for (const Block& b : blocks) {
    if (b.in_place_of >= 0) continue;
    change[static_cast<size_t>(b.first)] += static_cast<int64_t>(b.bytes);
    change[static_cast<size_t>(b.last) + 1] -= static_cast<int64_t>(b.bytes);
  }
  int64_t live = 0, peak = 0;
  for (const int64_t c : change) peak = std::max(peak, live += c);
  return static_cast<size_t>(peak);
}

}  // namespace

MemoryPlan plan_memory(const Program& program, bool share) {
  MemoryPlan plan{.blocks = lifetimes(program)};
  if (share) plan.in_place = join_in_place(program, plan.blocks);
  plan.largest = largest_sum(plan.blocks, program.launches.size());
  for (const Block& b : plan.blocks) plan.separate += b.bytes;
  std::vector<size_t> order(plan.blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return plan.blocks[a].bytes > plan.blocks[b].bytes; });
  std::vector<const Block*> placed;  // by offset
  for (const size_t i : order) {
    Block& b = plan.blocks[i];
    if (b.in_place_of >= 0) continue;
    size_t offset = 0;
    for (const Block* other : placed) {
      if (share && (other->last < b.first || other->first > b.last)) continue;
      if (offset + b.bytes <= other->offset) break;
      offset = std::max(offset, other->offset + other->bytes);
    }
    b.offset = offset;
    plan.bytes = std::max(plan.bytes, offset + b.bytes);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), &b,
                         [](const Block* x, const Block* y) { return x->offset < y->offset; }),
        &b);
  }
  for (Block& b : plan.blocks)
    if (b.in_place_of >= 0) b.offset = plan.blocks[static_cast<size_t>(b.in_place_of)].offset;
  return plan;
}

}  // namespace brim::plan
