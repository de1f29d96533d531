// A hash that tells things apart; it is not made against forgery.
#pragma once

#include <cstddef>
#include <cstdint>

namespace brim {

/// XXH64 (Collet, github.com/Cyan4973/xxHash, doc/xxhash_spec.md).
uint64_t xxh64(const void* data, size_t bytes, uint64_t seed = 0);

}  // namespace brim
