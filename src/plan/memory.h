// Memory planning: temporaries that do not live at the same time share the arena's bytes.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/program.h"

namespace brim::plan {

/// A storage's place in the arena, and the launches between which it lives.
struct Block {
  const Storage* storage;
  size_t offset, bytes;
  int first, last;
  int in_place_of = -1;  ///< the block whose bytes this one takes over
};

struct MemoryPlan {
  std::vector<Block> blocks;
  size_t bytes = 0;     ///< of the arena
  size_t largest = 0;   ///< live at one time: no plan needs less
  size_t separate = 0;  ///< if nothing were shared
  int in_place = 0;     ///< blocks that take over the bytes of others
};

/// Places the program's temporaries, large ones first, each at the lowest offset that is free while
/// it lives (greedy by size: Pisarchyk and Lee, "Efficient memory management for deep neural net
/// inference", 2020). The result of an elementwise launch takes the place of an input that ends
/// there. With `share` off each has bytes of its own.
MemoryPlan plan_memory(const Program& program, bool share);

}  // namespace brim::plan
