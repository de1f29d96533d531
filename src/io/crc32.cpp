// Slicing by eight (Kounavis and Berry, "Novel Table Lookup-Based Algorithms for High-Performance
// CRC Generation", 2008): one table per byte of a word, so eight lookups do not wait for each
// other.
#include "io/crc32.h"

#include <array>
#include <bit>
#include <cstring>

namespace brim::io {
namespace {

static_assert(std::endian::native == std::endian::little);

using Table = std::array<uint32_t, 256>;

constexpr std::array<Table, 8> make_tables() {
  std::array<Table, 8> tables{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ (c & 1 ? 0xEDB88320U : 0U);
    tables[0][i] = c;
  }
  for (size_t t = 1; t < 8; ++t)
    for (size_t i = 0; i < 256; ++i)
      tables[t][i] = (tables[t - 1][i] >> 8) ^ tables[0][tables[t - 1][i] & 255];
  return tables;
}

constexpr std::array<Table, 8> kTables = make_tables();

}  // namespace

uint32_t crc32(const void* data, size_t bytes) {
  const auto* p = static_cast<const unsigned char*>(data);
  uint32_t crc = ~0U;
  for (; bytes >= 8; bytes -= 8, p += 8) {
    uint64_t word = 0;
    std::memcpy(&word, p, 8);
    word ^= crc;
    crc = 0;
    for (size_t i = 0; i < 8; ++i) crc ^= kTables[7 - i][(word >> (8 * i)) & 255];
  }
  for (; bytes > 0; --bytes, ++p) crc = (crc >> 8) ^ kTables[0][(crc ^ *p) & 255];
  return ~crc;
}

}  // namespace brim::io
