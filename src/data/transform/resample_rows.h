// The two inner loops of resampling, for the vector instructions of the machine. All arithmetic is
// on integers, so every instruction set gives the same bytes.
#pragma once

#include <cstdint>

#include "formula/resample.h"

namespace brim::data {

using formula::Taps;

/// Two rows of interleaved RGB, `from` and `from + pitch`: `to` and `to + to_pitch` get `width`
/// pixels each, pixel x the weighted sum of the pixels taps[x] of the row, with weights from
/// weights[x * stride]. Reads and writes one byte more than the last pixel of each row.
void resample_across(const uint8_t* from, int64_t pitch, const Taps* taps, const int32_t* weights,
                     int stride, int width, uint8_t* to, int64_t to_pitch);

/// The weighted sum of `count` rows of `bytes` bytes, `pitch` bytes apart.
void resample_down(const uint8_t* rows, int64_t pitch, int count, const int32_t* weights,
                   int64_t bytes, uint8_t* to);

}  // namespace brim::data
