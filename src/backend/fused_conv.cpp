// When fusing convolution and pooling pays.
#include "backend/fused_conv.h"

namespace brim::backend {

bool conv_pool_is_fast(const ConvPool& g) {
  // Places are bytes. The gradient follows the windows' winners: there must be few of them, and
  // each reads all weights of its channel, which must be near. Beyond, oneDNN and Winograd were
  // faster.
  constexpr int64_t kMostWeights = int64_t{1} << 19;
  const int64_t window = g.pool.kernel.h * g.pool.kernel.w;
  return window < kNoPlace && g.pool.stride.h * g.pool.stride.w >= 4 && g.conv.groups == 1 &&
         g.conv.weight_shape().numel() <= kMostWeights;
}

}  // namespace brim::backend
