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

/// Gives the blocks offsets, each the lowest that is free while it lives, and returns the bytes
/// that they need together. Large ones come first (greedy by size: Pisarchyk and Lee, "Efficient
/// memory management for deep neural net inference", 2020), or those that are large and live long,
/// and then what sticks out, as long as there are gaps and some attempts are left. With `share` off
/// each has bytes of its own.
size_t place(std::vector<Block>& blocks, bool share);

/// Places the program's temporaries, or what is on the host meanwhile. The result of an elementwise
/// launch takes the place of an input that ends there.
MemoryPlan plan_memory(const Program& program, bool share, Role role = Role::temporary);

}  // namespace brim::plan
