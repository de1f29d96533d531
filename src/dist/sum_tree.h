// The one tree in which virtual ranks are summed up: a node is the sum of its two halves, and what
// a rank computes are some of its nodes. So the bits depend on the number of virtual ranks alone,
// not on how many ranks compute them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace brim::dist {

/// The virtual ranks begin, ..., end - 1.
struct TreeNode {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  TreeNode left() const { return {begin, begin + size() / 2}; }
  TreeNode right() const { return {begin + size() / 2, end}; }
  bool contains(const TreeNode& other) const { return begin <= other.begin && other.end <= end; }
  bool operator==(const TreeNode&) const = default;
};

/// The virtual ranks of `rank`: they are dealt out in equal runs.
inline TreeNode virtual_ranks_of(int rank, int size, int64_t virtual_ranks) {
  const int64_t each = virtual_ranks / size;
  return {rank * each, (rank + 1) * each};
}

/// The largest nodes of the tree over `all` that lie within `part`, in order.
inline void nodes_within(const TreeNode& all, const TreeNode& part, std::vector<TreeNode>& nodes) {
  if (all.size() == 0 || all.end <= part.begin || part.end <= all.begin) return;
  if (part.contains(all)) return nodes.push_back(all);
  nodes_within(all.left(), part, nodes);
  nodes_within(all.right(), part, nodes);
}
inline std::vector<TreeNode> nodes_of(int rank, int size, int64_t virtual_ranks) {
  std::vector<TreeNode> nodes;
  nodes_within({0, virtual_ranks}, virtual_ranks_of(rank, size, virtual_ranks), nodes);
  return nodes;
}

}  // namespace brim::dist
