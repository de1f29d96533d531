// Fully connected layer.
#pragma once

#include <brim/nn/module.h>
#include <brim/ops/int8.h>
#include <brim/ops/sparse.h>
#include <brim/ops/sparse_int8.h>

namespace brim::nn {

class Int8Form;
class SparseForm;

/// y = x W^T + b. x: (.., in) -> (.., out). Weight (out, in) and bias (out) begin uniform in
/// +-1 / sqrt(in). Without `in`, x's last size is it at the first call, which makes both
/// (Module::initialize()).
class Linear : public Module {
 public:
  /// Options of Linear.
  struct Options {
    int64_t in = 0;                    ///< 0: inferred at the first call
    int64_t out = 0;                   ///< size of the last axis of the result
    bool bias = true;                  ///< false: nothing is added
    DType dtype = DType::f32;          ///< of the parameters
    Device device = default_device();  ///< of the parameters
  };
  explicit Linear(Options options);  ///< throws ValueError for sizes that are none
  Tensor forward(const Tensor& x) override;

  /// What the weight is without its columns of zeros: computed with where no gradient is wanted and
  /// that is faster, until the weight changes (compress::encode()).
  void use_sparse(SparseWeight weight);
  /// What the weight is in 8-bit integers, and the scale and zero point of inputs: computed with
  /// where no gradient is wanted, until the weight changes (compress::quantize()).
  void use_int8(Int8Weight weight, QuantParams input);
  /// The same without the integers' columns of zeros, where that is faster: the first call with a
  /// shape of inputs measures both.
  void use_sparse_int8(SparseInt8Weight weight, QuantParams input);
  /// The integers, zeros included, or null.
  const Int8Weight* int8_weight() const;
  /// Computes with the dense weight again.
  void use_dense();
  /// Other parameters, of other numbers of features. Throws ShapeError unless rank and bias are
  /// those of the layer.
  void replace(const Tensor& new_weight, const Tensor& new_bias = {});

  const Options& options = options_;  ///< `in` is what was inferred, after the first call
  Tensor& weight;                     ///< (out, in); undefined until `in` is known
  Tensor& bias;                       ///< undefined without bias

 protected:
  std::string options_str() const override;

 private:
  void infer_sizes(const Tensor& x);

  Options options_;
  std::shared_ptr<SparseForm> sparse_;
  std::shared_ptr<Int8Form> int8_;
};

}  // namespace brim::nn
