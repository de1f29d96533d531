// What a layer computes with in place of its dense weight, where no gradient is wanted.
#pragma once

#include <brim/ops/int8.h>
#include <brim/ops/sparse.h>
#include <brim/ops/sparse_int8.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "nn/modes.h"

namespace brim::nn {

/// In this scope layers with a sparse form compute with their dense weight, which it is as well.
class DenseLayers {
 public:
  DenseLayers();
  ~DenseLayers();
  DenseLayers(const DenseLayers&) = delete;
  DenseLayers& operator=(const DenseLayers&) = delete;
  static bool wanted();  ///< of this thread

 private:
  const bool before_;
};

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

/// For which inputs a way to compute a layer is faster than another one with the same results.
class FasterForm {
 public:
  /// Whether `sparse` is for inputs of the shape and memory format of x, as was measured at the
  /// first of them. Safe in several threads.
  bool is_sparse_faster(const Tensor& x, const std::function<void(const Tensor& x)>& dense,
                        const std::function<void(const Tensor& x)>& sparse);

 private:
  std::mutex mutex_;
  std::map<std::pair<std::vector<int64_t>, bool>, bool> known_;  // by sizes, and nhwc
};

/// The weight without its columns of zeros, where that is faster.
class SparseForm : public InferenceForm {
 public:
  /// Throws ValueError where `weight` is none, or of another shape than `dense`.
  SparseForm(const Tensor& dense, SparseWeight weight);

  const SparseWeight& weight() const { return weight_; }
  /// As FasterForm has it.
  bool is_faster(const Tensor& x, const std::function<void(const Tensor& x)>& dense,
                 const std::function<void(const Tensor& x)>& sparse) {
    return faster_.is_sparse_faster(x, dense, sparse);
  }

 private:
  const SparseWeight weight_;
  FasterForm faster_;
};

/// The weight in 8-bit integers, and the scale and zero point of inputs. It is not measured whether
/// that is faster than f32, because results differ; but whether it is to leave columns of zeros
/// out.
class Int8Form : public InferenceForm {
 public:
  /// Throws ValueError where `weight` is of another shape than `dense`, or input no parameters.
  Int8Form(const Tensor& dense, Int8Weight weight, QuantParams input);
  Int8Form(const Tensor& dense, SparseInt8Weight weight, QuantParams input);

  /// Of x in f32: as linear() and conv2d() with the weight.
  Tensor linear(const Tensor& x, const Tensor& bias);
  Tensor conv2d(const Tensor& x, const Tensor& bias, const Conv2dOptions& options);
  const char* name() const { return is_sparse() ? "sparse int8" : "int8"; }
  const Int8Weight& weight() const { return weight_; }  ///< zeros included

 private:
  bool is_sparse() const { return sparse_.values.defined(); }

  const Int8Weight weight_;
  const SparseInt8Weight sparse_;  // the same; empty where there are no columns of zeros
  const QuantParams input_;
  FasterForm faster_;
};

/// Which one a layer has, for str(): ", sparse int8", or nothing.
std::string form_str(const std::shared_ptr<Int8Form>& int8,
                     const std::shared_ptr<SparseForm>& sparse);

}  // namespace brim::nn
