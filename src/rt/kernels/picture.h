// Resampling of pictures, and bytes as numbers.
#pragma once

#include <cstdint>

#include "rt/isa.h"
#include "rt/threads.h"

namespace brim::rt {

/// Outputs along one axis: words as in ops/picture.h, and `max_taps` weights each.
struct PictureAxis {
  int64_t in, out;
  const int64_t* words;
  const int32_t* weights;
  int64_t max_taps;
};

struct Pictures {
  int64_t n, c;
  PictureAxis rows, columns;
  bool is_resampled, is_reversed;
  const uint8_t* x;
  const float* table;
  float* y;
};

/// Bytes that prepare_pictures() works in.
size_t picture_scratch(const Pictures& pictures, int threads);

void prepare_pictures(Isa isa, const Pictures& pictures, const Threads& threads, void* scratch);

}  // namespace brim::rt
