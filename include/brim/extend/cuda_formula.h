// Formulas (formula.h) on GPUs: a .cu of one line,
//
//   const bool registered = brim::extend::cuda::register_formula<Softsign>();
//
// compiles the formula, its gradient and its derivatives for f32, f64, f16 and bf16.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <typeinfo>

#include <brim/extend/cuda.h>
#include <brim/extend/cuda_number.h>
#include <brim/extend/elementwise.h>

namespace brim::extend::cuda {

/// Where the elements of N operands lie; operand 0 is the output, the others broadcast to it.
template <int N>
struct Walk {
  int rank = 0;
  bool dense = true;  ///< one order, without gaps
  int64_t numel = 0;
  int64_t size[kMaxRank] = {};
  int64_t stride[N][kMaxRank] = {};

  explicit Walk(const Tensor* const (&operands)[N]) {
    const Tensor& y = *operands[0];
    rank = y.rank();
    numel = y.numel();
    dense = y.is_contiguous() || (rank == 4 && y.is_contiguous(MemoryFormat::nhwc));
    for (int d = 0; d < rank; ++d) size[d] = y.shape()[d];
    for (int k = 0; k < N; ++k) {
      const Tensor& t = *operands[k];
      dense = dense && t.shape() == y.shape() && t.strides() == y.strides();
      for (int d = 0; d < t.rank(); ++d)
        if (t.shape()[d] != 1) stride[k][d + rank - t.rank()] = t.strides()[d];
    }
  }

  /// Offsets of the operands, in elements, at position `index` of the output.
  __device__ void offsets(int64_t index, int64_t (&at)[N]) const {
    for (int k = 0; k < N; ++k) at[k] = dense ? index : 0;
    if (dense) return;
    for (int d = rank; d-- > 0;) {
      const int64_t i = index % size[d];
      index /= size[d];
      for (int k = 0; k < N; ++k) at[k] += i * stride[k][d];
    }
  }
};

template <class F, class T>
__global__ void unary_kernel(F f, Walk<2> walk, T* y, const T* x) {
  for (int64_t i = first_index(); i < walk.numel; i += grid_size()) {
    int64_t at[2];
    walk.offsets(i, at);
    y[at[0]] = narrow<T>(static_cast<Compute<T>>(f(widen(x[at[1]]))));
  }
}
template <class F, class T>
__global__ void binary_kernel(F f, Walk<3> walk, T* y, const T* a, const T* b) {
  for (int64_t i = first_index(); i < walk.numel; i += grid_size()) {
    int64_t at[3];
    walk.offsets(i, at);
    y[at[0]] = narrow<T>(static_cast<Compute<T>>(f(widen(a[at[1]]), widen(b[at[2]]))));
  }
}

template <class F, class T>
struct CudaFormula {
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
};

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
