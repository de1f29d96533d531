// The inner loops for the instruction sets that the CPU may have.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/transform/resample_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "data/transform/resample_rows.h"
#include "formula/resample_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::data::HWY_NAMESPACE {
namespace {

void across_rows(const uint8_t* from, int64_t pitch, const Taps* taps, const int32_t* weights,
                 int stride, int width, uint8_t* to, int64_t to_pitch) {
  formula::HWY_NAMESPACE::across(from, pitch, taps, weights, stride, width, to, to_pitch);
}
void down_rows(const uint8_t* rows, int64_t pitch, int count, const int32_t* weights, int64_t bytes,
               uint8_t* to) {
  formula::HWY_NAMESPACE::down(rows, pitch, count, weights, bytes, to);
}

}  // namespace
}  // namespace brim::data::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::data {

HWY_EXPORT(across_rows);
HWY_EXPORT(down_rows);

void resample_across(const uint8_t* from, int64_t pitch, const Taps* taps, const int32_t* weights,
                     int stride, int width, uint8_t* to, int64_t to_pitch) {
  HWY_DYNAMIC_DISPATCH(across_rows)(from, pitch, taps, weights, stride, width, to, to_pitch);
}

void resample_down(const uint8_t* rows, int64_t pitch, int count, const int32_t* weights,
                   int64_t bytes, uint8_t* to) {
  HWY_DYNAMIC_DISPATCH(down_rows)(rows, pitch, count, weights, bytes, to);
}

}  // namespace brim::data
#endif
