// Comparisons, logic and selection by a mask as CPU kernels, compiled once per instruction set.
#include "formula/compare.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/compare.cpp"
#include <hwy/foreach_target.h>
#include "backend/cpu/runtime/small_baseline-inl.h"

#include <bit>
#include <type_traits>

#include "backend/cpu/elementwise/dense-inl.h"
#include "backend/cpu/runtime/isa.h"
#include "backend/types.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

/// What holds a T's bits: compilers choose among integers by vectors, not among structs.
template <class T>
using Word = std::conditional_t<sizeof(T) == 2, uint16_t, T>;

/// y = condition ? a : b
template <class T>
void dense_where(char* const* p, int64_t n, const Params&) {
  const uint8_t* condition = reinterpret_cast<const uint8_t*>(p[1]);
  const T* a = reinterpret_cast<const T*>(p[2]);
  const T* b = reinterpret_cast<const T*>(p[3]);
  T* y = reinterpret_cast<T*>(p[0]);
  BRIM_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const T yes = a[i], no = b[i];
    y[i] = condition[i] ? yes : no;
  }
}

template <class T>
void where(const Context&, const Tensor& condition, const Tensor& a, const Tensor& b, Tensor& y) {
  elementwise(&dense_where<Word<T>>, {}, y, condition, a, b);
}

/// y = mask ? params.a : x; the mask is inverted where params.b is not 0.
template <class T>
void dense_masked_fill(char* const* p, int64_t n, const Params& params) {
  const Word<T>* x = reinterpret_cast<const Word<T>*>(p[1]);
  const uint8_t* mask = reinterpret_cast<const uint8_t*>(p[2]);
  Word<T>* y = reinterpret_cast<Word<T>*>(p[0]);
  const Word<T> value =
      std::bit_cast<Word<T>>(static_cast<T>(formula::number<Arithmetic<T>>(params.a)));
  const uint8_t flip = params.b != 0;
  BRIM_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const Word<T> keep = x[i];
    y[i] = (mask[i] ^ flip) ? value : keep;
  }
}

template <class T>
void masked_fill(const Context&, const Tensor& x, const Tensor& mask, Tensor& y,
                 const Params& params) {
  elementwise(&dense_masked_fill<T>, params, y, x, mask);
}

void register_kernels() {
  backend::for_each_type(backend::AllTypes{}, []<class T>(std::type_identity<T>) {
    constexpr DType kType = dtype_of<T>;
    backend::register_kernel("where", DeviceKind::cpu, kType, &where<T>);
    backend::register_kernel("masked_fill", DeviceKind::cpu, kType, &masked_fill<T>);
    register_binary<T, bool>(formula::CompareFormulas{});
    register_unary<T, bool>(formula::CompareScalarFormulas{});
    if constexpr (!std::is_integral_v<T>)
      register_unary<T, bool>(formula::List<formula::IsFinite>{});
  });
  register_binary<bool>(formula::List<formula::LogicalAnd, formula::LogicalOr>{});
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
BRIM_REGISTER_FOR_CPU(register_kernels);
#endif
