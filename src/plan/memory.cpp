#include "plan/memory.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace brim::plan {
namespace {

constexpr size_t kAlignment = 64;

size_t aligned(size_t bytes) {
  return (std::max<size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
}

std::vector<Block> lifetimes(const Program& program) {
  std::vector<Block> blocks;
  std::unordered_map<const Storage*, size_t> index;
  for (size_t i = 0; i < program.launches.size(); ++i)
    for (const Operand& o : program.launches[i]->operands()) {
      if (!o.tensor->defined() || !program.temporary(*o.tensor)) continue;
      const Storage* storage = o.tensor->storage().get();
      const int at = static_cast<int>(i);
      const auto [found, fresh] = index.try_emplace(storage, blocks.size());
      if (fresh) blocks.push_back({storage, 0, aligned(storage->bytes()), at, at});
      blocks[found->second].last = at;
    }
  return blocks;
}

size_t largest_sum(const std::vector<Block>& blocks, size_t launches) {
  std::vector<int64_t> change(launches + 1, 0);
  for (const Block& b : blocks) {
    change[static_cast<size_t>(b.first)] += static_cast<int64_t>(b.bytes);
    change[static_cast<size_t>(b.last) + 1] -= static_cast<int64_t>(b.bytes);
  }
  int64_t live = 0, most = 0;
  for (const int64_t c : change) most = std::max(most, live += c);
  return static_cast<size_t>(most);
}

}  // namespace

MemoryPlan plan_memory(const Program& program, bool share) {
  MemoryPlan plan{.blocks = lifetimes(program)};
  plan.largest = largest_sum(plan.blocks, program.launches.size());
  for (const Block& b : plan.blocks) plan.separate += b.bytes;
  std::vector<size_t> order(plan.blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return plan.blocks[a].bytes > plan.blocks[b].bytes; });
  std::vector<const Block*> placed;  // by offset
  for (const size_t i : order) {
    Block& b = plan.blocks[i];
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
  return plan;
}

}  // namespace brim::plan
