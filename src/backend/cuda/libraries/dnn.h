// Convolution by NVIDIA's library. Opened at run time: without it, brim's own kernels compute.
#pragma once

#include <functional>
#include <string>

#include <brim/core/dtype.h>

#include "backend/geometry.h"
#include "core/context.h"

namespace brim::cuda {

enum class ConvPass { forward, grad_x, grad_weight };

/// A convolution y = x * weight + bias or a gradient of it (which of the three is written says the
/// pass). Activations are row-major, or all nhwc; weight and bias (may be null) are contiguous. No
/// size is 0.
struct DnnConv {
  ConvPass pass;
  DType dtype;  // f32, f64, f16 or bf16
  bool tf32;    // floats of 32 bits may be multiplied as TF32
  bool nhwc;
  backend::ConvGeometry geometry;
  void *x, *weight, *y;
  const void* bias = nullptr;
};

/// Queues the convolution. False, with nothing queued that matters, where cuDNN is not there or has
/// no algorithm for it whose result repeats itself, or `own`, which queues the convolution by
/// brim's own kernels, was measured to be faster. Throws DeviceError if the library fails.
bool dnn_conv(const Context& context, const DnnConv& conv, const std::function<void()>& own);

/// Why there is no cuDNN, and what to install; empty if there is.
std::string dnn_problem();

}  // namespace brim::cuda
