#include "core/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace brim {

uint64_t xxh64(const void* data, size_t bytes, uint64_t seed) { return XXH64(data, bytes, seed); }

}  // namespace brim
