// Images at other sizes, each pixel between two of a row and two of a column.
#pragma once

#include <cstdint>

#include "rt/isa.h"
#include "rt/threads.h"

namespace brim::rt {

/// What a row or column of y is made of: rest * x[before] + share * x[after].
struct ResizeTap {
  int64_t before, after;
  float rest, share;
};

/// nhwc, in f32.
struct Resize {
  int64_t n, h, w, c, oh, ow;
  const float* x;
  const ResizeTap *rows, *columns;
  float* y;
};

/// `scratch`: a row of x for each thread.
void resize(Isa isa, const Resize& resize, const Threads& threads, float* scratch);

}  // namespace brim::rt
