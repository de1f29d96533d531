// SparseInt8Weight: integers without their columns of zeros
#include <brim/ops/sparse_int8.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "backend/kernel.h"
#include "ops/checks.h"
#include "ops/int8/int8.h"
#include "ops/sparse/columns.h"

namespace brim {
namespace {

ops::SparseParts sparse_parts_of(const SparseInt8Weight& w) {
  return {w.shape, w.vector, w.values, w.columns, w.starts, w.outputs};
}

/// Enough for the order of every instruction set: up to 3 columns of zeros behind each group, all
/// of it in two orders, a count for each group, and what vectors read beyond the last one.
Shape sparse_packed_shape(const SparseInt8Weight& w) {
  const int64_t groups = sparse_parts_of(w).groups();
  return {2 * (w.columns.numel() + 3 * groups) * w.vector + 4 * groups + 64};
}

/// Brings columns together, two and two, whose products with u8 fit into an i16 together for each
/// output of the group, for instruction sets that multiply and add them so; others come last.
void pair_columns(ops::KeptColumns<int8_t>& kept, int64_t vector) {
  constexpr size_t kTries = 64;
  constexpr int kMaxSum = 128;
  const auto width = static_cast<size_t>(vector);
  const std::vector<int8_t> values = kept.values;
  const std::vector<int32_t> columns = kept.columns;
  const auto fit = [&](size_t a, size_t b) {
    for (size_t o = 0; o < width; ++o) {
      const int x = values[a * width + o], y = values[b * width + o];
      if ((x ^ y) >= 0 && (x + y > kMaxSum || x + y < -kMaxSum)) return false;
    }
    return true;
  };
  size_t at = 0;
  const auto put = [&](size_t j) {
    kept.columns[at] = columns[j];
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(j * width), width,
                kept.values.begin() + static_cast<std::ptrdiff_t>(at * width));
    ++at;
  };
  for (size_t g = 0; g + 1 < kept.starts.size(); ++g) {
    std::vector<size_t> open, alone;
    for (auto j = kept.starts[g]; j < kept.starts[g + 1]; ++j)
      open.push_back(static_cast<size_t>(j));
    for (size_t i = 0; i < open.size(); ++i) {
      const size_t end = std::min(open.size(), i + 1 + kTries);
      size_t other = i + 1;
      while (other < end && !fit(open[i], open[other])) ++other;
      if (other >= end) {
        alone.push_back(open[i]);
        continue;
      }
      put(open[i]);
      put(open[other]);
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(other));
    }
    for (const size_t j : alone) put(j);
  }
}

/// Of each output's values.
std::vector<int32_t> sparse_sums_of(const SparseInt8Weight& w) {
  const std::vector<int8_t> values = w.values.to_vector<int8_t>();
  const std::vector<int32_t> begins = w.starts.to_vector<int32_t>();
  const std::vector<int32_t> order =
      w.outputs.defined() ? w.outputs.to_vector<int32_t>() : std::vector<int32_t>();
  std::vector<int32_t> sums(static_cast<size_t>(w.shape[0]), 0);
  for (size_t g = 0; g + 1 < begins.size(); ++g)
    for (int32_t j = begins[g]; j < begins[g + 1]; ++j)
      for (int64_t i = 0; i < w.vector; ++i) {
        const int8_t value = values[static_cast<size_t>(j * w.vector + i)];
        BRIM_CHECK(value >= -127, ValueError, "[int8] a weight holds -128; the least is -127");
        const auto position = static_cast<size_t>(static_cast<int64_t>(g) * w.vector + i);
        if (position < sums.size())
          sums[order.empty() ? position : static_cast<size_t>(order[position])] += value;
      }
  return sums;
}

}  // namespace

SparseInt8Weight SparseInt8Weight::encode(const Int8Weight& weight, int64_t vector) {
  ops::check_defined("encode", weight.values);
  weight.check_structure();
  BRIM_CHECK(SparseWeight::has_vectors_of(vector), ValueError,
             "[encode] vectors of {}: give 4, 8, 16, 32 or 64", vector);
  const Device device = weight.values.device();
  const std::vector<int8_t> dense = weight.values.to_vector<int8_t>();
  auto kept = ops::keep_columns<int8_t>(dense, weight.shape(), vector, device);
  pair_columns(kept, vector);
  const int64_t count = std::ssize(kept.columns), starts = std::ssize(kept.starts);
  return of({.shape = weight.shape(),
             .vector = vector,
             .values = Tensor::from<int8_t>(kept.values, {count, vector}, device),
             .columns = Tensor::from<int32_t>(kept.columns, {count}, device),
             .starts = Tensor::from<int32_t>(kept.starts, {starts}, device),
             .outputs = kept.outputs,
             .scales = weight.scales,
             .correction = weight.correction});
}

