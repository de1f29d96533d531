// When fusing convolution and pooling pays.
#include "backend/fused_conv.h"

namespace brim::backend {

bool conv_pool_is_fast(const ConvPool& g) {
  const int64_t window = g.pool.kernel.h * g.pool.kernel.w;
  return window >= 4 && window < kNoPlace;
}

}  // namespace brim::backend
