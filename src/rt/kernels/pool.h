// Pooling of nhwc images.
#pragma once

#include <cstdint>

#include "rt/attributes.h"
#include "rt/isa.h"
#include "rt/threads.h"

namespace brim::rt {

struct Pooling {
  PoolAttributes a;
  int64_t n, h, w, c, oh, ow;
  const float* x;
  float* y;
};

void max_pool(Isa isa, const Pooling& pool, const Threads& threads);
void average_pool(Isa isa, const Pooling& pool, const Threads& threads);

}  // namespace brim::rt
