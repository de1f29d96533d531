// What becomes of sums in i32. Include it inside a foreach_target file only.
#if defined(BRIM_RT_INT8_RESULTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_RT_INT8_RESULTS_INL_H_
#undef BRIM_RT_INT8_RESULTS_INL_H_
#else
#define BRIM_RT_INT8_RESULTS_INL_H_
#endif

#include <cstring>

#include "rt/kernels/int8.h"
#include "rt/kernels/quantize-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::rt::HWY_NAMESPACE {
namespace {

/// a * b + c, rounded once, on every CPU.
HWY_INLINE VecF multiply_add(VecF a, VecF b, VecF c) {
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || HWY_ARCH_ARM_A64
  return hn::MulAdd(a, b, c);
#else
  HWY_ALIGN float factors[2][kPanel], all[kPanel];
  hn::Store(a, TagF(), factors[0]);
  hn::Store(b, TagF(), factors[1]);
  hn::Store(c, TagF(), all);
  for (int i = 0; i < kLanes; ++i) {
    // The product is exact. The sum is made odd where it is not, so that it is rounded once.
    const double product = double{factors[0][i]} * double{factors[1][i]}, other = double{all[i]};
    double sum = product + other;
    const double back = sum - product;
    const double lost = (product - (sum - back)) + (other - back);
    int64_t bits;
    std::memcpy(&bits, &sum, sizeof bits);
    if ((lost < 0 || lost > 0) && (bits & 1) == 0) {
      bits += (lost > 0) == (sum > 0) ? 1 : -1;
      std::memcpy(&sum, &bits, sizeof sum);
    }
    all[i] = static_cast<float>(sum);
  }
  return hn::Load(TagF(), all);
#endif
}

/// What becomes of sums. Bytes may alias anything, so that nothing is read from `k` between stores.
class Int8Results {
 public:
  HWY_INLINE explicit Int8Results(const Int8Convolution& k)
      : residual_(k.residual),
        y_(k.y),
        q_(k.q),
        low_(static_cast<float>(k.a.low)),
        high_(static_cast<float>(k.a.high)),
        to_u8_(k.inverse, k.next_zero_point, low_, high_) {}

  /// Whether the result is wanted in one way alone, and is what the sums make.
  bool is_f32() const { return y_ && !q_ && !residual_; }
  bool is_u8() const { return q_ && !y_ && !residual_; }
  HWY_INLINE void store_f32(VecI sum, VecF scale, VecF shift, int64_t to) const {
    const VecF y = multiply_add(hn::ConvertTo(TagF(), sum), scale, shift);
    hn::StoreU(clip(y, low_, high_), TagF(), y_ + to);
  }
  HWY_INLINE void store_u8(VecI sum, VecF scale, VecF shift, int64_t to) const {
    to_u8_.store(multiply_add(hn::ConvertTo(TagF(), sum), scale, shift), q_ + to);
  }
  HWY_INLINE void store(VecI sum, VecF scale, VecF shift, int64_t to) const {
    VecF y = multiply_add(hn::ConvertTo(TagF(), sum), scale, shift);
    if (residual_) y = hn::Add(y, hn::LoadU(TagF(), residual_ + to));
    y = clip(y, low_, high_);
    if (y_) hn::StoreU(y, TagF(), y_ + to);
    if (q_) hn::StoreU(to_u8_.of_clipped(y), TagU8(), q_ + to);
  }
  HWY_INLINE void store_part(VecI sum, VecF scale, VecF shift, int64_t to, int64_t count) const {
    VecF y = multiply_add(hn::ConvertTo(TagF(), sum), scale, shift);
    if (residual_) y = hn::Add(y, load_part(residual_ + to, count));
    y = clip(y, low_, high_);
    if (y_) HWY_NAMESPACE::store_part(y, count, y_ + to);
    if (q_) Quantizer::store_part(to_u8_.of_clipped(y), count, q_ + to);
  }

 private:
  const float* const residual_;
  float* const y_;
  uint8_t* const q_;
  const float low_, high_;
  const Quantizer to_u8_;
};

}  // namespace
}  // namespace brim::rt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
