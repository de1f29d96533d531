// How closely devices are watched that report graphs of work (CUDA graphs: docs/CUDA.md).
#pragma once

#include <cstdint>

namespace brim::diag {

/// How much a trace holds.
enum class Detail : uint8_t {
  graphs,  ///< a replayed graph is one piece of work, computing from its begin to its end
  nodes,   ///< each of its kernels and copies: memory and time for every one, so for bounded runs
};

/// While it lives, Accountants that are made watch nodes; else they watch graphs, and nodes only
/// while a Trace records. Where one user wants nodes, all that measure the device then get them.
class NodeDetail {
 public:
  NodeDetail();  ///< until the end of the scope
  ~NodeDetail();
  NodeDetail(const NodeDetail&) = delete;
  NodeDetail& operator=(const NodeDetail&) = delete;
};

}  // namespace brim::diag
