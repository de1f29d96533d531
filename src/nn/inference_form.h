// What a layer computes with in place of its dense weight, where no gradient is wanted.
#pragma once

#include <brim/ops/int8.h>
#include <brim/ops/sparse.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "nn/modes.h"

namespace brim::nn {

class InferenceForm {
 public:
  virtual ~InferenceForm() = default;
  /// Whether it stands for `dense` still, no gradients are wanted, and the device computes it. A
  /// recorded step is recorded anew once the weight has been written.
  bool serves(const Tensor& x, const Tensor& dense) const;

 protected:
  InferenceForm(const Tensor& dense, Device device);

 private:
  const Tensor dense_;  // holds the storage
  const uint32_t version_;
  const Device device_;  // of the form
  const ModeKey key_;    // of its layer, which computes with it
};

/// The weight without its columns of zeros, and for which inputs it is faster than the dense one.
class SparseForm : public InferenceForm {
 public:
  /// Throws ValueError where `weight` is none, or of another shape than `dense`.
  SparseForm(const Tensor& dense, SparseWeight weight);

  const SparseWeight& weight() const { return weight_; }
  /// Whether it is for inputs of the shape and memory format of x, as was measured at the first of
  /// them. Safe in several threads.
  bool is_faster(const Tensor& x, const std::function<void(const Tensor& x)>& dense,
                 const std::function<void(const Tensor& x)>& sparse);

 private:
  const SparseWeight weight_;
  std::mutex mutex_;
  std::map<std::pair<std::vector<int64_t>, bool>, bool> is_faster_;  // by sizes, and nhwc
};

/// The weight in 8-bit integers, and the scale and zero point of inputs. It is not measured whether
/// that is faster, because results differ.
class Int8Form : public InferenceForm {
 public:
  /// Throws ValueError where `weight` is of another shape than `dense`, or input no parameters.
  Int8Form(const Tensor& dense, Int8Weight weight, QuantParams input);

  const Int8Weight& weight() const { return weight_; }
  QuantParams input() const { return input_; }

 private:
  const Int8Weight weight_;
  const QuantParams input_;
};

}  // namespace brim::nn
