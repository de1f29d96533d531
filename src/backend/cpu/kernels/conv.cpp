// conv2d and its two gradients on the CPU.
#include "backend/cpu/conv_direct.h"
#include "backend/kernel.h"

namespace brim::cpu {
namespace {

using backend::ConvGeometry;

template <class T>
const T* address(const Tensor& x) {
  return x.defined() ? static_cast<const T*>(x.raw()) : nullptr;
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
  conv_direct(context, address<T>(x), address<T>(weight), address<T>(dense),
              static_cast<T*>(y.raw()), g);
}

template <class T>
void conv2d_grad_x(const Context& context, const Tensor& dy, const Tensor& weight, Tensor& dx,
                   const ConvGeometry& g) {
  if (set_zero_if_empty<T>(dx, g)) return;
  conv_direct_grad_x(context, address<T>(dy), address<T>(weight), static_cast<T*>(dx.raw()), g);
}

template <class T>
void conv2d_grad_weight(const Context& context, const Tensor& x, const Tensor& dy, Tensor& dw,
                        const ConvGeometry& g) {
  if (set_zero_if_empty<T>(dw, g)) return;
  conv_direct_grad_weight(context, address<T>(x), address<T>(dy), static_cast<T*>(dw.raw()), g);
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
