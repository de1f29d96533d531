// Random numbers on the CPU. Blocks of the counter are independent, so any split over threads
// gives the same values; products and sums round one by one (-ffp-contract=off), so any instruction
// set does, too.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/random.cpp"
#include <hwy/foreach_target.h>
#include "backend/cpu/runtime/small_baseline-inl.h"

#include <algorithm>
#include <array>

#include "backend/cpu/elementwise/convert.h"
#include "backend/cpu/runtime/isa.h"
#include "backend/cpu/runtime/parallel.h"
#include "backend/kernel.h"
#include "backend/options/random_range.h"
#include "core/check.h"
#include "formula/philox.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using backend::Drawn;
using formula::kPerBlock;
using formula::Params;

constexpr int64_t kGroup = 64;  // blocks that are drawn at once
constexpr int64_t kGrain = 32;  // groups

/// The words of kGroup blocks: word k of block b is w[k][b].
struct WordGroup {
  alignas(64) std::array<std::array<uint32_t, kGroup>, 4> w;

  WordGroup(const RandomKey& key, int64_t block);
};

#if HWY_TARGET == HWY_SCALAR
WordGroup::WordGroup(const RandomKey& key, int64_t block) {
  for (int64_t b = 0; b < kGroup; ++b) {
    const formula::Words r = formula::random_block(key, static_cast<uint64_t>(block + b));
    for (size_t k = 0; k < 4; ++k) w[k][b] = r.w[k];
  }
}
#else
/// c * by, its upper and its lower half.
template <class D, class V>
HWY_INLINE void multiply(D d, V c, V by, V& high, V& low) {
  const hn::RepartitionToWide<D> wide;
  const auto even = hn::MulEven(c, by);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, c))), by);
  high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
  low = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
}

/// formula::philox4x32, a block in each lane.
WordGroup::WordGroup(const RandomKey& key, int64_t block) {
  const hn::CappedTag<uint32_t, kGroup> d;
  for (size_t b = 0; b < kGroup; ++b) {
    const uint64_t counter = key.block + static_cast<uint64_t>(block) + b;
    w[0][b] = static_cast<uint32_t>(counter);
    w[1][b] = static_cast<uint32_t>(counter >> 32);
  }
  const auto offset = [&](int shift) {
    return hn::Set(d, static_cast<uint32_t>(key.offset >> shift));
  };
  for (size_t b = 0; b < kGroup; b += hn::Lanes(d)) {
    auto c0 = hn::Load(d, &w[0][b]), c1 = hn::Load(d, &w[1][b]), c2 = offset(0), c3 = offset(32);
    auto k0 = static_cast<uint32_t>(key.seed), k1 = formula::second_key(key);
    for (int round = 0; round < 10; ++round) {
      auto high0 = c0, low0 = c0, high2 = c0, low2 = c0;
      multiply(d, c0, hn::Set(d, formula::kPhiloxM0), high0, low0);
      multiply(d, c2, hn::Set(d, formula::kPhiloxM1), high2, low2);
      c0 = hn::Xor(high2, hn::Xor(c1, hn::Set(d, k0)));
      c1 = low2;
      c2 = hn::Xor(high0, hn::Xor(c3, hn::Set(d, k1)));
      c3 = low0;
      k0 += formula::kPhiloxW0;
      k1 += formula::kPhiloxW1;
    }
    hn::Store(c0, d, &w[0][b]);
    hn::Store(c1, d, &w[1][b]);
    hn::Store(c2, d, &w[2][b]);
    hn::Store(c3, d, &w[3][b]);
  }
}
#endif

struct UniformNumbers {
  static void draw(const WordGroup& words, int64_t count, float* out) {
    for (int64_t b = 0; b < count; ++b)
      for (size_t k = 0; k < 4; ++k) out[4 * b + k] = formula::unit_f32(words.w[k][b]);
  }
  static void draw(const WordGroup& words, int64_t count, double* out) {
    for (int64_t b = 0; b < count; ++b)
      for (size_t k = 0; k < 2; ++k)
        out[2 * b + k] = formula::unit_f64(words.w[2 * k][b], words.w[2 * k + 1][b]);
  }
};

