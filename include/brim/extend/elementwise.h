// Elementwise ops of formulas (formula.h):
//
//   brim::Tensor softsign(const brim::Tensor& x) {
//     return brim::extend::elementwise(Softsign{}, x);
//   }
//
// is an op for f32, f64, f16 and bf16, any strides, with first and second derivatives: on the CPU
// and on virtual accelerators; on GPUs where the formula carries its text (BRIM_DEFINE_FORMULA), or
// a .cu registers it (cuda_formula.h). In compiled steps it is fused with its neighbours where the
// CPU's kernels run.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include <brim/core/tensor.h>
#include <brim/extend/derivative.h>
#include <brim/extend/formula.h>
#include <brim/extend/kernel.h>
#include <brim/formula/dense.h>

namespace brim::extend {

using formula::Params;

///@{
/// Signature of a formula's kernel.
using UnaryFunction = void(const Context&, const Tensor& x, Tensor& y, const Params&);
using BinaryFunction = void(const Context&, const Tensor& a, const Tensor& b, Tensor& y,
                            const Params&);
///@}

/// The name of a formula's kernel. Those of derivatives have a dot, so that they meet no other.
template <class F>
struct KernelName {
  static_assert(std::string_view(F::kName).find('.') == std::string_view::npos,
                "names of formulas have no dot: it marks derivatives");
  static const char* get() { return F::kName; }  ///< the name, for as long as the process lives
};
/// @cond
template <class F, int I>
struct KernelName<Slope<F, I>> {
  static const char* get() {
    static const auto* const name =
        new std::string(std::string(KernelName<F>::get()) + ".slope" + std::to_string(I));
    return name->c_str();
  }
};
template <class F>
struct KernelName<GradientOf<F>> {
  static const char* get() {
    static const auto* const name = new std::string(std::string(KernelName<F>::get()) + ".grad");
    return name->c_str();
  }
};
/// @endcond

/// A formula as text, for backends that have a compiler at run time.
struct FormulaText {
  const char* name;  ///< of its kernel: "softsign.grad"
  std::string type;  ///< "brim::extend::GradientOf<Softsign>"
  const char* text;  ///< defines Softsign
  int inputs;        ///< 1 or 2
};

/// The text of F, or of the formula that it is a derivative of.
template <class F>
struct SourceOf {
  /// Whether it carries its text.
  static constexpr bool kExists = requires { formula_source(std::type_identity<F>()); };
  /// The text.
  static constexpr FormulaSource get() { return formula_source(std::type_identity<F>()); }
  static std::string type() { return get().type; }  ///< as C++ writes the type
};
/// @cond
template <class F, int I>
struct SourceOf<Slope<F, I>> : SourceOf<F> {
  static std::string type() {
    return "brim::extend::Slope<" + SourceOf<F>::type() + ", " + std::to_string(I) + ">";
  }
};
template <class F>
struct SourceOf<GradientOf<F>> : SourceOf<F> {
  static std::string type() { return "brim::extend::GradientOf<" + SourceOf<F>::type() + ">"; }
};
/// @endcond

/// Null for a formula without one.
template <class F>
const FormulaText* formula_text() {
  if constexpr (SourceOf<F>::kExists) {
    static const auto* const text = new FormulaText{KernelName<F>::get(), SourceOf<F>::type(),
                                                    SourceOf<F>::get().text, kInputs<F>};
    return text;
  }
  return nullptr;
}

/// Runs what the backend of the context's device makes of the text.
void run_text(const Context& context, const FormulaText& text, const Params& params, Tensor& y,
              std::initializer_list<const Tensor*> inputs);

/// A formula's kernel on devices whose backend compiles its text.
template <class F>
struct TextFormula {
  ///@{
  /// The kernel.
  static void unary(const Context& context, const Tensor& x, Tensor& y, const Params& params) {
    run_text(context, *formula_text<F>(), params, y, {&x});
  }
  static void binary(const Context& context, const Tensor& a, const Tensor& b, Tensor& y,
                     const Params& params) {
    run_text(context, *formula_text<F>(), params, y, {&a, &b});
  }
  ///@}
};
/// That kernel, or null for a formula without text.
template <class F>
AnyFunction text_kernel() {
  if constexpr (!SourceOf<F>::kExists)
    return nullptr;
  else if constexpr (kInputs<F> == 1)
    return reinterpret_cast<AnyFunction>(&TextFormula<F>::unary);
  else
    return reinterpret_cast<AnyFunction>(&TextFormula<F>::binary);
}

/// Reads a byte of an F, which is no constant expression where it is padding.
template <class F>
constexpr bool is_readable(size_t byte) {
  using Bytes = std::array<unsigned char, sizeof(F)>;
  return std::bit_cast<Bytes>(std::bit_cast<F>(Bytes{}))[byte] <= 255;
}
/// Whether byte I of an F belongs to a member.
template <class F, size_t I>
concept MemberByte = requires {
  typename std::bool_constant<is_readable<F>(I)>;
};

/// A formula's members as an option of its launches, and back. Padding becomes zeros: plans compare
/// the bytes.
template <class F>
Params params_of(const F& f) {
  static_assert(std::is_trivially_copyable_v<F> && sizeof(F) <= sizeof(Params),
                "the members of a formula are numbers, 16 bytes of them at most");
  Params params;
  if constexpr (!std::is_empty_v<F>) {
    unsigned char bytes[sizeof(F)];
    std::memcpy(bytes, &f, sizeof(F));
    const auto clear = [&]<size_t... I>(std::index_sequence<I...>) {
      static_assert((MemberByte<F, I> || ...),
                    "a formula is an aggregate (or has a constexpr constructor) of numbers");
      ((bytes[I] = MemberByte<F, I> ? bytes[I] : 0), ...);
    };
    clear(std::make_index_sequence<sizeof(F)>());
    std::memcpy(static_cast<void*>(&params), bytes, sizeof(F));
  }
  return params;
}
/// The formula that params_of() made these of.
template <class F>
F formula_of(const Params& params) {
  std::array<unsigned char, sizeof(F)> bytes;
  std::memcpy(bytes.data(), &params, sizeof(F));
  return std::bit_cast<F>(bytes);
}

/// Runs a loop over operands of any strides on the CPU, in parallel where they are large.
void run_dense(formula::DenseLoop loop, const Params& params, Tensor& y, const Tensor& x);
/// As above.
void run_dense(formula::DenseLoop loop, const Params& params, Tensor& y, const Tensor& a,
               const Tensor& b);

/// How wide the vectors of brim's own kernels are on this CPU, as far as formulas go by it.
enum class CpuLevel : uint8_t {
  baseline,  ///< what every x86-64 (or Arm) has
  avx2,      ///< AVX2 and FMA
  avx512     ///< AVX-512
};
CpuLevel cpu_level();  ///< of this CPU, or what BRIM_CPU_ISA limits it to

#if defined(__clang__)  // which says of each loop over 16-bit floats that it is not vectorised
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

/// A formula's loop for each instruction set, as far as the compiler's flags leave a choice.
template <class F, class T>
struct CpuFormula {
  /// N elements: p[0] is written, p[1] and p[2] are read, all dense.
  static BRIM_FORMULA void compute(char* const* p, int64_t n, const Params& params) {
    using A = formula::Arithmetic<T>;
    const F f = formula_of<F>(params);
    T* const y = reinterpret_cast<T*>(p[0]);
    const T* const a = reinterpret_cast<const T*>(p[1]);
    if constexpr (kInputs<F> == 1) {
      BRIM_INDEPENDENT
      for (int64_t i = 0; i < n; ++i)
        y[i] = static_cast<T>(static_cast<A>(f(static_cast<A>(a[i]))));
    } else {
      const T* const b = reinterpret_cast<const T*>(p[2]);
      BRIM_INDEPENDENT
      for (int64_t i = 0; i < n; ++i)
        y[i] = static_cast<T>(static_cast<A>(f(static_cast<A>(a[i]), static_cast<A>(b[i]))));
    }
  }
  /// For any CPU.
  static void plain(char* const* p, int64_t n, const Params& params) { compute(p, n, params); }
#if defined(__x86_64__) && !defined(__AVX2__) && !defined(__CUDACC__)
  [[gnu::target("avx2,fma")]] static void avx2(char* const* p, int64_t n, const Params& params) {
    compute(p, n, params);
  }
  [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,fma")]] static void avx512(
      char* const* p, int64_t n, const Params& params) {
    compute(p, n, params);
  }
  static formula::DenseLoop best() {
    const CpuLevel level = cpu_level();
    return level == CpuLevel::avx512 ? &avx512 : level == CpuLevel::avx2 ? &avx2 : &plain;
  }
#else
  static formula::DenseLoop best() { return &plain; }  ///< for this CPU
#endif
  /// The same, chosen once.
  static formula::DenseLoop loop() {
    static const formula::DenseLoop chosen = best();
    return chosen;
  }

