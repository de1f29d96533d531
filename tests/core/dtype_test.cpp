// The 16-bit types against exact arithmetic, for all their values; names and promotion.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include <brim/brim.h>

#include "any_bits.h"
#include "message_of.h"

namespace brim {
namespace {

/// The value of a small float with `kExponent` exponent and `kMantissa` mantissa bits.
template <int kExponent, int kMantissa>
double exact(uint16_t bits) {
  constexpr int kBias = (1 << (kExponent - 1)) - 1;
  const int exponent = (bits >> kMantissa) & ((1 << kExponent) - 1);
  const int mantissa = bits & ((1 << kMantissa) - 1);
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == (1 << kExponent) - 1)
    return mantissa ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - kBias - kMantissa);
  return sign * std::ldexp(mantissa + (1 << kMantissa), exponent - kBias - kMantissa);
}

template <class T, int kExponent, int kMantissa>
void check_all() {
  constexpr uint32_t kInfinity = ((1u << kExponent) - 1) << kMantissa;
  for (uint32_t b = 0; b < 65536; ++b) {
    T small;
    small.bits = static_cast<uint16_t>(b);
    const float wide = static_cast<float>(small);
    const double want = exact<kExponent, kMantissa>(small.bits);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(wide)) << b;
      ASSERT_TRUE(std::isnan(static_cast<float>(T(wide)))) << b;
      ASSERT_EQ(T(wide).bits >> 15, b >> 15) << b;  // the sign stays
      continue;
    }
    ASSERT_EQ(static_cast<double>(wide), want) << b;
    ASSERT_EQ(std::signbit(wide), b >> 15 != 0) << b;
    ASSERT_EQ(T(wide).bits, b);
    if ((b & 0x7fff) >= kInfinity) continue;
    // Between b and the next number outwards: below the middle, the middle, above it.
    const bool to_infinity = (b & 0x7fff) + 1 == kInfinity;
    const double next = to_infinity ? std::copysign(std::ldexp(1.0, 1 << (kExponent - 1)), want)
                                    : exact<kExponent, kMantissa>(static_cast<uint16_t>(b + 1));
    const float middle = static_cast<float>((want + next) / 2);
    ASSERT_EQ(static_cast<double>(middle), (want + next) / 2) << b;
    const float outwards = std::copysign(std::numeric_limits<float>::infinity(), middle);
    ASSERT_EQ(T(middle).bits, b % 2 ? b + 1 : b) << b;  // ties go to even
    ASSERT_EQ(T(std::nextafter(middle, outwards)).bits, b + 1) << b;
    ASSERT_EQ(T(std::nextafter(middle, -outwards)).bits, b) << b;
  }
}

TEST(DType, HalfIsExactForAllValuesAndTies) { check_all<Half, 5, 10>(); }
TEST(DType, BFloat16IsExactForAllValuesAndTies) { check_all<BFloat16, 8, 7>(); }

TEST(DType, SixteenBitTypesOfLargeAndTinyNumbers) {
  EXPECT_EQ(Half(1e30f).bits, 0x7c00);
  EXPECT_EQ(Half(-1e30f).bits, 0xfc00);
  EXPECT_EQ(Half(1e-30f).bits, 0);
  EXPECT_EQ(Half(-1e-30f).bits, 0x8000);
  EXPECT_EQ(Half(std::numeric_limits<float>::denorm_min()).bits, 0);
  EXPECT_EQ(BFloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
}

TEST(DType, CopiesConvertAsTheTypesDo) {
  const std::vector<float> values = {1.0f / 3, 65519, 65520, -2049, 1e-8f, 3e38f};
  const Tensor x = Tensor::from(values, {6});
  const auto half = x.to(f16).to_vector<Half>();
  const auto brain = x.to(bf16).to_vector<BFloat16>();
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(half[i].bits, Half(values[i]).bits);
    EXPECT_EQ(brain[i].bits, BFloat16(values[i]).bits);
  }
}

