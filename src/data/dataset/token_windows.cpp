#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/dataset/token_windows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <brim/formula/dense.h>

#include "core/check.h"
#include "data/dataset/token_windows.h"

HWY_BEFORE_NAMESPACE();
namespace brim::data::HWY_NAMESPACE {
namespace {

// Loops of which the compiler makes vectors: each token is loaded twice, from the cache.
template <class T>
void widen(const uint8_t* HWY_RESTRICT tokens, int64_t count, int64_t* HWY_RESTRICT x,
           int64_t* HWY_RESTRICT y) {
  struct __attribute__((packed)) Token {
    T value;
  };
  const auto* const from = reinterpret_cast<const Token*>(tokens);
  BRIM_INDEPENDENT
  for (int64_t i = 0; i < count; ++i) {
    x[i] = static_cast<int64_t>(from[i].value);
    y[i] = static_cast<int64_t>(from[i + 1].value);
  }
}

void widen_any(DType dtype, const uint8_t* tokens, int64_t count, int64_t* x, int64_t* y) {
  switch (dtype) {
    case DType::u8:
      return widen<uint8_t>(tokens, count, x, y);
    case DType::u16:
      return widen<uint16_t>(tokens, count, x, y);
    case DType::i32:
      return widen<int32_t>(tokens, count, x, y);
    case DType::u32:
      return widen<uint32_t>(tokens, count, x, y);
    case DType::i64:
      return widen<int64_t>(tokens, count, x, y);
    default:
      raise<ValueError>("[data] tokens of {}; they are u8, u16, i32, u32 or i64", name(dtype));
  }
}

}  // namespace
}  // namespace brim::data::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::data {

HWY_EXPORT(widen_any);

void widen_window(DType dtype, const uint8_t* tokens, int64_t count, int64_t* x, int64_t* y) {
  HWY_DYNAMIC_DISPATCH(widen_any)(dtype, tokens, count, x, y);
}

}  // namespace brim::data
#endif
