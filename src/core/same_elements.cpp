#include "core/same_elements.h"

namespace brim {

bool same_view(const Tensor& a, const Tensor& b) {
  return a.storage() == b.storage() && a.shape() == b.shape() && a.strides() == b.strides() &&
         a.offset() == b.offset() && a.dtype() == b.dtype();
}

bool same_elements(const Tensor& a, const Tensor& b) {
  return same_view(a, b) ||
         (a.storage() == b.storage() && a.offset() == b.offset() && a.numel() == b.numel() &&
          a.dtype() == b.dtype() && a.is_contiguous() && b.is_contiguous());
}

bool covers_storage(const Tensor& t) {
  if (static_cast<size_t>(t.numel()) * size_of(t.dtype()) != t.storage()->bytes()) return false;
  int64_t last = t.offset();  // dense if the farthest element is the last one and none repeats
  for (int i = 0; i < t.rank(); ++i) {
    if (t.shape()[i] > 1 && t.strides()[i] <= 0) return false;
    last += (t.shape()[i] - 1) * t.strides()[i];
  }
  return t.offset() == 0 && last == t.numel() - 1;
}

}  // namespace brim
