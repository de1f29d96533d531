// Convolution, average pooling and batch normalisation by NVIDIA's library. Opened at run time:
// without it, brim's own kernels compute.
#pragma once

#include <functional>
#include <string>

#include <brim/core/dtype.h>

#include "backend/cuda/libraries/work.h"
#include "backend/options/geometry.h"
#include "core/context.h"

namespace brim::cuda {

enum class ConvPass { forward, grad_x, grad_weight };

/// Queues a copy of weights in another memory format.
using ConvertWeights = std::function<void(const Context&, const void* from, void* to)>;

/// A convolution y = x * weight or a gradient of it (which of the three is written says the pass).
/// Activations are row-major, or all nhwc, and cuDNN wants weights in the same format. Where they
/// have the other one there is `convert_weights`: to cuDNN's format or, of their gradient, from it.
/// No size is 0.
struct DnnConv {
  ConvPass pass;
  DType dtype;  // f32, f64, f16 or bf16
  bool tf32;    // floats of 32 bits may be multiplied as TF32
  bool nhwc;
  backend::ConvGeometry geometry;
  void *x, *weight, *y;
  ConvertWeights convert_weights = nullptr;
  Work epilogue = nullptr;     // to be queued behind it, if anything, unless cuDNN does the same:
  const void* bias = nullptr;  // add these, o elements side by side, if they are there,
  bool relu = false;           // then make 0 what is negative
};

/// Queues the convolution. False, with nothing queued that matters, where cuDNN is not there or has
/// no algorithm for it whose result repeats itself, or `own`, which queues the convolution by
/// brim's own kernels, was measured to be faster, or there is no room for what cuDNN works in, or
/// an address is no multiple of 16. Throws DeviceError if the library fails.
bool dnn_conv(const Context& context, const DnnConv& conv, const Work& own);

/// Average pooling: x and y are row-major, or both nhwc. Windows lie within the padded image.
struct DnnAvgPool {
  DType dtype;  // f32, f64, f16 or bf16
  bool nhwc;
  backend::PoolGeometry geometry;  // of no dilation
  const void* x;
  void* y;
};

/// Batch normalisation in training. Activations are n images of `pixels` and c channels, row-major
/// or nhwc; the rest has c elements. `scale` is 1 / sqrt(variance + eps).
struct DnnBatchNorm {
  DType dtype;       // f32, f64, f16 or bf16
  DType parameters;  // of all that has c elements: f64 beside f64, else f32
  bool nhwc;
  int64_t n, c, pixels;
  const void *x, *weight, *bias;
  void *y, *mean, *scale, *running_mean, *running_var;  // the last two may be null
  double momentum, eps;
};
/// Its gradient.
struct DnnBatchNormGrad {
  DType dtype, parameters;
  bool nhwc;
  int64_t n, c, pixels;
  const void *dy, *x, *weight, *mean, *scale;
  void *dx, *dweight, *dbias;
};

/// Queues the update of running statistics, at these addresses, by mean and scale.
using UpdateStatistics = std::function<void(const Context&, void* running_mean, void* running_var)>;

/// y = relu(batch_norm(x) + residual) in training. All begins at a multiple of 16 bytes.
struct DnnBatchNormRelu {
  DnnBatchNorm norm;
  const void* residual;
  UpdateStatistics update;  // where there are running statistics
};

/// Queues the op. False, with nothing queued that matters, where `own`, which queues it by brim's
/// own kernel but leaves running statistics alone, is to do it: cuDNN is not there, or its results
/// differ by more than rounding, or it was not measured to be faster. Throws DeviceError if the
/// library fails.
bool dnn_avg_pool(const Context& context, const DnnAvgPool& pool, const Work& own);
bool dnn_batch_norm(const Context& context, const DnnBatchNorm& norm, const Work& own);
bool dnn_batch_norm_grad(const Context& context, const DnnBatchNormGrad& norm, const Work& own);
bool dnn_batch_norm_relu(const Context& context, const DnnBatchNormRelu& norm, const Work& own);

/// Why there is no cuDNN, and what to install; empty if there is.
std::string dnn_problem();
/// "cuDNN 91900", or "no cuDNN".
std::string dnn_version();

}  // namespace brim::cuda
