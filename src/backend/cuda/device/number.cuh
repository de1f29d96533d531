// Numbers in kernels, as kernels of users have them.
#pragma once

#include <brim/extend/cuda_number.h>

namespace brim::cuda {

using extend::cuda::Compute;
using extend::cuda::is_16_bit;
using extend::cuda::narrow;
using extend::cuda::widen;

}  // namespace brim::cuda
