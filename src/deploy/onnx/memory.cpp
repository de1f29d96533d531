#include "deploy/onnx/memory.h"

#include <algorithm>
#include <numeric>

#include "core/check.h"
#include "deploy/onnx/view.h"

namespace brim::deploy {
namespace {

Value concat(OnnxGraph& graph, const std::vector<Value>& parts, size_t axis) {
  if (parts.size() == 1) return parts[0];
  Extents shape = parts[0].shape;
  shape[axis] = 0;
  for (const Value& part : parts) shape[axis] = shape[axis] + part.shape[axis];
  return graph.add("Concat", parts, {shape, parts[0].dtype},
                   {{"axis", static_cast<int64_t>(axis)}});
}

/// Whether both are the same elements in the same order; strides of axes of size 1 do not count.
bool is_same(const Extents& shape, const Extents& a, const Extents& b) {
  for (size_t i = 0; i < shape.size(); ++i)
    if (!shape[i].is(1) && a[i] != b[i]) return false;
  return true;
}

bool is_row_major(const Extents& shape, const Extents& strides) {
  Extent step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (!shape[i].is(1) && strides[i] != step) return false;
    const std::optional<Extent> next = product(step, shape[i]);
    if (!next) return false;
    step = *next;
  }
  return true;
}

std::optional<Extent> count_of(const Extents& shape) {
  std::optional<Extent> count = Extent(1);
  for (const Extent& size : shape)
    if (count) count = product(*count, size);
  return count;
}

}  // namespace

/// Where the first element lies along each axis of what has these strides.
std::optional<Extents> OnnxMemory::starts_of(const Extents& shape, const Extents& strides,
                                             Extent offset) const {
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](size_t i) { return strides[i].at(batch_); });
  Extents starts(shape.size(), 0);
  for (const size_t i : order) {
    if (strides[i].at(batch_) <= 0) return {};
    starts[i] = whole_part(offset, strides[i]);
    const std::optional<Extent> steps = product(starts[i], strides[i]);
    if (!steps) return {};
    offset = offset - *steps;
  }
  if (!offset.is(0)) return {};
  return starts;
}

void OnnxMemory::join(std::vector<Piece>& pieces) {
  const auto start_of = [&](const Piece& p, size_t axis) -> std::optional<Extent> {
    const auto starts = starts_of(p.value.shape, p.strides, p.offset);
    return starts ? std::optional((*starts)[axis]) : std::nullopt;
  };
  for (bool changes = true; changes && pieces.size() > 1;) {
    changes = false;
    const size_t rank = pieces[0].value.shape.size();
    for (size_t axis = 0; axis < rank && !changes; ++axis) {
      std::vector<Piece> sorted = pieces;
      bool is_row = true;
      for (const Piece& p : sorted) {
        is_row = is_row && p.value.shape.size() == rank && p.strides == sorted[0].strides &&
                 start_of(p, axis);
        for (size_t i = 0; is_row && i < rank; ++i)
          is_row = i == axis || (p.value.shape[i] == sorted[0].value.shape[i] &&
                                 start_of(p, i) == start_of(sorted[0], i));
      }
      if (!is_row) continue;
      std::ranges::stable_sort(sorted, {},
                               [&](const Piece& p) { return start_of(p, axis)->at(batch_); });
      std::vector<Value> parts = {sorted[0].value};
      for (size_t i = 1; is_row && i < sorted.size(); ++i) {
        is_row = *start_of(sorted[i - 1], axis) + sorted[i - 1].value.shape[axis] ==
                 *start_of(sorted[i], axis);
        parts.push_back(sorted[i].value);
      }
      if (!is_row) continue;
      pieces = {{concat(graph_, parts, axis), sorted[0].strides, sorted[0].offset}};
      changes = true;
    }
  }
}

