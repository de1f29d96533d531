// Divisions are made of multiplications and corrected by what is left over (Markstein 1990), which
// gives the rounded quotient for almost all divisors; whether it does is tried out for all 256
// bytes beforehand, and otherwise the table is used.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/transform/byte_scale.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "data/transform/byte_scale.h"

HWY_BEFORE_NAMESPACE();
namespace brim::data::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// x / divisor, given the rounded 1 / divisor.
template <class V>
V divide(V x, V divisor, V reciprocal) {
  const V guess = hn::Mul(x, reciprocal);
  return hn::MulAdd(hn::NegMulAdd(guess, divisor, x), reciprocal, guess);
}

// Returns how many it converted: all, or none if there are fewer than a vector holds.
int convert(const uint8_t* from, int count, bool flip, float mean, float std, float* to) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  const int lanes = static_cast<int>(hn::Lanes(d));
  if (count < lanes) return 0;
  const auto most = hn::Set(d, 255.0f), part = hn::Set(d, 1.0f / 255.0f);
  const auto mean_v = hn::Set(d, mean), std_v = hn::Set(d, std), factor = hn::Set(d, 1.0f / std);
  const auto block = [&](int i) {
    const auto x = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(bytes, from + i)));
    const auto y = divide(hn::Sub(divide(x, most, part), mean_v), std_v, factor);
    if (flip)
      hn::StoreU(hn::Reverse(d, y), d, to + (count - lanes - i));
    else
      hn::StoreU(y, d, to + i);
  };
  int i = 0;
  for (; i + lanes <= count; i += lanes) block(i);
  if (i < count) block(count - lanes);  // overlaps the one before
  return count;
}

void split(const uint8_t* from, int count, uint8_t* red, uint8_t* green, uint8_t* blue) {
  int i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<uint8_t, 16> d;
  for (; i + 16 <= count; i += 16) {
    auto r = hn::Undefined(d), g = hn::Undefined(d), b = hn::Undefined(d);
    hn::LoadInterleaved3(d, from + 3 * i, r, g, b);
    hn::StoreU(r, d, red + i);
    hn::StoreU(g, d, green + i);
    hn::StoreU(b, d, blue + i);
  }
#endif
  for (; i < count; ++i)
    red[i] = from[3 * i], green[i] = from[3 * i + 1], blue[i] = from[3 * i + 2];
}

}  // namespace
}  // namespace brim::data::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cstring>

namespace brim::data {

HWY_EXPORT(convert);
HWY_EXPORT(split);

ByteScale::ByteScale(float mean, float std) : mean_(mean), std_(std) {
  std::array<uint8_t, 256> bytes{};
  for (int x = 0; x < 256; ++x) {
    bytes[static_cast<size_t>(x)] = static_cast<uint8_t>(x);
    table_[static_cast<size_t>(x)] = formula::normalized(static_cast<uint8_t>(x), mean, std);
  }
  std::array<float, 256> tried{};
  HWY_DYNAMIC_DISPATCH(convert)(bytes.data(), 256, false, mean, std, tried.data());
  vectors_ = std::memcmp(tried.data(), table_.data(), sizeof tried) == 0;
}

void ByteScale::convert(const uint8_t* from, int count, bool flip, float* to) const {
  if (vectors_ && HWY_DYNAMIC_DISPATCH(convert)(from, count, flip, mean_, std_, to) == count)
    return;
  for (int i = 0; i < count; ++i) to[flip ? count - 1 - i : i] = table_[from[i]];
}

void split_rgb(const uint8_t* from, int count, uint8_t* red, uint8_t* green, uint8_t* blue) {
  HWY_DYNAMIC_DISPATCH(split)(from, count, red, green, blue);
}

}  // namespace brim::data
#endif
