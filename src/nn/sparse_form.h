// A layer's weight without its columns of zeros, and for which inputs it is faster than the dense
// one.
#pragma once

#include <brim/ops/sparse.h>

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

namespace brim::nn {

class SparseForm {
 public:
  SparseForm(const Tensor& dense, SparseWeight weight);

  const SparseWeight& weight() const { return weight_; }
  /// Whether it stands for `dense` still, no gradients are wanted, and the device computes it.
  bool serves(const Tensor& x, const Tensor& dense) const;
  /// What is faster for inputs of the shape and memory format of x, measured at the first of them.
  bool is_faster(const Tensor& x, const std::function<void(const Tensor& x)>& dense,
                 const std::function<void(const Tensor& x)>& sparse);

 private:
  SparseWeight weight_;
  const Storage* storage_;
  uint32_t version_;
  std::map<std::pair<std::vector<int64_t>, bool>, bool> is_faster_;  // by sizes, and nhwc
};

}  // namespace brim::nn
