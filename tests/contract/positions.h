// For references of ops that move elements: tensors built from a function of the position.
#pragma once

#include <cstdint>
#include <vector>

#include "contract/contract.h"

namespace brim::contract {

inline const std::vector<DType> kAllDTypes = {f32, f64, f16, bf16, i64, i32, i8, u8, bool_};
/// For cases whose gradient adds up several outputs: the sum has no kernel for 16-bit floats.
inline const std::vector<DType> kSummedDTypes = {f32, f64, i64, i32, i8, u8, bool_};

/// Reads a tensor by position, on the host.
class Reader {
 public:
  explicit Reader(const Tensor& x) : shape_(x.shape()), values_(values(x)) {}
  const Shape& shape() const { return shape_; }
  double operator()(const Shape& at) const {
    int64_t i = 0;
    for (int d = 0; d < shape_.rank(); ++d) i = i * shape_[d] + at[d];
    return values_.at(static_cast<size_t>(i));
  }

 private:
  Shape shape_;
  std::vector<double> values_;
};

/// Calls f(position) for every position of `shape`, in row-major order.
template <class F>
void for_each_position(const Shape& shape, const F& f) {
  for (int64_t i = 0; i < shape.numel(); ++i) {
    Shape at = shape;
    int64_t rest = i;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      at[d] = rest % shape[d];
      rest /= shape[d];
    }
    f(at);
  }
}

/// The f64 tensor (or of `dtype`) whose element at a position is f(position).
template <class F>
Tensor build(const Shape& shape, const F& f, DType dtype = f64) {
  std::vector<double> v;
  for_each_position(shape, [&](const Shape& at) { v.push_back(f(at)); });
  return array(v, shape, dtype);
}

/// `shape` with another size on one axis.
inline Shape with_size(Shape shape, int axis, int64_t size) {
  shape[axis] = size;
  return shape;
}

}  // namespace brim::contract
