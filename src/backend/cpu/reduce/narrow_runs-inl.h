// The loops of batch_norm over a channel's run of 16-bit floats, in registers of f32; results are
// rounded to nearest even. Include it inside a foreach_target file only.
#if defined(BRIM_NARROW_RUNS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_NARROW_RUNS_INL_H_
#undef BRIM_NARROW_RUNS_INL_H_
#else
#define BRIM_NARROW_RUNS_INL_H_
#endif

#include "backend/cpu/elementwise/map_run-inl.h"
#include "backend/cpu/reduce/batch_norm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

template <bool kAdd, bool kRelu, class W>
void normalise_in_registers(const W* x, int64_t n, const Affine<float>& f, const W* add, W* y) {
  const hn::ScalableTag<float> d;
  const auto mean = hn::Set(d, f.mean), a = hn::Set(d, f.a), shift = hn::Set(d, f.shift);
  map_run<2>({x, add}, n, y, [&](const W* const(&p)[2], int64_t i) HWY_ATTR {
    auto z = hn::MulAdd(hn::Sub(load(d, p[0] + i), mean), a, shift);
    if constexpr (kAdd) z = hn::Add(z, load(d, p[1] + i));
    if constexpr (kRelu) z = hn::IfThenZeroElse(hn::Lt(z, hn::Zero(d)), z);
    return z;
  });
}

/// dy where the mask lets it pass.
template <Mask kMask, class D>
HWY_INLINE hn::Vec<D> masked_vector(D d, hn::Vec<D> dy, hn::Vec<D> z) {
  if constexpr (kMask == Mask::none) return dy;
  return hn::IfThenZeroElse(hn::Le(z, hn::Zero(d)), dy);
}

template <Mask kMask, bool kKeeps, class W>
void sums_in_registers(const W* dy, const W* x, const W* y, int64_t n, const Affine<float>& f,
                       W* kept, double& sum, double& dot) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto mean = hn::Set(d, f.mean), a = hn::Set(d, f.a), shift = hn::Set(d, f.shift);
  int64_t i = 0;
  while (i < n) {
    const int64_t end = std::min(n, i + kRun);
    auto sums = hn::Zero(d), even = sums, odd = sums;
    const auto gradient = [&](int64_t at, auto& dots) HWY_ATTR {
      const auto e = hn::Sub(load(d, x + at), mean);
      auto z = e;
      if constexpr (kMask == Mask::by_x) z = hn::MulAdd(e, a, shift);
      if constexpr (kMask == Mask::by_y) z = load(d, y + at);
      const auto g = masked_vector<kMask>(d, load(d, dy + at), z);
      dots = hn::MulAdd(g, e, dots);
      return g;
    };
    for (; i + 2 * lanes <= end; i += 2 * lanes) {
      const auto first = gradient(i, even), second = gradient(i + lanes, odd);
      sums = hn::Add(sums, hn::Add(first, second));
      if constexpr (kKeeps) store_two(d, first, second, kept + i);
    }
    float s = hn::GetLane(hn::SumOfLanes(d, sums));
    float p = hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
    for (; i < end; ++i) {
      const float e = static_cast<float>(x[i]) - f.mean;
      float z = mul_add(e, f.a, f.shift);
      if constexpr (kMask == Mask::by_y) z = static_cast<float>(y[i]);
      const float g = kMask != Mask::none && z <= 0 ? 0 : static_cast<float>(dy[i]);
      s += g;
      p = mul_add(g, e, p);
      if constexpr (kKeeps) kept[i] = W(g);
    }
    sum += static_cast<double>(s);
    dot += static_cast<double>(p);
  }
}

template <Mask kMask, class W>
void gradient_in_registers(const W* dy, const W* x, const W* y, int64_t n, const Affine<float>& f,
                           const Slope<float>& s, W* dx) {
  const hn::ScalableTag<float> d;
  const auto mean = hn::Set(d, f.mean), a = hn::Set(d, f.a), shift = hn::Set(d, f.shift);
  const auto factor = hn::Set(d, s.a), slope = hn::Set(d, s.slope), less = hn::Set(d, s.shift);
  const auto flat = hn::Eq(slope, hn::Zero(d));  // 0 for an infinite x, too
  map_run<3>({dy, x, y}, n, dx, [&](const W* const(&p)[3], int64_t i) HWY_ATTR {
    const auto e = hn::Sub(load(d, p[1] + i), mean);
    auto z = e;
    if constexpr (kMask == Mask::by_x) z = hn::MulAdd(e, a, shift);
    if constexpr (kMask == Mask::by_y) z = load(d, p[2] + i);
    const auto g = masked_vector<kMask>(d, load(d, p[0] + i), z);
    return hn::NegMulAdd(slope, hn::IfThenZeroElse(flat, e), hn::MulSub(factor, g, less));
  });
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