TEST(DType, NamesAndSizes) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const DType t = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(name(t)), t);
    EXPECT_EQ(is_floating(t) + is_integral(t), is_computed(t));
  }
  EXPECT_EQ(size_of(f64), 8u);
  EXPECT_EQ(size_of(bf16), 2u);
  EXPECT_EQ(size_of(bool_), 1u);
  EXPECT_THROW(parse_dtype("float"), DTypeError);
  EXPECT_THROW(parse_dtype(""), DTypeError);
}

TEST(DType, Promotion) {  // as torch.promote_types, but u8 with i8, which is i32 here
  for (int i = 0; is_computed(static_cast<DType>(i)); ++i)
    for (int j = 0; is_computed(static_cast<DType>(j)); ++j) {
      const DType a = static_cast<DType>(i), b = static_cast<DType>(j), c = promote(a, b);
      EXPECT_EQ(c, promote(b, a));
      EXPECT_EQ(promote(c, a), c);
      EXPECT_EQ(is_floating(c), is_floating(a) || is_floating(b));
      if (i == j) {
        EXPECT_EQ(c, a);
      }
    }
  EXPECT_EQ(promote(f32, f64), f64);
  EXPECT_EQ(promote(f16, bf16), f32);
  EXPECT_EQ(promote(i64, f16), f16);
  EXPECT_EQ(promote(u8, i8), i32);
  EXPECT_EQ(promote(i32, i64), i64);
  EXPECT_EQ(promote(bool_, u8), u8);
  EXPECT_EQ(promote(DType::u16, DType::u16), DType::u16);
  EXPECT_THROW(promote(DType::u16, f32), DTypeError);
}

// What no op computes with is kept, packed and moved bit for bit, and says so to everything else.
TEST(DType, StoredOnly) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const DType t = static_cast<DType>(i);
    if (is_computed(t)) continue;
    const std::string what(name(t));
    const Tensor x = tests::any_bits(t), turned = x.t();
    const auto bits = tests::bytes_of(x);
    EXPECT_EQ(tests::bytes_of(x.clone()), bits) << what;
    EXPECT_NE(tests::bytes_of(turned), bits) << what;
    EXPECT_EQ(tests::bytes_of(turned.contiguous().t()), bits) << what;
    EXPECT_EQ(tests::bytes_of(turned.to(Device::sim(0)).t()), bits) << what;
    EXPECT_EQ(tests::bytes_of(x.to(Device::sim(0)).t().contiguous().t()), bits) << what;
    Tensor y = Tensor::empty({3, 2}, t, Device::cpu());
    EXPECT_EQ(tests::bytes_of(y.copy_(turned).t()), bits) << what;
    EXPECT_EQ(x.str(), "Tensor((2, 3) " + what + " on cpu)");

    for (const std::function<void()>& use : std::vector<std::function<void()>>{
             [&] { (void)(x + x); }, [&] { (void)(x + 1); }, [&] { (void)sum(x); },
             [&] { (void)x.to(f32); }, [&] { (void)zeros({2}).to(t); }, [&] { y.zero_(); },
             [&] { (void)x.to(Device::sim(0)).to(f32); }, [&] { (void)relu(x); },
             [&] {
               (void)(x + ones({2, 3}));
             },
             [&] { (void)mean(x); }}) {
      const std::string error = tests::message_of([&] { use(); });
      EXPECT_NE(error.find(what + " is stored only"), std::string::npos) << error;
    }
    for (const std::function<void()>& read : std::vector<std::function<void()>>{
             [&] { (void)x[0][0].item(); }, [&] { (void)x.to_vector<float>(); },
             [&] { (void)x.data<float>(); }}) {
      const std::string error = tests::message_of<DTypeError>([&] { read(); });
      EXPECT_NE(error.find(what), std::string::npos) << error;
      EXPECT_NE(error.find("stored only"), std::string::npos) << error;
    }
    EXPECT_THROW((void)ones({2}, {.dtype = t, .requires_grad = true}), Error) << what;
  }
  EXPECT_EQ(Tensor::from<uint16_t>({1, 65535}, {2}).to_vector<uint16_t>()[1], 65535);
  using Complex = std::complex<float>;
  EXPECT_EQ(Tensor::from<Complex>({{1, 2}, {3, 4}}, {2}).to_vector<Complex>()[1], Complex(3, 4));
}

}  // namespace
}  // namespace brim
