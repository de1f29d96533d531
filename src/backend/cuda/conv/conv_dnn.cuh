// Convolutions by cuDNN, and what is queued around them: copies of weights, the bias, the ReLU.
#pragma once

#include <brim/core/tf32.h>

#include <utility>

#include "backend/cuda/elementwise/cast.cuh"
#include "backend/cuda/elementwise/channels.cuh"
#include "backend/cuda/elementwise/elementwise.cuh"
#include "backend/cuda/libraries/dnn.h"
#include "backend/options/geometry.h"

namespace brim::cuda {

/// What stands behind a convolution: a bias of each channel, unless it is undefined; a ReLU.
struct Epilogue {
  Tensor bias;
  bool relu = false;

  bool is_empty() const { return !bias.defined() && !relu; }
};

/// An epilogue as a pass over y.
template <class T>
struct EpiloguePass {
  using Of = Compute<T>;
  const T* bias;  // or null
  bool relu;
  T* y;

  template <int N>
  __device__ void of_channels(int64_t c, Of* of) const {
    T b[N] = {};
    if (bias) load(bias + c, b);
#pragma unroll
    for (int k = 0; k < N; ++k) of[k] = widen(b[k]);
  }
  template <int Width>
  __device__ void apply(int64_t i, const Of* of, int step) const {
    using P = Pack<T, Width>;
    P pack = reinterpret_cast<const P*>(y)[i];
#pragma unroll
    for (int k = 0; k < Width; ++k) {
      Of sum = widen(pack.at[k]);
      if (bias) sum += of[k * step];
      if (relu) sum = sum < Of(0) ? Of(0) : sum;
      pack.at[k] = narrow<T>(sum);
    }
    reinterpret_cast<P*>(y)[i] = pack;
  }
  template <int Width>
  bool is_aligned() const {
    return aligned<Width>(y);
  }
  template <int N>
  bool loadable() const {
    return cuda::loadable<N>(bias);
  }
};

/// Copies weights between row-major and nhwc.
template <class T>
void convert_weights(const Context& context, const Shape& shape, const T* from,
                     const Strides& from_strides, T* to, const Strides& to_strides) {
  const auto loop = backend::make_loop<2>(shape, {to_strides, from_strides});
  launch(context, &strided_kernel<Cast<T>, T, T>, grid_for(loop.numel), Cast<T>{},
         DeviceLoop<2>(loop), to, from);
}

/// Whether cuDNN has done the pass; `own` queues it by our kernels.
template <class T>
bool by_dnn(const Context& context, ConvPass pass, const Tensor& x, const Tensor& weight,
            const Epilogue& epilogue, const Tensor& y, const backend::ConvGeometry& g,
            const Work& own) {
  const Tensor& bias = epilogue.bias;
  const bool planes = x.is_contiguous() && y.is_contiguous();
  const bool pixels = x.is_contiguous(MemoryFormat::nhwc) && y.is_contiguous(MemoryFormat::nhwc);
  if (g.work() == 0 || !(planes || pixels) || (bias.defined() && !bias.is_contiguous()))
    return false;
  // Where activations have one channel or one pixel, they are both: then weights decide.
  const bool nhwc = pixels && !(planes && weight.is_contiguous());
  const MemoryFormat format = nhwc ? MemoryFormat::nhwc : MemoryFormat::nchw;
  const auto convert = [&](const Context& at, const void* from, void* to) {
    Strides read = weight.strides(), written = strides_of(weight.shape(), format);
    if (pass == ConvPass::grad_weight) std::swap(read, written);
    convert_weights<T>(at, weight.shape(), static_cast<const T*>(from), read, static_cast<T*>(to),
                       written);
  };
  const auto finish = [&](const Context& at) {
    run_pass<T>(at,
                EpiloguePass<T>{optional<const T>(bias), epilogue.relu, static_cast<T*>(y.raw())},
                Channels(y));
  };
  return dnn_conv(
      context,
      {.pass = pass,
       .dtype = dtype_of<T>,
       .tf32 = Tf32::allowed(),
       .nhwc = nhwc,
       .geometry = g,
       .x = x.raw(),
       .weight = weight.raw(),
       .y = y.raw(),
       .convert_weights = weight.is_contiguous(format) ? nullptr : ConvertWeights(convert),
       .epilogue = epilogue.is_empty() ? Work() : Work(finish),
       .bias = bias.defined() ? bias.raw() : nullptr,
       .relu = epilogue.relu},
      own);
}

}  // namespace brim::cuda
