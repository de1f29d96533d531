// Products of rows of 8-bit integers with packed weights (see brim/ops/int8.h). A row is where a
// linear layer's input lies, or the corner of what a convolution's kernel covers: inputs are at
// fixed offsets from it, whatever the row.
//
// What instruction sets multiply best differs, and with it how numbers are laid out. AVX-512 with
// VNNI adds the products of four u8 and four i8 to an i32; the others those of two i16, which
// inputs are widened to beforehand and weights as they are loaded. Both are exact.
#pragma once

#include <cstdint>

namespace brim::cpu {

/// Of the instruction set in use.
struct Int8Layout {
  int64_t group;  ///< inputs that are multiplied and added up at once: 4 of u8, or 2 of i16
  int64_t lanes;  ///< outputs of a vector
  int64_t input_bytes() const { return group == 4 ? 1 : 2; }
};
Int8Layout int8_layout();

/// Packed weights are strips of `lanes` outputs, steps of `group` inputs: (lanes, group) i8 each.
struct Int8Rows {
  const void* x;        ///< u8 or i16
  const int64_t* rows;  ///< elements from x
  int64_t count;
  const int32_t* offsets;  ///< of each step's inputs from a row's beginning
  int64_t steps;
  const int8_t* weights;  ///< of the first strip
  int64_t strips;
  int64_t step_bytes, strip_bytes;  ///< from one to the next of the weights
};

/// What becomes of numbers besides, each null where there is none. They are read and written where
/// y is.
struct Int8Epilogue {
  const float *mean, *factor, *shift;  ///< of outputs: (number - mean) * factor + shift
  const float* residual;               ///< is added
  float min, max;                      ///< that the result is held to; NaN stays
  uint8_t* q;  ///< gets the result in u8, by Int8Finish's inverse and zero_point
};

/// How sums become numbers: max(sum * scale + shift, min); 0 for a scale beyond the outputs.
/// With `inverse` also round(that * inverse) + zero_point, in 0..255.
struct Int8Finish {
  const int32_t* start;  ///< of sums
  const float *scale, *shift;
  float min;
  float inverse;  ///< 0: the result stays f32
  int32_t zero_point;
  const Int8Epilogue* epilogue = nullptr;  ///< y is f32 then, and may be null
};

/// y: (count, strips * lanes) of f32 or u8, rows `ld` elements apart. Does not depend on how rows
/// are cut into calls.
void int8_rows(const Int8Rows& rows, const Int8Finish& finish, void* y, int64_t ld);

/// n numbers; to u8: round(x * inverse) + zero_point in 0..255, NaN as 0.
void quantize_run(const float* x, uint8_t* q, int64_t n, float inverse, int32_t zero_point);

}  // namespace brim::cpu
