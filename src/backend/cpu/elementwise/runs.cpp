#include "backend/cpu/elementwise/runs.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/elementwise/runs.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
void gather_elements(const T* from, int64_t step, T* to, int64_t n) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  switch (step) {
    case 0:
      for (const auto value = hn::Set(d, *from); i + lanes <= n; i += lanes)
        hn::StoreU(value, d, to + i);
      break;
    case -1:
      if constexpr (sizeof(T) > 1)  // which Highway reverses
        for (; i + lanes <= n; i += lanes)
          hn::StoreU(hn::Reverse(d, hn::LoadU(d, from - i - lanes + 1)), d, to + i);
      break;
#if HWY_TARGET != HWY_SCALAR
    case 2:  // behind the last element nothing may be read
      for (; i + lanes < n; i += lanes)
        hn::StoreU(
            hn::ConcatEven(d, hn::LoadU(d, from + 2 * i + lanes), hn::LoadU(d, from + 2 * i)), d,
            to + i);
      break;
#endif
    default:
      break;
  }
  for (; i < n; ++i) to[i] = from[i * step];
}

void gather_8_bits(const uint8_t* from, int64_t step, uint8_t* to, int64_t n) {
  gather_elements(from, step, to, n);
}
void gather_16_bits(const uint16_t* from, int64_t step, uint16_t* to, int64_t n) {
  gather_elements(from, step, to, n);
}
void gather_32_bits(const uint32_t* from, int64_t step, uint32_t* to, int64_t n) {
  gather_elements(from, step, to, n);
}
void gather_64_bits(const uint64_t* from, int64_t step, uint64_t* to, int64_t n) {
  gather_elements(from, step, to, n);
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::cpu {

HWY_EXPORT(gather_8_bits);
HWY_EXPORT(gather_16_bits);
HWY_EXPORT(gather_32_bits);
HWY_EXPORT(gather_64_bits);

// Looked up once: the call would cost as much as a short run. The instruction set is chosen by
// then, when kernels were registered.
void gather_run(const uint8_t* from, int64_t step, uint8_t* to, int64_t n) {
  static const auto run = &HWY_DYNAMIC_DISPATCH(gather_8_bits);
  run(from, step, to, n);
}
void gather_run(const uint16_t* from, int64_t step, uint16_t* to, int64_t n) {
  static const auto run = &HWY_DYNAMIC_DISPATCH(gather_16_bits);
  run(from, step, to, n);
}
void gather_run(const uint32_t* from, int64_t step, uint32_t* to, int64_t n) {
  static const auto run = &HWY_DYNAMIC_DISPATCH(gather_32_bits);
  run(from, step, to, n);
}
void gather_run(const uint64_t* from, int64_t step, uint64_t* to, int64_t n) {
  static const auto run = &HWY_DYNAMIC_DISPATCH(gather_64_bits);
  run(from, step, to, n);
}

}  // namespace brim::cpu
#endif
