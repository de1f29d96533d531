#include "backend/cpu/elementwise/rows_through_f32.h"

#include <algorithm>

namespace brim::cpu {
namespace {

// Of the largest tensor: a part, and a row that still is worth cutting off.
constexpr int64_t kPartElements = 16384, kMaxRowElements = 65536;

/// Elements from one of so many rows of `t` to the next: of all axes of a row-major tensor, else of
/// the first axis, where axes == 1 and it has `rows` entries. 0 where there are no such rows.
int64_t row_stride(const Tensor& t, int axes, int64_t rows) {
  if (t.is_contiguous()) return t.numel() % rows == 0 ? t.numel() / rows : 0;
  return axes == 1 && t.rank() > 0 && t.shape()[0] == rows ? t.strides()[0] : 0;
}

}  // namespace

RowParts::RowParts(std::span<const Tensor* const> cut, int axes) : axes_(axes) {
  int64_t elements = 0;
  for (int i = 0; i < axes; ++i) rows_ *= cut[0]->shape()[i];
  if (rows_ <= 1) return;
  for (const Tensor* t : cut) {
    if (row_stride(*t, axes, rows_) == 0) return;
    elements = std::max(elements, t->numel());
  }
  // Threads share parts: the whole kernel does better with a few long rows.
  if (elements / rows_ > kMaxRowElements || rows_ < num_threads()) return;
  count_ = std::clamp<int64_t>(elements / kPartElements, 1, rows_);
}

Tensor RowParts::part(const Tensor& t, int64_t index) const {
  const int64_t stride = row_stride(t, axes_, rows_);
  int64_t leading = 1;
  for (int i = 0; i < std::min(axes_, t.rank()); ++i) leading *= t.shape()[i];
  Shape shape;
  Strides strides;
  if (t.rank() >= axes_ && leading == rows_) {  // 1, ..., 1, rows, then the other axes
    shape = t.shape();
    strides = t.strides();
    for (int i = 0; i < axes_; ++i) {
      shape[i] = i + 1 < axes_ ? 1 : rows(index);
      strides[i] = i + 1 < axes_ ? stride * rows(index) : stride;
    }
  } else {
    shape = {rows(index), stride};
    strides = {stride, 1};
  }
  return t.alias(shape, strides, t.offset() + begin(index) * stride);
}

size_t RowParts::wide_bytes(const Tensor& t) const {
  if (!has_16_bits(t.dtype())) return 0;
  const int64_t max_rows = (rows_ + count_ - 1) / count_;
  return room_for<float>(max_rows * (t.numel() / rows_));
}

}  // namespace brim::cpu
