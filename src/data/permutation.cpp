// Positions go through the network side by side, in vectors of whatever the CPU has: a round of it
// is ten products that wait for each other.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/permutation.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "data/permutation.h"

HWY_BEFORE_NAMESPACE();
namespace brim::data::HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR
void encrypt_all(const FeistelNetwork& network, uint64_t* HWY_RESTRICT x, size_t count) {
  for (size_t i = 0; i < count; ++i) x[i] = network.encrypt(x[i]);
}
#else
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<uint64_t>;
using V = hn::Vec<D>;

// formula::random_bits({key, round}, i) of each i below 2^33, in lanes of which a word takes the
// lower half; what stands in the upper one does no harm where products read the lower alone.
V random_bits(uint64_t key, uint64_t round, V i) {
  const D d;
  const hn::Repartition<uint32_t, D> words;
  const auto times = [&](V x, uint32_t by) {
    return hn::MulEven(hn::BitCast(words, x), hn::Set(words, by));
  };
  uint32_t k0 = static_cast<uint32_t>(key), k1 = formula::second_key({key, round});
  V c0 = hn::ShiftRight<1>(i), c1 = hn::Zero(d), c2 = hn::Set(d, round), c3 = c1;
  for (int r = 0; r < 10; ++r, k0 += formula::kPhiloxW0, k1 += formula::kPhiloxW1) {
    const V a = times(c0, formula::kPhiloxM0), b = times(c2, formula::kPhiloxM1);
    c0 = hn::Xor3(hn::ShiftRight<32>(b), c1, hn::Set(d, k0));
    c2 = hn::Xor3(hn::ShiftRight<32>(a), c3, hn::Set(d, k1));
    c1 = b;
    c3 = a;
  }
  const V lower = hn::Set(d, 0xffffffffu);
  const auto second = hn::Ne(hn::And(i, hn::Set(d, 1)), hn::Zero(d));
  const V high = hn::IfThenElse(second, c2, c0), low = hn::IfThenElse(second, c3, c1);
  return hn::Or(hn::ShiftLeft<32>(high), hn::And(low, lower));
}

// x: `count` numbers, and behind them as many as make the last vector whole.
void encrypt_all(const FeistelNetwork& network, uint64_t* HWY_RESTRICT x, size_t count) {
  const D d;
  const auto half = static_cast<int>(network.half);
  const V mask = hn::Set(d, network.mask());
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    const V whole = hn::LoadU(d, x + i);
    V left = hn::ShiftRightSame(whole, half), right = hn::And(whole, mask);
    for (uint64_t round = 0; round < FeistelNetwork::kRounds; ++round) {
      const V mixed = hn::Xor(left, hn::And(random_bits(network.key, round, right), mask));
      left = right;
      right = mixed;
    }
    hn::StoreU(hn::Or(hn::ShiftLeftSame(left, half), right), d, x + i);
  }
}
#endif

}  // namespace
}  // namespace brim::data::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <array>

namespace brim::data {

HWY_EXPORT(encrypt_all);

void Permutation::replace(std::span<int64_t> positions) const {
  constexpr size_t kSide = 64;
  std::array<uint32_t, kSide> at;   // of those that are still beyond n
  std::array<uint64_t, kSide> x{};  // whose last vector may end beyond those that are left
  for (; !positions.empty(); positions = positions.subspan(std::min(kSide, positions.size()))) {
    size_t left = std::min(kSide, positions.size());
    for (size_t i = 0; i < left; ++i) {
      at[i] = static_cast<uint32_t>(i);
      x[i] = static_cast<uint64_t>(positions[i]);
    }
    while (left > 0) {
      HWY_DYNAMIC_DISPATCH(encrypt_all)(network_, x.data(), left);
      // Without branches, whose outcome is random.
      const size_t walked = left;
      left = 0;
      for (size_t i = 0; i < walked; ++i) {
        const uint64_t value = x[i];
        const uint32_t to = at[i];
        positions[to] = static_cast<int64_t>(value);
        x[left] = value;
        at[left] = to;
        left += value >= n_;
      }
    }
  }
}

}  // namespace brim::data
#endif
