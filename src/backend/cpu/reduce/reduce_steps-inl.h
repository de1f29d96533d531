// What each reduction does with an element, compiled once per instruction set. The loops are in
// reduce-inl.h.
#include <cmath>
#include <limits>
#include <type_traits>

#include <brim/formula/formula.h>

#include "backend/kernel.h"

#if defined(BRIM_BACKEND_CPU_REDUCE_STEPS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_BACKEND_CPU_REDUCE_STEPS_INL_H
#undef BRIM_BACKEND_CPU_REDUCE_STEPS_INL_H
#else
#define BRIM_BACKEND_CPU_REDUCE_STEPS_INL_H
#endif

#include "backend/cpu/reduce/reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

// Elements are gathered in Lanes, a bounded number of them, and Lanes in a Total, which for f32 is
// wider. step takes an element, join two lanes, widen a lane into a total, combine two totals.
template <class T, class L = std::conditional_t<std::is_floating_point_v<T>, T, int64_t>>
struct Sum {
  static constexpr bool kFloat = std::is_floating_point_v<T>;
  static constexpr bool kVector = kFloat, kCentered = false;
  using In = T;
  using Lane = L;
  using Total = std::conditional_t<kFloat, double, int64_t>;
  using Out = Lane;
  static Lane init() { return 0; }
  static Total start() { return 0; }
  static Lane step(Lane a, T x, Lane) { return join(a, static_cast<Lane>(x)); }
  static Lane join(Lane a, Lane b) {
    using W = formula::Wrapping<Lane>;
    return static_cast<Lane>(static_cast<W>(a) + static_cast<W>(b));
  }
  template <class D, class V>
  static V step(D, V a, V x, V) {
    return hn::Add(a, x);
  }
  template <class D, class V>
  static V join(D, V a, V b) {
    return hn::Add(a, b);
  }
  static Total widen(Total t, Lane a) { return combine(t, a); }
  static Total combine(Total a, Total b) {
    using W = formula::Wrapping<Total>;
    return static_cast<Total>(static_cast<W>(a) + static_cast<W>(b));
  }
  static Out finish(Total t, double divisor) {
    if constexpr (kFloat) return static_cast<Out>(t / divisor);
    return static_cast<Out>(t);
  }
};

/// Distances from a centre, in f64.
template <class T>
struct Distances : Sum<T, double> {
  static constexpr bool kCentered = true;
  static double step(double a, T x, double c) { return a + (x - c); }
  template <class D, class V>
  static V step(D, V a, V x, V c) {
    return hn::Add(a, hn::Sub(x, c));
  }
};

/// Squares of distances from a centre (0 without one), in f64, which holds the squares of all f32
/// numbers. A divisor with the sign of minus, which -0 has too, asks for the root.
template <class T, class L = double>
struct Squares : Sum<T, L> {
  static constexpr bool kCentered = true;
  using Out = T;
  static L step(L a, T x, L c) { return a + (x - c) * (x - c); }
  template <class D, class V>
  static V step(D, V a, V x, V c) {
    const V centred = hn::Sub(x, c);
    return hn::MulAdd(centred, centred, a);
  }
  static T finish(double t, double divisor) {
    return static_cast<T>(std::signbit(divisor) ? std::sqrt(t / -divisor) : t / divisor);
  }
};

/// The largest (kLargest) or smallest element; NaN wins.
template <class T, bool kLargest>
struct Extreme {
  static constexpr bool kVector = std::is_floating_point_v<T>, kCentered = false;
  using In = T;
  using Lane = T;
  using Total = T;
  using Out = T;
  static T init() {
    using Limits = std::numeric_limits<T>;
    if constexpr (kVector) return kLargest ? -Limits::infinity() : Limits::infinity();
    return kLargest ? Limits::lowest() : Limits::max();
  }
  static T start() { return init(); }
  static T join(T a, T x) {
    const bool better = kLargest ? x > a : x < a;
    return (better | (x != x)) ? x : a;
  }
  static T step(T a, T x, T) { return join(a, x); }
  template <class D, class V>
  static V join(D, V a, V x) {
    const auto better = kLargest ? hn::Gt(x, a) : hn::Lt(x, a);
    return hn::IfThenElse(hn::Or(better, hn::IsNaN(x)), x, a);
  }
  template <class D, class V>
  static V step(D d, V a, V x, V) {
    return join(d, a, x);
  }
  static T widen(T t, T a) { return join(t, a); }
  static T combine(T a, T b) { return join(a, b); }
  static T finish(T t, double) { return t; }
};

template <class T>
struct Prod {
  static constexpr bool kVector = std::is_floating_point_v<T>, kCentered = false;
  using In = T;
  using Lane = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;
  using Total = Lane;
  using Out = std::conditional_t<std::is_floating_point_v<T>, T, int64_t>;
  static Lane init() { return 1; }
  static Lane start() { return 1; }
  static Lane step(Lane a, T x, Lane) { return join(a, static_cast<Lane>(x)); }
  static Lane join(Lane a, Lane b) {
    using W = formula::Wrapping<Lane>;
    return static_cast<Lane>(static_cast<W>(a) * static_cast<W>(b));
  }
  template <class D, class V>
  static V step(D, V a, V x, V) {
    return hn::Mul(a, x);
  }
  template <class D, class V>
  static V join(D, V a, V b) {
    return hn::Mul(a, b);
  }
  static Lane widen(Lane t, Lane a) { return join(t, a); }
  static Lane combine(Lane a, Lane b) { return join(a, b); }
  static Out finish(Lane t, double) { return static_cast<Out>(t); }
};

template <class T, bool kAll>
struct Logical {
  static constexpr bool kVector = false, kCentered = false;
  using In = T;
  using Lane = uint8_t;
  using Total = uint8_t;
  using Out = bool;
  static uint8_t init() { return kAll; }
  static uint8_t start() { return kAll; }
  static uint8_t join(uint8_t a, uint8_t b) { return kAll ? a & b : a | b; }
  static uint8_t step(uint8_t a, T x, uint8_t) { return join(a, x != T(0)); }
  static uint8_t widen(uint8_t t, uint8_t a) { return join(t, a); }
  static uint8_t combine(uint8_t a, uint8_t b) { return join(a, b); }
  static bool finish(uint8_t t, double) { return t != 0; }
};

template <class Op, class Stored = typename Op::In>
void plain(const Context& context, const Tensor& x, Tensor& y) {
  reduce(kSteps<Op, Stored>, context, x, y, 1);
}

template <class T>
void add(const char* name, void (*function)(const Context&, const Tensor&, Tensor&)) {
  backend::register_kernel(name, DeviceKind::cpu, dtype_of<T>, function);
}

/// Of elements of type T that are stored as such, or as 16-bit floats.
template <class T, class Stored = T>
void register_ordered() {
  add<Stored>("sum", &plain<Sum<T>, Stored>);
  add<Stored>("max", &plain<Extreme<T, true>, Stored>);
  add<Stored>("min", &plain<Extreme<T, false>, Stored>);
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
