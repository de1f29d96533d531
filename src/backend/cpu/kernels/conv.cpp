// conv2d and its two gradients on the CPU.
#include "backend/cpu/conv_direct.h"
#include "backend/cpu/conv_dnnl.h"
#include "backend/kernel.h"

namespace brim::cpu {
namespace {

using backend::ConvGeometry;

template <class T>
const T* address(const Tensor& x) {
  return x.defined() ? static_cast<const T*>(x.raw()) : nullptr;
}

/// oneDNN's part of the work: f32, where it is the faster one. False: it is not.
template <class T>
bool by_dnnl(const Context& context, ConvPass pass, const ConvGeometry& g, const T* a, const T* b,
             const T* bias, T* out) {
  if constexpr (sizeof(T) == sizeof(float)) {
    if (!dnnl_conv_wins(pass, g)) return false;
    conv_dnnl(context, pass, g, a, b, bias, out);
    return true;
  }
  return false;
}

template <class T>
bool set_zero_if_empty(Tensor& y, const ConvGeometry& g) {
  if (g.work() != 0) return false;
  std::fill_n(static_cast<T*>(y.raw()), y.numel(), T(0));
  return true;
}

template <class T>
void conv2d(const Context& context, const Tensor& x, const Tensor& weight, const Tensor& bias,
            Tensor& y, const ConvGeometry& g) {
  if (y.numel() == 0) return;
  const Tensor dense = bias.defined() ? bias.contiguous() : bias;
  const T *from = address<T>(x), *w = address<T>(weight), *b = address<T>(dense);
  T* to = static_cast<T*>(y.raw());
  if (by_dnnl(context, ConvPass::forward, g, from, w, b, to)) return;
  conv_direct(context, from, w, b, to, g);
}

template <class T>
void conv2d_grad_x(const Context& context, const Tensor& dy, const Tensor& weight, Tensor& dx,
                   const ConvGeometry& g) {
  if (set_zero_if_empty<T>(dx, g)) return;
  const T *from = address<T>(dy), *w = address<T>(weight);
  T* to = static_cast<T*>(dx.raw());
  if (by_dnnl<T>(context, ConvPass::grad_x, g, from, w, nullptr, to)) return;
  conv_direct_grad_x(context, from, w, to, g);
}

template <class T>
void conv2d_grad_weight(const Context& context, const Tensor& x, const Tensor& dy, Tensor& dw,
                        const ConvGeometry& g) {
  if (set_zero_if_empty<T>(dw, g)) return;
  const T *from = address<T>(x), *grad = address<T>(dy);
  T* to = static_cast<T*>(dw.raw());
  if (by_dnnl<T>(context, ConvPass::grad_weight, g, from, grad, nullptr, to)) return;
  conv_direct_grad_weight(context, from, grad, to, g);
}

template <class T>
bool register_all() {
  return backend::register_kernel("conv2d", DeviceKind::cpu, dtype_of<T>, &conv2d<T>) &&
         backend::register_kernel("conv2d_grad_x", DeviceKind::cpu, dtype_of<T>,
                                  &conv2d_grad_x<T>) &&
         backend::register_kernel("conv2d_grad_weight", DeviceKind::cpu, dtype_of<T>,
                                  &conv2d_grad_weight<T>);
}

const bool registered = register_all<float>() && register_all<double>();

}  // namespace
}  // namespace brim::cpu
