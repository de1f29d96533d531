// When fusing convolution and pooling pays.
#include "backend/fused_conv.h"

namespace brim::backend {

namespace {

/// What CUDA's kernels keep in the 48 KiB of shared memory that every GPU has: what one row of
/// windows sees, with the weights of one output channel; and a plane of the input.
bool fits_shared_memory(const ConvPool& g) {
  const ConvGeometry& c = g.conv;
  const int64_t rows =
      (g.pool.kernel.h - 1) * g.pool.dilation.h * c.stride.h + (c.kh - 1) * c.dilation.h + 1;
  const int64_t columns = c.w + 2 * c.padding.w + 1;
  constexpr int64_t kFloats = 12 << 10, kMostColumns = 256;
  return c.c * (rows * columns + c.kh * c.kw + 3) + 8 <= kFloats &&
         (c.h + 2 * c.padding.h) * columns <= kFloats && columns <= kMostColumns;
}

}  // namespace

bool conv_pool_is_fast(DeviceKind kind, const ConvPool& g) {
  // Places are bytes. The gradient follows the windows' winners: there must be few of them, and
  // each reads all weights of its channel, which must be near. Beyond, oneDNN and Winograd were
  // faster on the CPU; the limit for CUDA is an estimate.
  const bool cuda = kind == DeviceKind::cuda;
  const int64_t most_weights = int64_t{1} << (cuda ? 14 : 19);
  const int64_t window = g.pool.kernel.h * g.pool.kernel.w;
  return window < kNoPlace && g.pool.stride.h * g.pool.stride.w >= 4 && g.conv.groups == 1 &&
         g.conv.weight_shape().numel() <= most_weights && (!cuda || fits_shared_memory(g));
}

}  // namespace brim::backend
