#include "ops/sparse/columns.h"

#include <brim/ops/sparse.h>

#include "core/check.h"

namespace brim::ops {

void SparseParts::check_structure(DType dtype) const {
  const auto is_flat = [](const Tensor& t, DType of) {
    return t.defined() && t.dtype() == of && t.is_contiguous();
  };
  const bool is_whole =
      is_flat(values, dtype) && is_flat(columns, DType::i32) && is_flat(starts, DType::i32) &&
      columns.rank() == 1 && starts.rank() == 1 && (shape.rank() == 2 || shape.rank() == 4) &&
      SparseWeight::has_vectors_of(vector) && values.rank() == 2 &&
      values.size(0) == columns.numel() && values.size(1) == vector &&
      starts.numel() == groups() + 1 &&
      (!outputs.defined() || (is_flat(outputs, DType::i32) && outputs.shape() == Shape{shape[0]}));
  BRIM_CHECK(is_whole, ValueError,
             "[sparse] values, columns and starts are no sparse weight of {} in vectors of {}",
             shape.str(), vector);
}

void SparseParts::check_numbers() const {
  const std::vector<int32_t> begins = starts.to_vector<int32_t>();
  BRIM_CHECK(
      begins.front() == 0 && begins.back() == columns.numel() && std::ranges::is_sorted(begins),
      ValueError, "[sparse] the starts of groups are not in order, or leave columns out");
  const std::vector<int32_t> kept = columns.to_vector<int32_t>();
  std::vector<int64_t> group_of(static_cast<size_t>(width()), -1);  // the last one that has it
  for (size_t g = 0; g + 1 < begins.size(); ++g)
    for (int32_t j = begins[g]; j < begins[g + 1]; ++j) {
      const int32_t column = kept[static_cast<size_t>(j)];
      BRIM_CHECK(column >= 0 && column < width(), ValueError,
                 "[sparse] column {} of a weight {}, which has {}", column, shape.str(), width());
      int64_t& last = group_of[static_cast<size_t>(column)];
      BRIM_CHECK(last != static_cast<int64_t>(g), ValueError,
                 "[sparse] column {} stands twice in group {}", column, g);
      last = static_cast<int64_t>(g);
    }
  if (!outputs.defined()) return;
  std::vector<int32_t> order = outputs.to_vector<int32_t>();
  std::ranges::sort(order);
  for (size_t o = 0; o < order.size(); ++o)
    BRIM_CHECK(order[o] == static_cast<int32_t>(o), ValueError,
               "[sparse] the outputs of groups leave {} out, or have others twice", o);
}

double SparseParts::density() const {
  if (vector == 0) return 1;
  const int64_t all = groups() * width();
  return all > 0 ? static_cast<double>(columns.numel()) / static_cast<double>(all) : 1;
}

int64_t SparseParts::bytes_of_index() const {
  return 4 * (columns.numel() + starts.numel() + (outputs.defined() ? outputs.numel() : 0));
}

std::vector<int32_t> columns_in_order(const Shape& shape) {
  const int64_t area = shape.rank() == 4 ? shape[2] * shape[3] : 1;
  const int64_t channels =
      (shape[0] > 0 ? shape.numel() / shape[0] : 0) / std::max<int64_t>(area, 1);
  std::vector<int32_t> order;
  for (int64_t k = 0; k < area; ++k)
    for (int64_t c = 0; c < channels; ++c) order.push_back(static_cast<int32_t>(c * area + k));
  return order;
}

}  // namespace brim::ops
