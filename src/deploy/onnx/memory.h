// What lies in the memory of a recorded step, as values of the graph. Views are no launches: an
// operand is sizes, strides and an offset in a storage, which here become Reshape, Slice,
// Transpose and Expand of what was written there.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include <brim/core/storage.h>

#include "deploy/onnx/graph.h"
#include "deploy/onnx/view.h"

namespace brim::deploy {

/// A value that an operator would have made which ONNX has not.
class LostValue : public NotImplemented {
  using NotImplemented::NotImplemented;
};

/// What a file with batches of one size could hold.
class DependsOnBatch : public NotImplemented {
  using NotImplemented::NotImplemented;
};

class OnnxMemory {
 public:
  /// `batch`: of the first recording, to compare extents by.
  OnnxMemory(OnnxGraph& graph, int64_t batch) : graph_(graph), batch_(batch) {}

  /// From now on the elements are `value`, of the window's shape.
  void write(const Window& to, const Value& value);
  /// The same of what nothing writes, which may be there already as another window.
  void add_constant(const Window& at, const Value& value);
  /// From now on they cannot be read (LostValue).
  void lose(const Storage* storage) { lost_.insert(storage); }
  /// The elements. With `broadcast` axes that repeat one element keep the size 1, for operators
  /// that broadcast. Throws NotImplemented where ONNX has no such view.
  Value read(const Window& from, bool broadcast = false);
  /// The value of which the window is all, in the same order, whatever its sizes are: for
  /// operators that take any number of leading axes.
  std::optional<Value> whole(const Window& from) const;

 private:
  using Piece = StridedValue;
  bool write_into(Piece& piece, const Window& to, const Value& value);
  bool are_apart(const Piece& piece, const Window& window) const;
  void join(std::vector<Piece>& pieces);
  std::optional<Extents> starts_of(const Extents& shape, const Extents& strides,
                                   Extent offset) const;

  OnnxGraph& graph_;
  const int64_t batch_;
  std::map<const Storage*, std::vector<Piece>> pieces_;
  std::set<const Storage*> lost_;
};

}  // namespace brim::deploy
