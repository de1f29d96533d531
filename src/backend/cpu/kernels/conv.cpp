// conv2d, alone and with a ReLU behind it, and its two gradients on the CPU. Strides decide:
// activations are either all row-major or all nhwc. Weights that are nhwc are copied to row-major
// first, and their gradient back.
#include <brim/core/tensor.h>

#include <optional>

#include "backend/cpu/conv/conv_blocks.h"
#include "backend/cpu/conv/conv_col2im.h"
#include "backend/cpu/conv/conv_depthwise.h"
#include "backend/cpu/conv/conv_direct.h"
#include "backend/cpu/conv/conv_dnnl.h"
#include "backend/cpu/conv/conv_nhwc.h"
#include "backend/cpu/conv/conv_pointwise_bf16.h"
#include "backend/cpu/conv/conv_winograd.h"
#include "backend/cpu/conv/image_formats.h"
#include "backend/cpu/elementwise/through_f32.h"
#include "backend/cpu/elementwise/transpose.h"
#include "backend/kernel.h"

namespace brim::cpu {
namespace {

using backend::ConvGeometry;

template <class T>
const T* address(const Tensor& x) {
  return x.defined() ? static_cast<const T*>(x.raw()) : nullptr;
}

/// Row-major activations: direct sums, or oneDNN where it is the faster one.
template <class T>
void run_planes(const Context& context, ConvPass pass, const ConvGeometry& g, const T* a,
                const T* b, const ConvEpilogue<T>& epilogue, T* out) {
  if constexpr (sizeof(T) == sizeof(float))
    if (dnnl_conv_wins(pass, g)) return conv_dnnl(context, pass, g, a, b, epilogue, out);
  switch (pass) {
    case ConvPass::forward:
      return conv_direct(context, a, b, epilogue, out, g);
    case ConvPass::grad_x:
      return conv_direct_grad_x(context, a, b, out, g);
    case ConvPass::grad_weight:
      return conv_direct_grad_weight(context, a, b, out, g);
  }
}

/// A pass through copies of the activations in the other memory format: `run(a, b, out)`.
template <class T, class Run>
void run_turned(const Context& context, bool from_nhwc, ConvPass pass, const ConvGeometry& g,
                const T* a, const T* b, T* out, const Run& run) {
  const int64_t x_size = g.x_shape().numel(), y_size = g.y_shape().numel();
  const Workspace scratch = context.workspace(static_cast<size_t>(x_size + y_size) * sizeof(T));
  T *x = scratch.as<T>(), *y = x + x_size;
  const auto turn = [&](const T* from, int64_t channels, int64_t pixels, bool to_planes, T* to) {
    transpose(from, g.n, to_planes ? pixels : channels, to_planes ? channels : pixels, to);
  };
  const auto turn_x = [&](const T* from, bool to_planes, T* to) {
    turn(from, g.c, g.h * g.w, to_planes, to);
  };
  const auto turn_y = [&](const T* from, bool to_planes, T* to) {
    turn(from, g.o, g.oh * g.ow, to_planes, to);
  };
  switch (pass) {
    case ConvPass::forward:
      turn_x(a, from_nhwc, x);
      run(x, b, y);
      return turn_y(y, !from_nhwc, out);
    case ConvPass::grad_x:
      turn_y(a, from_nhwc, y);
      run(y, b, x);
      return turn_x(x, !from_nhwc, out);
    case ConvPass::grad_weight:
      turn_x(a, from_nhwc, x);
      turn_y(b, from_nhwc, y);
      return run(x, y, out);
  }
}

template <class T>
void run(const Context& context, bool nhwc, ConvPass pass, const ConvGeometry& g, const T* a,
         const T* b, const ConvEpilogue<T>& epilogue, T* out) {
  if (conv_blocks_supports(pass, g)) return conv_blocks_grad_x(context, nhwc, g, a, b, out);
  if (conv_col2im_wins<T>(pass, nhwc, g)) return conv_col2im_grad_x(context, nhwc, g, a, b, out);
  if (nhwc && is_depthwise(g)) return conv_depthwise(context, pass, g, a, b, epilogue, out);
  if constexpr (sizeof(T) == sizeof(float)) {
    const auto by_winograd = [&](const T* p, const T* q, T* to) {
      conv_winograd(context, pass, g, p, q, epilogue, to);
    };
    if (winograd_wins(pass, g))
      return nhwc ? by_winograd(a, b, out)
                  : run_turned(context, false, pass, g, a, b, out, by_winograd);
    const auto by_pixels = [&](const T* p, const T* q, T* to) {
      conv_nhwc(context, pass, g, p, q, epilogue, to);
    };
    if (nhwc && conv_nhwc_supports(pass, g)) return by_pixels(a, b, out);
    if (!nhwc && conv_nhwc_wins(pass, g))
      return run_turned(context, false, pass, g, a, b, out, by_pixels);
  }
  if (!nhwc) return run_planes(context, pass, g, a, b, epilogue, out);
  run_turned(context, true, pass, g, a, b, out, [&](const T* p, const T* q, T* to) {
    run_planes(context, pass, g, p, q, epilogue, to);
  });
}

/// Room for weights in row-major order, where they are nhwc.
template <class T>
std::optional<Workspace> room_for(const Context& context, const Tensor& weight) {
  if (weight.is_contiguous()) return {};
  return std::optional<Workspace>(std::in_place, static_cast<size_t>(weight.numel()) * sizeof(T),
                                  context.stream, context.scratch);
}

/// The row-major elements of weights: their own, or those in `scratch`.
template <class T>
const T* row_major(const Tensor& weight, const std::optional<Workspace>& scratch,
                   const ConvGeometry& g) {
  if (!scratch) return address<T>(weight);
  transpose(address<T>(weight), g.o, g.kh * g.kw, g.c_per_group(), scratch->as<T>());
  return scratch->as<T>();
}

template <class T>
bool set_zero_if_empty(Tensor& y, const ConvGeometry& g) {
  if (g.work() != 0) return false;
  std::fill_n(static_cast<T*>(y.raw()), y.numel(), T(0));
  return true;
}

template <class T, bool kRelu>
void conv2d(const Context& context, const Tensor& x, const Tensor& weight, const Tensor& bias,
            Tensor& y, const ConvGeometry& g) {
  if (y.numel() == 0) return;
  const Tensor dense = bias.defined() ? bias.contiguous() : bias;
  const auto scratch = room_for<T>(context, weight);
  run<T>(context, are_nhwc(x, y), ConvPass::forward, g, address<T>(x),
         row_major<T>(weight, scratch, g), {address<T>(dense), kRelu}, static_cast<T*>(y.raw()));
}

template <class T>
void conv2d_grad_x(const Context& context, const Tensor& dy, const Tensor& weight, Tensor& dx,
                   const ConvGeometry& g) {
  if (set_zero_if_empty<T>(dx, g)) return;
  const auto scratch = room_for<T>(context, weight);
  run<T>(context, are_nhwc(dy, dx), ConvPass::grad_x, g, address<T>(dy),
         row_major<T>(weight, scratch, g), {}, static_cast<T*>(dx.raw()));
}

template <class T>
void conv2d_grad_weight(const Context& context, const Tensor& x, const Tensor& dy, Tensor& dw,
                        const ConvGeometry& g) {
  if (set_zero_if_empty<T>(dw, g)) return;
  const auto scratch = room_for<T>(context, dw);
  T* const out = scratch ? scratch->template as<T>() : static_cast<T*>(dw.raw());
  run<T>(context, are_nhwc(x, dy), ConvPass::grad_weight, g, address<T>(x), address<T>(dy), {},
         out);
  if (scratch) transpose<T>(out, g.o, g.c_per_group(), g.kh * g.kw, static_cast<T*>(dw.raw()));
}

/// Of bf16: 1x1 kernels by products of bf16 where the CPU has them, the rest by way of f32.
template <bool kRelu>
void conv2d_bf16(const Context& context, const Tensor& x, const Tensor& weight, const Tensor& bias,
                 Tensor& y, const ConvGeometry& g) {
  if (!conv_pointwise_bf16_supports(g))
    return ThroughF32<&conv2d<float, kRelu>, Outputs::written>::run(context, x, weight, bias, y, g);
  if (y.numel() == 0) return;
  const Tensor dense = bias.defined() ? bias.contiguous() : bias;
  conv_pointwise_bf16(context, are_nhwc(x, y), ConvPass::forward, g, address<BFloat16>(x),
                      address<BFloat16>(weight), {address<BFloat16>(dense), kRelu},
                      static_cast<BFloat16*>(y.raw()));
}

void conv2d_grad_x_bf16(const Context& context, const Tensor& dy, const Tensor& weight, Tensor& dx,
                        const ConvGeometry& g) {
  if (!conv_pointwise_bf16_supports(g))
    return ThroughF32<&conv2d_grad_x<float>, Outputs::written>::run(context, dy, weight, dx, g);
  if (set_zero_if_empty<BFloat16>(dx, g)) return;
  conv_pointwise_bf16(context, are_nhwc(dy, dx), ConvPass::grad_x, g, address<BFloat16>(dy),
                      address<BFloat16>(weight), {}, static_cast<BFloat16*>(dx.raw()));
}

void conv2d_grad_weight_bf16(const Context& context, const Tensor& x, const Tensor& dy, Tensor& dw,
                             const ConvGeometry& g) {
  if (!conv_pointwise_bf16_supports(g))
    return ThroughF32<&conv2d_grad_weight<float>, Outputs::written>::run(context, x, dy, dw, g);
  if (set_zero_if_empty<BFloat16>(dw, g)) return;
  conv_pointwise_bf16(context, are_nhwc(x, dy), ConvPass::grad_weight, g, address<BFloat16>(x),
                      address<BFloat16>(dy), {}, static_cast<BFloat16*>(dw.raw()));
}

template <auto kFloat, auto kDouble, auto kBf16>
bool register_conv(const char* name) {
  constexpr Outputs kOutputs = Outputs::written;
  return backend::register_kernel(name, DeviceKind::cpu, DType::f32, kFloat) &&
         backend::register_kernel(name, DeviceKind::cpu, DType::f64, kDouble) &&
         backend::register_kernel(name, DeviceKind::cpu, DType::f16,
                                  &ThroughF32<kFloat, kOutputs>::run) &&
         backend::register_kernel(name, DeviceKind::cpu, DType::bf16, kBf16);
}

const bool registered =
    register_conv<&conv2d<float, false>, &conv2d<double, false>, &conv2d_bf16<false>>("conv2d") &&
    register_conv<&conv2d<float, true>, &conv2d<double, true>, &conv2d_bf16<true>>("conv2d_relu") &&
    register_conv<&conv2d_grad_x<float>, &conv2d_grad_x<double>, &conv2d_grad_x_bf16>(
        "conv2d_grad_x") &&
    register_conv<&conv2d_grad_weight<float>, &conv2d_grad_weight<double>,
                  &conv2d_grad_weight_bf16>("conv2d_grad_weight");

}  // namespace
}  // namespace brim::cpu
