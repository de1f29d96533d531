// Loops over dense elements, one per formula; included once per instruction set.
#include "backend/cpu/elementwise/elementwise.h"
#include "backend/cpu/elementwise/through_f32.h"
#include "backend/fused/chain.h"

#if defined(BRIM_CPU_DENSE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_CPU_DENSE_INL_H
#undef BRIM_CPU_DENSE_INL_H
#else
#define BRIM_CPU_DENSE_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

using formula::Arithmetic;
using formula::Params;

/// y[i] = f(in[i]...). Of f32 formulas with another way for some numbers, blocks without those are
/// vectorised.
template <class F, class R, class... T>
void dense(const F& f, int64_t n, R* y, const T*... in) {
  if constexpr ((std::is_same_v<T, float> && ...) && requires { F::is_fast(*in...); }) {
    constexpr int64_t kBlock = 256;
    for (int64_t begin = 0; begin < n; begin += kBlock) {
      const int64_t end = std::min(n, begin + kBlock);
      int slow = 0;
      for (int64_t i = begin; i < end; ++i) slow |= !F::is_fast(in[i]...);
      if (slow) {
        // One by one, so that a result does not depend on where its block begins.
        for (int64_t i = begin; i < end; ++i)
          y[i] = static_cast<R>(F::is_fast(in[i]...) ? f(in[i]...) : f.slow(in[i]...));
      } else {
        BRIM_INDEPENDENT
        for (int64_t i = begin; i < end; ++i) y[i] = static_cast<R>(f(in[i]...));
      }
    }
  } else {
    BRIM_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) y[i] = static_cast<R>(f(in[i]...));
  }
}

/// y = f(x)
template <class T, class F, class R = T>
void dense_unary(char* const* p, int64_t n, const Params& params) {
  dense(F(params), n, reinterpret_cast<R*>(p[0]), reinterpret_cast<const T*>(p[1]));
}

/// y = f(a, b)
template <class T, class F, class R = T>
void dense_binary(char* const* p, int64_t n, const Params& params) {
  dense(F(params), n, reinterpret_cast<R*>(p[0]), reinterpret_cast<const T*>(p[1]),
        reinterpret_cast<const T*>(p[2]));
}

/// The result of a formula that is computed in f32.
template <class T, class R>
using WideResult = std::conditional_t<std::is_same_v<T, R>, float, R>;
template <class T, class R>
constexpr int64_t kOtherResult = std::is_same_v<T, R> ? 0 : sizeof(R);

/// The same for all T: 16 bits are computed by the loops of f32.
template <class T, class F, class R = T>
void unary_loop(char* const* p, int64_t n, const Params& params) {
  if constexpr (std::is_same_v<Arithmetic<T>, T>)
    dense_unary<T, F, R>(p, n, params);
  else
    dense_through_f32<T>(&dense_unary<float, F, WideResult<T, R>>, 1, kOtherResult<T, R>, p, n,
                         params);
}
template <class T, class F, class R = T>
void binary_loop(char* const* p, int64_t n, const Params& params) {
  if constexpr (std::is_same_v<Arithmetic<T>, T>)
    dense_binary<T, F, R>(p, n, params);
  else
    dense_through_f32<T>(&dense_binary<float, F, WideResult<T, R>>, 2, kOtherResult<T, R>, p, n,
                         params);
}

template <class T, class F, class R = T>
void unary(const Context&, const Tensor& x, Tensor& y, const Params& params) {
  elementwise(&unary_loop<T, F, R>, params, y, x);
}

template <class T, class F, class R = T>
void binary(const Context&, const Tensor& a, const Tensor& b, Tensor& y, const Params& params) {
  elementwise(&binary_loop<T, F, R>, params, y, a, b);
}

template <class T, class R = T, class... F>
void register_unary(formula::List<F...>) {
  (backend::register_kernel(F::kName, DeviceKind::cpu, dtype_of<T>, &unary<T, F, R>), ...);
  if constexpr (std::is_same_v<T, R>)
    (backend::register_elementwise(F::kName, 1, dtype_of<T>, &unary_loop<T, F>), ...);
}

template <class T, class R = T, class... F>
void register_binary(formula::List<F...>) {
  (backend::register_kernel(F::kName, DeviceKind::cpu, dtype_of<T>, &binary<T, F, R>), ...);
  if constexpr (std::is_same_v<T, R>)
    (backend::register_elementwise(F::kName, 2, dtype_of<T>, &binary_loop<T, F>), ...);
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
