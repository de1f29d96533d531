// The CRC-32 of zip files (ISO 3309, polynomial 0xEDB88320 reflected), eight bytes at a time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace brim::io {

uint32_t crc32(const void* data, size_t bytes);

}  // namespace brim::io
