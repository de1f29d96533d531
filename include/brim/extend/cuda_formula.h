// Formulas (formula.h) on GPUs, compiled ahead by nvcc: a .cu of one line,
//
//   const bool registered = brim::extend::cuda::register_formula<Softsign>();
//
// compiles the formula, its gradient and its derivatives for f32, f64, f16 and bf16.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <typeinfo>

#include <brim/extend/cuda.h>
#include <brim/extend/cuda_formula_kernel.h>
#include <brim/extend/cuda_walk.h>
#include <brim/extend/elementwise.h>

namespace brim::extend::cuda {

///@{
/// A formula over all elements; launched by CudaFormula.
template <class F, class T>
__global__ void unary_kernel(F f, Walk<2> walk, T* y, const T* x) {
  compute(f, walk, y, x);
}
template <class F, class T>
__global__ void binary_kernel(F f, Walk<3> walk, T* y, const T* a, const T* b) {
  compute(f, walk, y, a, b);
}
///@}

/// The functions that are registered as a formula's kernels of T on GPUs.
template <class F, class T>
struct CudaFormula {
  ///@{
  /// Queues the kernel on the context's stream.
  static void unary(const Context& context, const Tensor& x, Tensor& y, const Params& params) {
    if (y.numel() == 0) return;
    launch(context, &unary_kernel<F, T>, grid_for(y.numel()), formula_of<F>(params),
           Walk<2>({&y, &x}), static_cast<T*>(y.raw()), static_cast<const T*>(x.raw()));
  }
  static void binary(const Context& context, const Tensor& a, const Tensor& b, Tensor& y,
                     const Params& params) {
    if (y.numel() == 0) return;
    launch(context, &binary_kernel<F, T>, grid_for(y.numel()), formula_of<F>(params),
           Walk<3>({&y, &a, &b}), static_cast<T*>(y.raw()), static_cast<const T*>(a.raw()),
           static_cast<const T*>(b.raw()));
  }
  ///@}
};

/// Registers F, as it is, for these types.
template <class F, class... T>
void register_for() {
  const auto add = [](const std::type_info& signature, DType dtype, AnyFunction function) {
    register_formula_function(KernelName<F>::get(), signature, DeviceKind::cuda, dtype, function,
                              typeid(F));
  };
  if constexpr (kInputs<F> == 1)
    (add(typeid(UnaryFunction), dtype_of<T>,
         reinterpret_cast<AnyFunction>(&CudaFormula<F, T>::unary)),
     ...);
  else
    (add(typeid(BinaryFunction), dtype_of<T>,
         reinterpret_cast<AnyFunction>(&CudaFormula<F, T>::binary)),
     ...);
}

/// Registers F, which is a derivative of that order, and what it is differentiated to.
template <class F, int kOrder = 0>
bool register_formula() {
  register_for<F, float, double, Half, BFloat16>();
  if constexpr (kOrder < kMaxDerivative) {
    register_formula<Slope<F, 0>, kOrder + 1>();
    if constexpr (kInputs<F> == 2)
      register_formula<Slope<F, 1>, kOrder + 1>();
    else
      register_for<GradientOf<F>, float, double, Half, BFloat16>();
  }
  return true;
}

}  // namespace brim::extend::cuda
