// A layer's weight without its columns of zeros, and for which inputs it is faster than the dense
// one.
#pragma once

#include <brim/ops/sparse.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace brim::nn {

class SparseForm {
 public:
  /// Throws ValueError where `weight` is none, or of another shape than `dense`.
  SparseForm(const Tensor& dense, SparseWeight weight);

  const SparseWeight& weight() const { return weight_; }
  /// Whether it stands for `dense` still, no gradients are wanted, and the device computes it.
  bool serves(const Tensor& x, const Tensor& dense) const;
  /// Whether it is for inputs of the shape and memory format of x, as was measured at the first of
  /// them. Safe in several threads.
  bool is_faster(const Tensor& x, const std::function<void(const Tensor& x)>& dense,
                 const std::function<void(const Tensor& x)>& sparse);

 private:
  const SparseWeight weight_;
  const Tensor dense_;  // holds the storage
  const uint32_t version_;
  std::mutex mutex_;
  std::map<std::pair<std::vector<int64_t>, bool>, bool> is_faster_;  // by sizes, and nhwc
};

}  // namespace brim::nn
