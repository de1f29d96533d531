// Runs of other types to f32 and back, in vectors. To 16 bits rounds to nearest even; to integers
// and bool is as formula::converted.
#pragma once

#include <cstdint>

#include <brim/core/dtype.h>

namespace brim::cpu {

void convert_run(const Half* from, float* to, int64_t n);
void convert_run(const BFloat16* from, float* to, int64_t n);
void convert_run(const float* from, Half* to, int64_t n);
void convert_run(const float* from, BFloat16* to, int64_t n);
void convert_run(const float* from, int8_t* to, int64_t n);
void convert_run(const float* from, uint8_t* to, int64_t n);
void convert_run(const float* from, bool* to, int64_t n);

}  // namespace brim::cpu