  ///@{
  /// The kernel.
  static void unary(const Context&, const Tensor& x, Tensor& y, const Params& params) {
    run_dense(loop(), params, y, x);
  }
  static void binary(const Context&, const Tensor& a, const Tensor& b, Tensor& y,
                     const Params& params) {
    run_dense(loop(), params, y, a, b);
  }
  ///@}
};

#if defined(__clang__)
#pragma clang diagnostic pop
#endif

/// A formula without its type.
struct FormulaKernel {
  /// Its kernel for one dtype on the CPU.
  struct Cpu {
    DType dtype;              ///< of its operands
    formula::DenseLoop loop;  ///< over dense operands, as fused chains call it
    AnyFunction kernel;       ///< over any operands
  };
  const char* name;            ///< of its kernel
  const std::type_info* type;  ///< the formula
  int inputs;                  ///< 1 or 2
  std::array<Cpu, 4> cpu;      ///< f32, f64, f16 and bf16
  AnyFunction of_text;         ///< null where it carries no text
  /// Of its derivatives by each input, and of its gradient in one; null where there is none.
  const FormulaKernel& (*slopes[2])() = {};
  const FormulaKernel& (*gradient)() = nullptr;  ///< of its gradient in one; null: none
  const AnyKernel* kernel = nullptr;             ///< once it is registered
};
/// Throws Error where the name is taken by another formula or kernel.
FormulaKernel registered(FormulaKernel formula);
/// As register_function(), for a function compiled of the formula `type`. A program and its plugins
/// may each have the formula: the first function stays.
void register_formula_function(const char* name, const std::type_info& signature, DeviceKind kind,
                               DType dtype, AnyFunction function, const std::type_info& type);

/// That of one dtype, compiled for this CPU.
template <class F, class T>
FormulaKernel::Cpu cpu_kernel() {
  using On = CpuFormula<F, T>;
  if constexpr (kInputs<F> == 1)
    return {dtype_of<T>, On::loop(), reinterpret_cast<AnyFunction>(&On::unary)};
  else
    return {dtype_of<T>, On::loop(), reinterpret_cast<AnyFunction>(&On::binary)};
}

/// The kernels of F, which is a derivative of that order; compiled and registered where it is used.
template <class F, int kOrder = 0>
const FormulaKernel& formula_kernel() {
  static const FormulaKernel kernel = [] {
    FormulaKernel k{KernelName<F>::get(),
                    &typeid(F),
                    kInputs<F>,
                    {cpu_kernel<F, float>(), cpu_kernel<F, double>(), cpu_kernel<F, Half>(),
                     cpu_kernel<F, BFloat16>()},
                    text_kernel<F>()};
    if constexpr (kOrder < kMaxDerivative) {
      k.slopes[0] = &formula_kernel<Slope<F, 0>, kOrder + 1>;
      if constexpr (kInputs<F> == 2)
        k.slopes[1] = &formula_kernel<Slope<F, 1>, kOrder + 1>;
      else
        k.gradient = &formula_kernel<GradientOf<F>, kMaxDerivative>;
    }
    return registered(k);
  }();
  return kernel;
}

///@{
/// As below, for a formula whose type is not known.
Tensor elementwise(const FormulaKernel& kernel, const Params& params, const Tensor& x);
Tensor elementwise(const FormulaKernel& kernel, const Params& params, const Tensor& a,
                   const Tensor& b);
///@}

/// y = f(x), of x's shape and dtype. Throws DTypeError for an x of integers, and NotImplemented
/// where the formula has no kernel for x's device.
template <class F>
Tensor elementwise(const F& f, const Tensor& x) {
  static_assert(kInputs<F> == 1, "this formula is one of two numbers: give it two tensors");
  return elementwise(formula_kernel<F>(), params_of(f), x);
}
/// y = f(a, b) with broadcasting. Throws DeviceError or DTypeError where a and b differ in theirs
/// (in an Autocast scope floats of two dtypes meet in f32), and as above.
template <class F>
Tensor elementwise(const F& f, const Tensor& a, const Tensor& b) {
  static_assert(kInputs<F> == 2, "this formula is one of one number: give it one tensor");
  return elementwise(formula_kernel<F>(), params_of(f), a, b);
}

}  // namespace brim::extend
