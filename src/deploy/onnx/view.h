// Views as nodes: what a window with strides of its own sees of a value.
#pragma once

#include <optional>

#include <brim/core/storage.h>

#include "deploy/onnx/graph.h"

namespace brim::deploy {

/// Elements of a storage.
struct Window {
  const Storage* storage = nullptr;
  Extents shape, strides;
  Extent offset;
  DType dtype = DType::f32;
};

/// A value, and where its elements lie in a storage.
struct StridedValue {
  Value value;
  Extents strides;
  Extent offset;
};

/// What the window sees of `of`, with axes that repeat one element as axes of size 1: Reshape,
/// Slice and Transpose of it. Nothing where it sees more, or where ONNX has no such view. `batch`:
/// to compare extents by.
std::optional<Value> view_of(const StridedValue& of, const Window& window, OnnxGraph& graph,
                             int64_t batch);

}  // namespace brim::deploy
