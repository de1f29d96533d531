// Pooling of nhwc images.
#pragma once

#include <cstdint>

#include "rt/attributes.h"
#include "rt/isa.h"
#include "rt/threads.h"

namespace brim::rt {

template <class T>
struct PoolingOf {
  PoolAttributes a;
  int64_t n, h, w, c, oh, ow;
  const T* x;
  T* y;
};
using Pooling = PoolingOf<float>;
using U8Pooling = PoolingOf<uint8_t>;

void max_pool(Isa isa, const Pooling& pool, const Threads& threads);
/// 0 for windows beside the image.
void max_pool_u8(Isa isa, const U8Pooling& pool, const Threads& threads);
void average_pool(Isa isa, const Pooling& pool, const Threads& threads);

}  // namespace brim::rt
