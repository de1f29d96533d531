#include "backend/cpu/elementwise/transpose.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/elementwise/transpose.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/elementwise/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

void tile_of_8_bits(const uint8_t* from, int64_t from_ld, int64_t rows, int64_t columns,
                    uint8_t* to, int64_t to_ld) {
  transpose(from, from_ld, rows, columns, to, to_ld);
}
void tile_of_16_bits(const uint16_t* from, int64_t from_ld, int64_t rows, int64_t columns,
                     uint16_t* to, int64_t to_ld) {
  transpose(from, from_ld, rows, columns, to, to_ld);
}
void tile_of_32_bits(const float* from, int64_t from_ld, int64_t rows, int64_t columns, float* to,
                     int64_t to_ld) {
  transpose(from, from_ld, rows, columns, to, to_ld);
}
void tile_of_64_bits(const uint64_t* from, int64_t from_ld, int64_t rows, int64_t columns,
                     uint64_t* to, int64_t to_ld) {
  transpose(from, from_ld, rows, columns, to, to_ld);
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::cpu {

HWY_EXPORT(tile_of_8_bits);
HWY_EXPORT(tile_of_16_bits);
HWY_EXPORT(tile_of_32_bits);
HWY_EXPORT(tile_of_64_bits);

void transpose_tile(const uint8_t* from, int64_t from_ld, int64_t rows, int64_t columns,
                    uint8_t* to, int64_t to_ld) {
  HWY_DYNAMIC_DISPATCH(tile_of_8_bits)(from, from_ld, rows, columns, to, to_ld);
}
void transpose_tile(const uint16_t* from, int64_t from_ld, int64_t rows, int64_t columns,
                    uint16_t* to, int64_t to_ld) {
  HWY_DYNAMIC_DISPATCH(tile_of_16_bits)(from, from_ld, rows, columns, to, to_ld);
}
void transpose_tile(const float* from, int64_t from_ld, int64_t rows, int64_t columns, float* to,
                    int64_t to_ld) {
  HWY_DYNAMIC_DISPATCH(tile_of_32_bits)(from, from_ld, rows, columns, to, to_ld);
}
void transpose_tile(const uint64_t* from, int64_t from_ld, int64_t rows, int64_t columns,
                    uint64_t* to, int64_t to_ld) {
  HWY_DYNAMIC_DISPATCH(tile_of_64_bits)(from, from_ld, rows, columns, to, to_ld);
}

}  // namespace brim::cpu
#endif
