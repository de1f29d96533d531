// Who makes the values of a network, and who needs them.
#pragma once

#include <vector>

#include "deploy/engine/network.h"

namespace brim::deploy {

/// Holds until nodes or values are added, removed or joined otherwise.
class Flow {
 public:
  explicit Flow(EngineNetwork& network)
      : makers_(network.values.size(), nullptr), uses_(network.values.size(), 0) {
    for (EngineNode& node : network.nodes) {
      count(node, 1);
      for (const int id : node.outputs) makers_[static_cast<size_t>(id)] = &node;
    }
    for (const int id : network.outputs) ++uses_[static_cast<size_t>(id)];
  }
  EngineNode* maker(int id) const { return makers_[static_cast<size_t>(id)]; }
  int uses(int id) const { return uses_[static_cast<size_t>(id)]; }
  /// The node that makes a value for one other alone; null: there is none.
  EngineNode* only_maker(int id) const { return id >= 0 && uses(id) == 1 ? maker(id) : nullptr; }
  /// Of a node that goes: it needs no values any more.
  void leave_out(const EngineNode& node) { count(node, -1); }

 private:
  void count(const EngineNode& node, int times) {
    for (const int id : node.inputs)
      if (id >= 0) uses_[static_cast<size_t>(id)] += times;
    if (node.residual >= 0) uses_[static_cast<size_t>(node.residual)] += times;
  }

  std::vector<EngineNode*> makers_;
  std::vector<int> uses_;
};

}  // namespace brim::deploy
