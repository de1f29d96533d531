// SparseWeight: weights without their columns of zeros
#include <brim/ops/sparse.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "ops/checks.h"
#include "ops/sparse/order_by_zeros.h"

namespace brim {
namespace {

/// O, and what is left of the weight's numbers to each of them.
struct Matrix {
  int64_t outputs, columns;
};
Matrix matrix_of(const Shape& shape) {
  return {shape[0], shape[0] > 0 ? shape.numel() / shape[0] : 0};
}

int64_t groups_of(const SparseWeight& w) { return (w.shape[0] + w.vector - 1) / w.vector; }

/// Columns in the order in which kernels read them: all channels of one tap after the other.
std::vector<int32_t> in_order(const Shape& shape) {
  const int64_t area = shape.rank() == 4 ? shape[2] * shape[3] : 1;
  const int64_t channels = matrix_of(shape).columns / std::max<int64_t>(area, 1);
  std::vector<int32_t> order;
  for (int64_t k = 0; k < area; ++k)
    for (int64_t c = 0; c < channels; ++c) order.push_back(static_cast<int32_t>(c * area + k));
  return order;
}

}  // namespace

SparseWeight SparseWeight::encode(const Tensor& weight, int64_t vector) {
  ops::check_defined("encode", weight);
  BRIM_CHECK(weight.rank() == 2 || weight.rank() == 4, ShapeError,
             "[encode] expects a weight (O, K) or (O, C, KH, KW), got {}", weight.shape().str());
  BRIM_CHECK(weight.dtype() == DType::f32, DTypeError,
             "[encode] a weight of {}: only f32 is implemented", name(weight.dtype()));
  BRIM_CHECK(has_vectors_of(vector), ValueError, "[encode] vectors of {}: give 4, 8, 16, 32 or 64",
             vector);
  const Matrix matrix = matrix_of(weight.shape());
  const int64_t outputs = matrix.outputs, columns = matrix.columns;
  BRIM_CHECK(columns <= std::numeric_limits<int32_t>::max(), ShapeError,
             "[encode] {} has too many columns", weight.shape().str());
  const std::vector<float> dense = weight.detach().to_vector<float>();
  const std::vector<int32_t> order = in_order(weight.shape());
  const std::vector<int64_t> order_of_outputs = ops::order_by_zeros(dense, outputs, vector);
  std::vector<float> values;
  std::vector<int32_t> kept, starts{0};
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
      kept.push_back(column);
      for (int64_t o = first; o < first + vector; ++o) values.push_back(o < end ? at(o) : 0.0F);
    }
    starts.push_back(static_cast<int32_t>(kept.size()));
  }
  const auto count = static_cast<int64_t>(kept.size());
  const Device device = weight.device();
  Tensor stands_at;
  if (!std::ranges::is_sorted(order_of_outputs))
    stands_at = Tensor::from<int32_t>(
        std::vector<int32_t>(order_of_outputs.begin(), order_of_outputs.end()), {outputs}, device);
  return {.shape = weight.shape(),
          .vector = vector,
          .values = Tensor::from<float>(values, {count, vector}, device),
          .columns = Tensor::from<int32_t>(kept, {count}, device),
          .starts = Tensor::from<int32_t>(starts, {static_cast<int64_t>(starts.size())}, device),
          .outputs = stands_at};
}

Tensor SparseWeight::dense() const {
  check();
  const auto [count, width] = matrix_of(shape);
  const std::vector<float> from = values.to_vector<float>();
  const std::vector<int32_t> kept = columns.to_vector<int32_t>();
  const std::vector<int32_t> begins = starts.to_vector<int32_t>();
  const std::vector<int32_t> order =
      this->outputs.defined() ? this->outputs.to_vector<int32_t>() : std::vector<int32_t>();
  const auto output_at = [&](int64_t position) {
    return order.empty() ? position : int64_t{order[static_cast<size_t>(position)]};
  };
  std::vector<float> all(static_cast<size_t>(shape.numel()), 0.0F);
  for (int64_t g = 0; g < groups_of(*this); ++g)
    for (auto j = begins[static_cast<size_t>(g)]; j < begins[static_cast<size_t>(g) + 1]; ++j)
      for (int64_t o = g * vector; o < std::min((g + 1) * vector, count); ++o)
        all[static_cast<size_t>(output_at(o) * width + kept[static_cast<size_t>(j)])] =
            from[static_cast<size_t>(j * vector + o - g * vector)];
  return Tensor::from<float>(all, shape, values.device());
}

SparseWeight SparseWeight::to(Device device) const {
  SparseWeight copy = *this;
  for (Tensor* t : {&copy.values, &copy.columns, &copy.starts, &copy.outputs})
    if (t->defined()) *t = t->to(device);
  return copy;
}

bool SparseWeight::has_vectors_of(int64_t length) {
  return length == 4 || length == 8 || length == 16 || length == 32 || length == 64;
}

void SparseWeight::check_structure() const {
  const auto is_flat = [](const Tensor& t, DType dtype) {
    return t.defined() && t.dtype() == dtype && t.is_contiguous();
  };
  const bool is_whole =
      is_flat(values, DType::f32) && is_flat(columns, DType::i32) && is_flat(starts, DType::i32) &&
      columns.rank() == 1 && starts.rank() == 1 && (shape.rank() == 2 || shape.rank() == 4) &&
      has_vectors_of(vector) && values.rank() == 2 && values.size(0) == columns.numel() &&
      values.size(1) == vector && starts.numel() == groups_of(*this) + 1 &&
      (!outputs.defined() || (is_flat(outputs, DType::i32) && outputs.shape() == Shape{shape[0]}));
  BRIM_CHECK(is_whole, ValueError,
             "[sparse] values, columns and starts are no sparse weight of {} in vectors of {}",
             shape.str(), vector);
}

void SparseWeight::check() const {
  check_structure();
  const std::vector<int32_t> begins = starts.to_vector<int32_t>();
  BRIM_CHECK(
      begins.front() == 0 && begins.back() == columns.numel() && std::ranges::is_sorted(begins),
      ValueError, "[sparse] the starts of groups are not in order, or leave columns out");
  const int64_t width = matrix_of(shape).columns;
  const std::vector<int32_t> kept = columns.to_vector<int32_t>();
  std::vector<int64_t> group_of(static_cast<size_t>(width), -1);  // the last one that has it
  for (size_t g = 0; g + 1 < begins.size(); ++g)
    for (int32_t j = begins[g]; j < begins[g + 1]; ++j) {
      const int32_t column = kept[static_cast<size_t>(j)];
      BRIM_CHECK(column >= 0 && column < width, ValueError,
                 "[sparse] column {} of a weight {}, which has {}", column, shape.str(), width);
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

double SparseWeight::density() const {
  if (vector == 0) return 1;
  const int64_t all = groups_of(*this) * matrix_of(shape).columns;
  return all > 0 ? static_cast<double>(columns.numel()) / static_cast<double>(all) : 1;
}

int64_t SparseWeight::bytes() const {
  return 4 * (values.numel() + columns.numel() + starts.numel() +
              (outputs.defined() ? outputs.numel() : 0));
}

}  // namespace brim
