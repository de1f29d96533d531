// conv2d, alone and with a ReLU behind it, and its two gradients, of weights that are row-major or
// nhwc: by cuDNN where it is there and can, else as matrix products whose operands are read where
// they lie (conv_operands.cuh).
#include "backend/cuda/conv/conv_dnn.cuh"
#include "backend/cuda/conv/conv_operands.cuh"
#include "backend/kernel.h"
#include "backend/options/geometry.h"
#include "backend/types.h"

namespace brim::cuda {
namespace {

using backend::ConvGeometry;

/// The groups: how far y, a and b are from those of the group before.
DeviceLoop<3> groups(const ConvGeometry& g, int64_t y, int64_t a, int64_t b) {
  backend::Loop<3> loop;
  loop.rank = 1;
  loop.numel = loop.size[0] = g.groups;
  loop.stride[0][0] = y, loop.stride[1][0] = a, loop.stride[2][0] = b;
  return DeviceLoop<3>(loop);
}

/// y = x * weight + bias, or the ReLU of it: (o x taps) (taps x pixels of y), for each group.
template <class T>
void own_conv2d(const Context& context, const Tensor& x, const Tensor& weight, const Tensor& bias,
                Tensor& y, const ConvGeometry& g, bool relu) {
  with_index(g, x, y, [&](auto index) {
    using Index = decltype(index);
    const Patches<T, Index, false> patches(x, g);
    const int64_t taps = g.c_per_group() * g.kh * g.kw;
    const Weights<T, Index> weights(weight, 0, patches.taps);
    const ToActivations<T, Index> out{static_cast<T*>(y.raw()),
                                      Activations<T, Index>(y),
                                      patches.pixels,
                                      bias.defined() ? static_cast<const T*>(bias.raw()) : nullptr,
                                      bias.defined() ? bias.strides()[0] : 0,
                                      g.o_per_group(),
                                      relu};
    gemm<Compute<T>>(context, weights, PixelRows<T, Index, false>(patches), out, g.o_per_group(),
                     g.n * g.oh * g.ow, taps,
                     groups(g, g.o_per_group() * y.strides()[1], g.o_per_group() * taps,
                            g.c_per_group() * x.strides()[1]));
  });
}

template <class T, bool kRelu>
void conv2d(const Context& context, const Tensor& x, const Tensor& weight, const Tensor& bias,
            Tensor& y, const ConvGeometry& g) {
  const auto own = [&](const Context& at) { own_conv2d<T>(at, x, weight, bias, y, g, kRelu); };
  if (!by_dnn<T>(context, ConvPass::forward, x, weight, {bias, kRelu}, y, g, own)) own(context);
}

/// dx: (c x taps of o) (taps x pixels of x), for each group.
template <class T>
void own_conv2d_grad_x(const Context& context, const Tensor& dy, const Tensor& weight, Tensor& dx,
                       const ConvGeometry& g) {
  with_index(g, dx, dy, [&](auto index) {
    using Index = decltype(index);
    const Patches<T, Index, true> patches(dy, g);
    const int64_t of_output = g.c_per_group() * g.kh * g.kw;  // weights of one output channel
    const Weights<T, Index> weights(weight, 1, patches.taps);
    const ToActivations<T, Index> out{static_cast<T*>(dx.raw()),
                                      Activations<T, Index>(dx),
                                      patches.pixels,
                                      nullptr,
                                      0,
                                      g.c_per_group(),
                                      false};
    gemm<Compute<T>>(context, weights, PixelRows<T, Index, true>(patches), out, g.c_per_group(),
                     g.n * g.h * g.w, g.o_per_group() * g.kh * g.kw,
                     groups(g, g.c_per_group() * dx.strides()[1], g.o_per_group() * of_output,
                            g.o_per_group() * dy.strides()[1]));
  });
}

template <class T>
void conv2d_grad_x(const Context& context, const Tensor& dy, const Tensor& weight, Tensor& dx,
                   const ConvGeometry& g) {
  const auto own = [&](const Context& at) { own_conv2d_grad_x<T>(at, dy, weight, dx, g); };
  if (!by_dnn<T>(context, ConvPass::grad_x, dx, weight, {}, dy, g, own)) own(context);
}

/// dw: (o x pixels of y) (pixels x taps), for each group.
template <class T>
void own_conv2d_grad_weight(const Context& context, const Tensor& x, const Tensor& dy, Tensor& dw,
                            const ConvGeometry& g) {
  with_index(g, x, dy, [&](auto index) {
    using Index = decltype(index);
    const Patches<T, Index, false> patches(x, g);
    const Activations<const T, Index> top(dy);
    const int64_t taps = g.c_per_group() * g.kh * g.kw;
    const ChannelRows<T, Index> rows{top.data, top, patches.pixels, !top.channels_last};
    const ToWeights<T, Index> out{static_cast<T*>(dw.raw()), Activations<T, Index>(dw),
                                  patches.taps};
    gemm<Compute<T>>(context, rows, TapRows<T, Index>(patches), out, g.o_per_group(), taps,
                     g.n * g.oh * g.ow,
                     groups(g, g.o_per_group() * taps, g.o_per_group() * dy.strides()[1],
                            g.c_per_group() * x.strides()[1]));
  });
}

template <class T>
void conv2d_grad_weight(const Context& context, const Tensor& x, const Tensor& dy, Tensor& dw,
                        const ConvGeometry& g) {
  const auto own = [&](const Context& at) { own_conv2d_grad_weight<T>(at, x, dy, dw, g); };
  if (!by_dnn<T>(context, ConvPass::grad_weight, x, dw, {}, dy, g, own)) own(context);
}

constexpr DeviceKind kCuda = DeviceKind::cuda;

const bool registered =
    backend::for_each_type(
        backend::Floats{},
        []<class T>(std::type_identity<T>) {
          backend::register_kernel("conv2d", kCuda, dtype_of<T>, &conv2d<T, false>);
          backend::register_kernel("conv2d_relu", kCuda, dtype_of<T>, &conv2d<T, true>);
          backend::register_kernel("conv2d_grad_x", kCuda, dtype_of<T>, &conv2d_grad_x<T>);
          backend::register_kernel("conv2d_grad_weight", kCuda, dtype_of<T>,
                                   &conv2d_grad_weight<T>);
        }) &&
    // Fastest in the activations' format, whatever they have.
    backend::register_converted("conv2d", kCuda, "weight") &&
    backend::register_converted("conv2d_relu", kCuda, "weight") &&
    backend::register_converted("conv2d_grad_x", kCuda, "weight") &&
    backend::register_converted("conv2d_grad_weight", kCuda, "dweight");

}  // namespace
}  // namespace brim::cuda
