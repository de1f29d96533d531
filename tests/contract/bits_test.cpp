// Copies within a dtype keep every bit on every device: of NaNs, and of dtypes that are stored
// only.
#include <gtest/gtest.h>

#include <functional>

#include <brim/brim.h>

#include "any_bits.h"
#include "contract/harness.h"
#include "message_of.h"

namespace brim::contract {
namespace {

TEST(Bits, CopiesKeepThem) {
  for (const Device device : devices())
    for (int i = 0; i < kDTypeCount; ++i) {
      const auto dtype = static_cast<DType>(i);
      SCOPED_TRACE(std::string(name(dtype)) + " on " + device.str());
      const Tensor x = tests::any_bits(dtype), there = x.to(device);
      const std::vector<uint8_t> bits = tests::bytes_of(x);
      EXPECT_EQ(tests::bytes_of(there), bits);
      EXPECT_EQ(tests::bytes_of(there.clone()), bits);
      EXPECT_EQ(tests::bytes_of(there.t().contiguous().t()), bits);
      Tensor turned = Tensor::empty({3, 2}, dtype, device);
      turned.copy_(there.t());
      EXPECT_EQ(tests::bytes_of(turned.t()), bits);
      turned.copy_(x.t());
      EXPECT_EQ(tests::bytes_of(turned.t()), bits);

      std::vector<uint8_t> many;
      for (int k = 0; k < 100; ++k) many.insert(many.end(), bits.begin(), bits.end());
      const Tensor wide = cat(std::vector<Tensor>(100, there), 0);
      EXPECT_EQ(tests::bytes_of(wide.clone()), many);
      const Tensor pictures = wide.view({5, 3, 8, 5}).to(MemoryFormat::nhwc);
      EXPECT_EQ(tests::bytes_of(pictures), many);
    }
}

TEST(Bits, OpsRefuseWhatIsStoredOnly) {
  for (const Device device : devices())
    for (int i = 0; i < kDTypeCount; ++i) {
      const auto dtype = static_cast<DType>(i);
      if (is_computed(dtype)) continue;
      const Tensor x = tests::any_bits(dtype).to(device);
      for (const std::function<void()>& use : std::initializer_list<std::function<void()>>{
               [&] { (void)(x * x); }, [&] { (void)x.to(f32); }, [&] { (void)sum(x); },
               [&] { (void)zeros_like(x); }}) {
        const std::string message = tests::message_of<NotImplemented>(use);
        EXPECT_NE(message.find(std::string(name(dtype)) + " is stored only"), std::string::npos)
            << message << " on " << device.str();
      }
    }
}

}  // namespace
}  // namespace brim::contract
