// rms_norm and its gradients on the CPU. A row is read from memory once for its sum, and from the
// cache for its results; short rows are transposed. Sums are gathered in blocks in f64 in a fixed
// order, so the number of threads does not change them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/rms_norm.cpp"
#include <hwy/foreach_target.h>
#include "backend/cpu/runtime/small_baseline-inl.h"

#include "backend/cpu/elementwise/loop.h"
#include "backend/cpu/elementwise/through_f32.h"
#include "backend/cpu/reduce/gradient_parts.h"
#include "backend/cpu/reduce/rms_norm-inl.h"
#include "backend/cpu/runtime/elements.h"
#include "backend/cpu/runtime/isa.h"
#include "backend/fused/chain.h"
#include "backend/types.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

template <class W>
void rms_norm(const Context&, const Tensor& tx, const Tensor& weight, Tensor& ty, Tensor& tscale,
              double eps) {
  using T = formula::Arithmetic<W>;
  const int64_t rows = tscale.numel(), n = rows > 0 ? tx.numel() / rows : 0;
  const W *x = in<W>(tx), *w = in<W>(weight);
  W* y = out<W>(ty);
  T* scale = out<T>(tscale);
  const int64_t grain = std::max<int64_t>(1, kElementwiseGrain / std::max<int64_t>(n, 1));
  parallel_for(rows, grain, [&](int64_t row, int64_t end) {
    if (0 < n && n <= kShortRow)
      for (; row < end; row += kColumns)
        rms_norm_short_rows(x + row * n, w, n, std::min(kColumns, end - row), eps, y + row * n,
                            scale + row);
    for (; row < end; ++row) rms_norm_row(x + row * n, w, n, eps, y + row * n, scale[row]);
  });
}

template <class W>
void rms_norm_grad(const Context& context, const Tensor& dy, const Tensor& x, const Tensor& weight,
                   const Tensor& scale, Tensor& dx, Tensor& dweight) {
  using T = formula::Arithmetic<W>;
  const GradientParts parts(scale.numel(), dweight.numel(), 1);
  const RmsNormGradient<W, T> gradient{in<W>(dy),    in<W>(x),   in<W>(weight),
                                       in<T>(scale), out<W>(dx), parts.n};
  sum_gradients<T>(context, parts, gradient, out<W>(dweight));
}

/// As a link of chains.
template <class W>
void rms_norm_link(void* const* operands, int64_t n, const formula::Params& params) {
  using T = formula::Arithmetic<W>;
  const W *x = static_cast<const W*>(operands[0]), *w = static_cast<const W*>(operands[1]);
  W* y = static_cast<W*>(operands[2]);
  T* scale = static_cast<T*>(operands[3]);
  n <= kShortRow ? rms_norm_short_rows(x, w, n, 1, params.a, y, scale)
                 : rms_norm_row(x, w, n, params.a, y, *scale);
}

void register_rms_norm() {
  constexpr DeviceKind cpu = DeviceKind::cpu;
  backend::for_each_type(
      formula::List<float, double, Half, BFloat16>{}, [&]<class W>(std::type_identity<W>) {
        if constexpr (std::is_floating_point_v<W> || kInRegisters<W>) {
          backend::register_kernel("rms_norm", cpu, dtype_of<W>, &rms_norm<W>);
          backend::register_kernel("rms_norm_grad", cpu, dtype_of<W>, &rms_norm_grad<W>);
          backend::register_row_link("rms_norm", dtype_of<W>, &rms_norm_link<W>);
        } else {
          constexpr Outputs kOutputs = Outputs::written;
          backend::register_kernel("rms_norm", cpu, dtype_of<W>,
                                   &ThroughF32<&rms_norm<float>, kOutputs>::run);
          backend::register_kernel("rms_norm_grad", cpu, dtype_of<W>,
                                   &ThroughF32<&rms_norm_grad<float>, kOutputs>::run);
        }
      });
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
BRIM_REGISTER_FOR_CPU(register_rms_norm);
#endif
