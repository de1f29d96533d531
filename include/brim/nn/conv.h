// Convolution layers.
#pragma once

#include <brim/nn/module.h>
#include <brim/ops/conv.h>
#include <brim/ops/int8.h>
#include <brim/ops/sparse.h>
#include <brim/ops/sparse_int8.h>

namespace brim::nn {

class Int8Form;
class SparseForm;

/// conv2d(x, weight, bias). x: (N, in, H, W) -> (N, out, OH, OW). Weight (out, in / groups, KH, KW)
/// and bias (out) begin uniform in +-1 / sqrt(in / groups * KH * KW). Without `in`, the channels of
/// x are it at the first call, which makes both (Module::initialize()).
class Conv2d : public Module {
 public:
  /// Options of Conv2d.
  struct Options {
    int64_t in = 0;                    ///< 0: inferred at the first call
    int64_t out = 0;                   ///< channels of the result; a multiple of groups
    Pair kernel = 0;                   ///< height and width
    Pair stride = 1;                   ///< pixels from window to window
    Pair padding = 0;                  ///< zeros at each side
    Pair dilation = 1;                 ///< pixels from tap to tap
    int64_t groups = 1;                ///< channels are convolved in so many groups by themselves
    bool bias = true;                  ///< false: nothing is added
    DType dtype = DType::f32;          ///< of the parameters
    Device device = default_device();  ///< of the parameters
  };
  explicit Conv2d(Options options);  ///< throws ValueError for options out of range
  Tensor forward(const Tensor& x) override;

  /// As Linear::use_sparse().
  void use_sparse(SparseWeight weight);
  /// As Linear::use_int8(). The layer then computes in nhwc, and so is its output.
  void use_int8(Int8Weight weight, QuantParams input);
  /// As Linear::use_sparse_int8(). The output is nhwc, or has the memory format of the input.
  void use_sparse_int8(SparseInt8Weight weight, QuantParams input);
  const Int8Weight* int8_weight() const;  ///< null without one
  void use_dense();                       ///< as Linear::use_dense()
  /// Other parameters, of other numbers of channels; a depthwise layer stays one. Throws ShapeError
  /// unless kernel, rank and bias are those of the layer.
  void replace(const Tensor& new_weight, const Tensor& new_bias = {});

  const Options& options = options_;  ///< `in` is what was inferred, after the first call
  Tensor& weight;                     ///< (out, in / groups, KH, KW); undefined until `in` is known
  Tensor& bias;                       ///< undefined without bias

 protected:
  std::string options_str() const override;

 private:
  Options options_;
  std::shared_ptr<SparseForm> sparse_;
  std::shared_ptr<Int8Form> int8_;
};

/// conv1d(x, weight, bias). x: (N, in, L) -> (N, out, OL). Weight (out, in / groups, K) and bias
/// (out) begin uniform in +-1 / sqrt(in / groups * K). Without `in` as Conv2d.
class Conv1d : public Module {
 public:
  /// Options of Conv1d.
  struct Options {
    int64_t in = 0;                    ///< 0: inferred at the first call
    int64_t out = 0;                   ///< channels of the result; a multiple of groups
    int64_t kernel = 0;                ///< taps
    int64_t stride = 1;                ///< elements from window to window
    int64_t padding = 0;               ///< zeros at each end
    int64_t dilation = 1;              ///< elements from tap to tap
    int64_t groups = 1;                ///< channels are convolved in so many groups by themselves
    bool bias = true;                  ///< false: nothing is added
    DType dtype = DType::f32;          ///< of the parameters
    Device device = default_device();  ///< of the parameters
  };
  explicit Conv1d(Options options);  ///< Throws ValueError for options out of range
  Tensor forward(const Tensor& x) override;

  const Options& options = options_;  ///< `in` is what was inferred, after the first call
  Tensor& weight;                     ///< (out, in / groups, K); undefined until `in` is known
  Tensor& bias;                       ///< undefined without bias

 protected:
  std::string options_str() const override;

 private:
  Options options_;
};

/// conv_transpose2d(x, weight, bias). x: (N, in, H, W) -> (N, out, OH, OW). Weight (in, out /
/// groups, KH, KW) and bias (out) begin uniform in +-1 / sqrt(out / groups * KH * KW). Without `in`
/// as Conv2d.
class ConvTranspose2d : public Module {
 public:
  /// Options of ConvTranspose2d.
  struct Options {
    int64_t in = 0;                    ///< 0: inferred at the first call
    int64_t out = 0;                   ///< channels of the result; a multiple of groups
    Pair kernel = 0;                   ///< height and width
    Pair stride = 1;                   ///< by how much the result is larger
    Pair padding = 0;                  ///< pixels cut off each side of the result
    Pair output_padding = 0;           ///< rows and columns more at its end
    Pair dilation = 1;                 ///< pixels from tap to tap
    int64_t groups = 1;                ///< channels are convolved in so many groups by themselves
    bool bias = true;                  ///< false: nothing is added
    DType dtype = DType::f32;          ///< of the parameters
    Device device = default_device();  ///< of the parameters
  };
  explicit ConvTranspose2d(Options options);  ///< Throws ValueError for options out of range
  Tensor forward(const Tensor& x) override;

  const Options& options = options_;  ///< `in` is what was inferred, after the first call
  Tensor& weight;                     ///< (in, out / groups, KH, KW); undefined until `in` is known
  Tensor& bias;                       ///< undefined without bias

 protected:
  std::string options_str() const override;

 private:
  Options options_;
};

}  // namespace brim::nn