struct NormalNumbers {
  static void draw(const WordGroup& words, int64_t count, float* out) {
    for (size_t k = 0; k < 4; k += 2)
      for (int64_t b = 0; b < count; ++b) {
        const formula::NormalPair p = formula::normal_pair(words.w[k][b], words.w[k + 1][b]);
        out[4 * b + k] = static_cast<float>(p.a);
        out[4 * b + k + 1] = static_cast<float>(p.b);
      }
  }
  static void draw(const WordGroup& words, int64_t count, double* out) {
    for (int64_t b = 0; b < count; ++b) {
      const formula::NormalPair p =
          formula::box_muller(1 - formula::unit_f64(words.w[0][b], words.w[1][b]),
                              formula::unit_f64(words.w[2][b], words.w[3][b]));
      out[2 * b] = p.a;
      out[2 * b + 1] = p.b;
    }
  }
};

/// y[i] = finish(i, number i), rounded where y has 16 bits.
template <class Numbers, class T, class Finish>
void fill_numbers(Tensor& y, const RandomKey& key, const Finish& finish) {
  using D = Drawn<T>;
  constexpr int64_t kCount = kPerBlock<D>, kNumbers = kGroup * kCount;
  T* out = static_cast<T*>(y.raw());
  const int64_t n = y.numel();
  parallel_for((n + kNumbers - 1) / kNumbers, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; ++group) {
      const int64_t first = group * kNumbers, count = std::min(kNumbers, n - first);
      const int64_t blocks = (count + kCount - 1) / kCount;
      std::array<D, kNumbers> drawn;
      Numbers::draw(WordGroup(key, group * kGroup), blocks, drawn.data());
      if constexpr (std::is_same_v<T, D>) {
        for (int64_t i = 0; i < count; ++i) out[first + i] = finish(first + i, drawn[i]);
      } else {
        for (int64_t i = 0; i < count; ++i) drawn[i] = finish(first + i, drawn[i]);
        convert_run(drawn.data(), out + first, count);
      }
    }
  });
}

template <class T>
void uniform(const Context&, Tensor& y, const RandomKey& key, const Params& p) {
  using D = Drawn<T>;
  const double low = p.a, width = p.b - p.a;
  // What lies above the last number may round to the end of the range, nothing else does.
  const D last = static_cast<D>(backend::UniformRange<T>(p.a, p.b).last);
  fill_numbers<UniformNumbers, T>(y, key, [=](int64_t, D u) {
    const D v = static_cast<D>(low + static_cast<double>(u) * width);
    return v > last ? last : v;
  });
}

template <class T>
void normal(const Context&, Tensor& y, const RandomKey& key, const Params& p) {
  using D = Drawn<T>;
  fill_numbers<NormalNumbers, T>(
      y, key, [p](int64_t, D v) { return static_cast<D>(p.a + p.b * static_cast<double>(v)); });
}

template <class T>
void bernoulli(const Context&, const Tensor& p, Tensor& y, const RandomKey& key) {
  using D = Drawn<T>;
  const T* probability = static_cast<const T*>(p.raw());
  for (int64_t i = 0; i < p.numel(); ++i) {
    const D v = static_cast<D>(probability[i]);
    BRIM_CHECK(v >= 0 && v <= 1, ValueError,
               "[bernoulli] probability {} of element {} is not in [0, 1]", v, i);
  }
  fill_numbers<UniformNumbers, T>(
      y, key, [=](int64_t i, D u) { return u < static_cast<D>(probability[i]) ? D(1) : D(0); });
}

template <class... T>
void register_floating() {
  (backend::register_kernel("uniform", DeviceKind::cpu, dtype_of<T>, &uniform<T>), ...);
  (backend::register_kernel("normal", DeviceKind::cpu, dtype_of<T>, &normal<T>), ...);
  (backend::register_kernel("bernoulli", DeviceKind::cpu, dtype_of<T>, &bernoulli<T>), ...);
}

void register_random() { register_floating<float, double, Half, BFloat16>(); }

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
BRIM_REGISTER_FOR_CPU(register_random);
#endif
