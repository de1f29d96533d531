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

// Returns whether it converted them: not where a row has fewer than a vector holds.
bool convert(const ScaledRows<uint8_t>& all, float mean, float std) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  const int lanes = static_cast<int>(hn::Lanes(d));
  if (all.count < lanes) return false;
  const auto most = hn::Set(d, 255.0f), part = hn::Set(d, 1.0f / 255.0f);
  const auto mean_v = hn::Set(d, mean), std_v = hn::Set(d, std), factor = hn::Set(d, 1.0f / std);
  const uint8_t* from = all.from;
  const auto floats = [&](int i) {
    const auto x = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(bytes, from + i)));
    return divide(hn::Sub(divide(x, most, part), mean_v), std_v, factor);
  };
  const int last = all.count - lanes;  // overlaps the one before
  float* to = all.to;
  for (int row = 0; row < all.rows; ++row, from += all.from_pitch, to += all.to_pitch) {
    if (all.flip) {
      for (int i = 0; i < last; i += lanes)
        hn::StoreU(hn::Reverse(d, floats(i)), d, to + (last - i));
      hn::StoreU(hn::Reverse(d, floats(last)), d, to);
    } else {
      for (int i = 0; i < last; i += lanes) hn::StoreU(floats(i), d, to + i);
      hn::StoreU(floats(last), d, to + last);
    }
  }
  return true;
}

void fill(float* to, int64_t count, float value) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto values = hn::Set(d, value);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(values, d, to + i);
  for (; i < count; ++i) to[i] = value;
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
HWY_EXPORT(fill);
HWY_EXPORT(split);

ByteScale::ByteScale(float mean, float std) : mean_(mean), std_(std) {
  std::array<uint8_t, 256> bytes{};
  for (int x = 0; x < 256; ++x) {
    bytes[static_cast<size_t>(x)] = static_cast<uint8_t>(x);
    table_[static_cast<size_t>(x)] = formula::normalized(static_cast<uint8_t>(x), mean, std);
  }
  std::array<float, 256> tried{};
  HWY_DYNAMIC_DISPATCH(convert)({bytes.data(), 0, tried.data(), 0, 256, 1}, mean, std);
  vectors_ = std::memcmp(tried.data(), table_.data(), sizeof tried) == 0;
}

void ByteScale::convert(const ScaledRows<uint8_t>& all) const {
  if (vectors_ && HWY_DYNAMIC_DISPATCH(convert)(all, mean_, std_)) return;
  convert_rows(all, *this);
}

void fill_floats(float* to, int64_t count, float value) {
  HWY_DYNAMIC_DISPATCH(fill)(to, count, value);
}

void split_rgb(const uint8_t* from, int count, uint8_t* red, uint8_t* green, uint8_t* blue) {
  HWY_DYNAMIC_DISPATCH(split)(from, count, red, green, blue);
}

}  // namespace brim::data
#endif
