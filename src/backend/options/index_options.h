// What the gather, scatter and scatter_add kernels are asked for.
#pragma once

namespace brim::backend {

struct IndexOptions {
  int axis;
  const char* op;  // for the message about an index out of range
  friend bool operator==(const IndexOptions&, const IndexOptions&) = default;
};

}  // namespace brim::backend
