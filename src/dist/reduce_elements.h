// The arithmetic of reductions over ranks.
#pragma once

#include <cstdint>

#include <brim/core/dtype.h>
#include <brim/dist/process_group.h>

namespace brim::dist {

/// into[i] = reduce(into[i], from[i]), rounded to the dtype each time. NaN wins in min and max.
void reduce_elements(DType dtype, Reduce reduce, void* into, const void* from, int64_t count);

}  // namespace brim::dist