/// Replaces a block of what the piece is.
bool OnnxMemory::write_into(Piece& piece, const Window& to, const Value& value) {
  if (piece.value.shape.size() != to.shape.size() || piece.strides != to.strides) return false;
  const auto starts = starts_of(to.shape, to.strides, to.offset - piece.offset);
  if (!starts) return false;
  for (size_t i = 0; i < to.shape.size(); ++i) {
    const Extent end = (*starts)[i] + to.shape[i];
    if (end.at(batch_) > piece.value.shape[i].at(batch_)) return false;
  }
  const std::function<Value(const Value&, size_t)> replaced = [&](const Value& x, size_t axis) {
    while (axis < to.shape.size() && x.shape[axis] == to.shape[axis]) ++axis;
    if (axis == to.shape.size()) return value;
    const Extent start = (*starts)[axis], stop = start + to.shape[axis], size = x.shape[axis];
    std::vector<Value> parts;
    if (!start.is(0)) parts.push_back(graph_.slice(x, axis, 0, start));
    parts.push_back(replaced(graph_.slice(x, axis, start, stop), axis + 1));
    if (stop != size) parts.push_back(graph_.slice(x, axis, stop, size));
    return concat(graph_, parts, axis);
  };
  piece.value = replaced(piece.value, 0);
  return true;
}

bool OnnxMemory::are_apart(const Piece& piece, const Window& window) const {
  const auto last = [&](const Extents& shape, const Extents& strides, Extent offset) {
    int64_t at = offset.at(batch_);
    for (size_t i = 0; i < shape.size(); ++i)
      at += (shape[i].at(batch_) - 1) * strides[i].at(batch_);
    return at;
  };
  const Extents& sizes = piece.value.shape;
  if (last(sizes, piece.strides, piece.offset) < window.offset.at(batch_) ||
      last(window.shape, window.strides, window.offset) < piece.offset.at(batch_))
    return true;
  if (piece.strides != window.strides) return false;
  const auto here = starts_of(sizes, piece.strides, piece.offset);
  const auto there = starts_of(window.shape, window.strides, window.offset);
  if (!here || !there) return false;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (((*here)[i] + sizes[i]).at(batch_) <= (*there)[i].at(batch_) ||
        ((*there)[i] + window.shape[i]).at(batch_) <= (*here)[i].at(batch_))
      return true;
  return false;
}

void OnnxMemory::write(const Window& to, const Value& value) {
  std::vector<Piece>& pieces = pieces_[to.storage];
  for (Piece& piece : pieces) {
    if (piece.offset == to.offset && piece.value.shape == to.shape &&
        is_same(to.shape, piece.strides, to.strides)) {
      piece.value = value;
      return;
    }
  }
  for (Piece& piece : pieces)
    if (write_into(piece, to, value)) return;
  const std::optional<Extent> count = count_of(to.shape);
  const auto bytes = static_cast<int64_t>(to.storage->bytes());
  if (count && count->at(batch_) * static_cast<int64_t>(size_of(to.dtype)) == bytes)
    pieces.clear();  // all of it
  for (const Piece& piece : pieces)
    BRIM_CHECK(are_apart(piece, to), NotImplemented, "a write into parts of a tensor");
  pieces.push_back({value, to.strides, to.offset});
}

void OnnxMemory::add_constant(const Window& at, const Value& value) {
  pieces_[at.storage].push_back({value, at.strides, at.offset});
}

Value OnnxMemory::read(const Window& from, bool broadcast) {
  if (lost_.contains(from.storage)) raise<LostValue>("a value that nothing makes");
  std::vector<Piece>& pieces = pieces_[from.storage];
  const auto finished = [&](const Value& x) {
    return broadcast ? x : graph_.expand(x, from.shape);
  };
  for (int round = 0; round < 2; ++round) {
    for (const Piece& piece : pieces)
      if (piece.offset == from.offset && piece.value.shape == from.shape &&
          is_same(from.shape, piece.strides, from.strides))
        return piece.value;
    for (const Piece& piece : pieces)
      if (const std::optional<Value> part =
              view_of({piece.value, piece.strides, piece.offset}, from, graph_, batch_))
        return finished(*part);
    if (round == 0) join(pieces);
  }
  raise<NotImplemented>("a view that ONNX has no operators for");
}

std::optional<Value> OnnxMemory::whole(const Window& from) const {
  const auto found = pieces_.find(from.storage);
  if (lost_.contains(from.storage)) return {};
  if (found == pieces_.end() || found->second.size() != 1) return {};
  const Piece& piece = found->second[0];
  const std::optional<Extent> here = count_of(piece.value.shape), there = count_of(from.shape);
  if (!here || here != there || piece.offset != from.offset) return {};
  if (!is_row_major(piece.value.shape, piece.strides) || !is_row_major(from.shape, from.strides))
    return {};
  return piece.value;
}

}  // namespace brim::deploy