SparseInt8Weight SparseInt8Weight::quantize(const Tensor& weight, int64_t vector) {
  return encode(Int8Weight::quantize(weight), vector);
}

SparseInt8Weight SparseInt8Weight::of(SparseInt8Weight parts) {
  static const backend::Kernel<void(const Context&, const Tensor& values, const Tensor& starts,
                                    Tensor& packed)>
      kernel("sparse_int8_pack", {.operands = "values, starts, packed"});
  ops::check_defined("int8", parts.values);
  ops::check_defined("int8", parts.scales);
  ops::check_int8_shape(parts.shape);
  for (Tensor* t : {&parts.values, &parts.columns, &parts.starts, &parts.outputs, &parts.scales,
                    &parts.correction})
    if (t->defined()) *t = t->detach().contiguous();
  sparse_parts_of(parts).check_structure(DType::i8);
  sparse_parts_of(parts).check_numbers();
  const Device device = parts.values.device();
  const int64_t outputs = parts.shape[0];
  BRIM_CHECK(parts.scales.dtype() == DType::f32 && parts.scales.shape() == Shape{outputs},
             ValueError, "[int8] scales {} {} of a weight {}", name(parts.scales.dtype()),
             parts.scales.shape().str(), parts.shape.str());
  ops::check_int8_scales(parts.scales, parts.correction, outputs, device);
  parts.sums = Tensor::from<int32_t>(sparse_sums_of(parts), {outputs}, device);
  parts.packed = Tensor::empty(sparse_packed_shape(parts), DType::i8, device);
  parts.check_structure();
  kernel(device, DType::i8, parts.values, parts.starts, parts.packed);
  return parts;
}

Int8Weight SparseInt8Weight::int8() const {
  check_structure();
  const ops::SparseParts parts = sparse_parts_of(*this);
  parts.check_numbers();
  return Int8Weight::of(
      Tensor::from<int8_t>(ops::with_zeros<int8_t>(parts), shape, values.device()), scales,
      correction);
}

Tensor SparseInt8Weight::dense() const {
  check_structure();
  const ops::SparseParts parts = sparse_parts_of(*this);
  parts.check_numbers();
  return Int8Weight{
      .values = Tensor::from<int8_t>(ops::with_zeros<int8_t>(parts), shape, values.device()),
      .scales = scales}
      .dense();
}

SparseInt8Weight SparseInt8Weight::to(Device device) const {
  SparseInt8Weight copy = *this;
  for (Tensor* t :
       {&copy.values, &copy.columns, &copy.starts, &copy.outputs, &copy.scales, &copy.correction})
    if (t->defined()) *t = t->to(device);
  return of(std::move(copy));
}

void SparseInt8Weight::check_structure() const {
  sparse_parts_of(*this).check_structure(DType::i8);
  const auto is = [](const Tensor& t, DType dtype, const Shape& of) {
    return t.defined() && t.dtype() == dtype && t.shape() == of && t.is_contiguous();
  };
  const Shape of_outputs{shape[0]};
  BRIM_CHECK(is(scales, DType::f32, of_outputs) && is(sums, DType::i32, of_outputs) &&
                 is(packed, DType::i8, sparse_packed_shape(*this)) &&
                 (!correction.defined() || is(correction, DType::f32, of_outputs)),
             ValueError,
             "[int8] the tensors are no weight; make one with SparseInt8Weight::encode or of()");
  for (const Tensor* t : {&columns, &starts, &outputs, &scales, &correction, &packed, &sums})
    if (t->defined()) ops::common_device("int8", values, *t);
}

double SparseInt8Weight::density() const { return sparse_parts_of(*this).density(); }

int64_t SparseInt8Weight::bytes() const {
  return values.numel() + sparse_parts_of(*this).bytes_of_index() +
         4 * (scales.numel() + (correction.defined() ? correction.numel() : 0));
}

}  // namespace brim
