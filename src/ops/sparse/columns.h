// The columns that sparse weights keep, whatever the numbers in them.
#pragma once

#include <brim/core/tensor.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/sparse/order_by_zeros.h"

namespace brim::ops {

/// The tensors of SparseWeight and SparseInt8Weight that say which columns are kept.
struct SparseParts {
  const Shape& shape;
  int64_t vector;
  const Tensor &values, &columns, &starts, &outputs;

  /// What is left of the weight's numbers to each output.
  int64_t width() const { return shape[0] > 0 ? shape.numel() / shape[0] : 0; }
  int64_t groups() const { return (shape[0] + vector - 1) / vector; }
  /// Throws ValueError where they do not belong together; does not look at their numbers.
  void check_structure(DType dtype) const;
  /// Throws ValueError for numbers that are no columns, starts or outputs of such a weight.
  void check_numbers() const;
  /// Of the groups' columns, which are kept.
  double density() const;
  int64_t bytes_of_index() const;
};

/// Columns in the order in which kernels read them: all channels of one tap after the other.
std::vector<int32_t> columns_in_order(const Shape& shape);

template <class T>
struct KeptColumns {
  std::vector<T> values;
  std::vector<int32_t> columns, starts{0};
  Tensor outputs;  // undefined: in order
};

/// `dense`: of a weight of this shape, without the columns that are zero for all outputs of a
/// group.
template <class T>
KeptColumns<T> keep_columns(std::span<const T> dense, const Shape& shape, int64_t vector,
                            Device device) {
  KeptColumns<T> kept;
  const int64_t outputs = shape[0], columns = outputs > 0 ? shape.numel() / outputs : 0;
  const std::vector<int32_t> order = columns_in_order(shape);
  const std::vector<int64_t> order_of_outputs =
      order_by_zeros(std::vector<float>(dense.begin(), dense.end()), outputs, vector);
  for (int64_t first = 0; first < outputs; first += vector) {
    const int64_t end = std::min(first + vector, outputs);
    for (const int32_t column : order) {
      const auto at = [&](int64_t position) {
        return dense[static_cast<size_t>(order_of_outputs[static_cast<size_t>(position)] * columns +
                                         column)];
      };
      bool is_zero = true;
      for (int64_t o = first; o < end; ++o) is_zero = is_zero && at(o) == 0;
      if (is_zero) continue;
      kept.columns.push_back(column);
      for (int64_t o = first; o < first + vector; ++o) kept.values.push_back(o < end ? at(o) : T{});
    }
    kept.starts.push_back(static_cast<int32_t>(kept.columns.size()));
  }
  if (!std::ranges::is_sorted(order_of_outputs))
    kept.outputs = Tensor::from<int32_t>(
        std::vector<int32_t>(order_of_outputs.begin(), order_of_outputs.end()), {outputs}, device);
  return kept;
}

/// The weight's numbers, with its zeros; `parts` have been checked.
template <class T>
std::vector<T> with_zeros(const SparseParts& parts) {
  const int64_t count = parts.shape[0], width = parts.width(), vector = parts.vector;
  const std::vector<T> from = parts.values.template to_vector<T>();
  const std::vector<int32_t> kept = parts.columns.to_vector<int32_t>();
  const std::vector<int32_t> begins = parts.starts.to_vector<int32_t>();
  const std::vector<int32_t> order =
      parts.outputs.defined() ? parts.outputs.to_vector<int32_t>() : std::vector<int32_t>();
  const auto output_at = [&](int64_t position) {
    return order.empty() ? position : int64_t{order[static_cast<size_t>(position)]};
  };
  std::vector<T> all(static_cast<size_t>(parts.shape.numel()), T{});
  for (int64_t g = 0; g < parts.groups(); ++g)
    for (auto j = begins[static_cast<size_t>(g)]; j < begins[static_cast<size_t>(g) + 1]; ++j)
      for (int64_t o = g * vector; o < std::min((g + 1) * vector, count); ++o)
        all[static_cast<size_t>(output_at(o) * width + kept[static_cast<size_t>(j)])] =
            from[static_cast<size_t>(j * vector + o - g * vector)];
  return all;
}

}  // namespace brim::ops
