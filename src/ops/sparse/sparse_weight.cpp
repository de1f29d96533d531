// SparseWeight: weights without their columns of zeros
#include <brim/ops/sparse.h>

#include <limits>
#include <vector>

#include "ops/checks.h"
#include "ops/sparse/columns.h"

namespace brim {
namespace {

ops::SparseParts parts_of(const SparseWeight& w) {
  return {w.shape, w.vector, w.values, w.columns, w.starts, w.outputs};
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
  const int64_t columns = weight.size(0) > 0 ? weight.numel() / weight.size(0) : 0;
  BRIM_CHECK(columns <= std::numeric_limits<int32_t>::max(), ShapeError,
             "[encode] {} has too many columns", weight.shape().str());
  const Device device = weight.device();
  const std::vector<float> dense = weight.detach().to_vector<float>();
  auto kept = ops::keep_columns<float>(dense, weight.shape(), vector, device);
  const int64_t count = std::ssize(kept.columns), starts = std::ssize(kept.starts);
  return {.shape = weight.shape(),
          .vector = vector,
          .values = Tensor::from<float>(kept.values, {count, vector}, device),
          .columns = Tensor::from<int32_t>(kept.columns, {count}, device),
          .starts = Tensor::from<int32_t>(kept.starts, {starts}, device),
          .outputs = kept.outputs};
}

Tensor SparseWeight::dense() const {
  check();
  return Tensor::from<float>(ops::with_zeros<float>(parts_of(*this)), shape, values.device());
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

void SparseWeight::check_structure() const { parts_of(*this).check_structure(DType::f32); }

void SparseWeight::check() const {
  check_structure();
  parts_of(*this).check_numbers();
}

double SparseWeight::density() const { return parts_of(*this).density(); }

int64_t SparseWeight::bytes() const {
  return 4 * values.numel() + parts_of(*this).bytes_of_index();
}

}  // namespace brim
