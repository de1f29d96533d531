// XXH64, streaming by 32-byte stripes.
#include "io/hash.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "core/check.h"
#include "io/regular_file.h"

namespace brim::io {
namespace {

constexpr uint64_t kP1 = 0x9E3779B185EBCA87, kP2 = 0xC2B2AE3D27D4EB4F, kP3 = 0x165667B19E3779F9,
                   kP4 = 0x85EBCA77C2B2AE63, kP5 = 0x27D4EB2F165667C5;

template <class T>
T load(const uint8_t* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

uint64_t round(uint64_t lane, uint64_t input) { return std::rotl(lane + input * kP2, 31) * kP1; }

class Xxh64 {
 public:
  explicit Xxh64(uint64_t seed)
      : seed_(seed), lane_{seed + kP1 + kP2, seed + kP2, seed, seed - kP1} {}

  /// Whole stripes; all calls but the last give a multiple of 32 bytes.
  const uint8_t* stripes(const uint8_t* p, size_t bytes) {
    total_ += bytes;
    for (; bytes >= 32; bytes -= 32)
      for (uint64_t& lane : lane_) {
        lane = round(lane, load<uint64_t>(p));
        p += 8;
      }
    return p;
  }

  /// `p`: what the last call of stripes() left over.
  uint64_t finish(const uint8_t* p) const {
    uint64_t h = seed_ + kP5;
    if (total_ >= 32) {
      h = std::rotl(lane_[0], 1) + std::rotl(lane_[1], 7) + std::rotl(lane_[2], 12) +
          std::rotl(lane_[3], 18);
      for (const uint64_t lane : lane_) h = (h ^ round(0, lane)) * kP1 + kP4;
    }
    h += total_;
    size_t left = total_ % 32;
    for (; left >= 8; left -= 8, p += 8)
      h = std::rotl(h ^ round(0, load<uint64_t>(p)), 27) * kP1 + kP4;
    if (left >= 4) {
      h = std::rotl(h ^ load<uint32_t>(p) * kP1, 23) * kP2 + kP3;
      p += 4;
      left -= 4;
    }
    for (; left > 0; --left, ++p) h = std::rotl(h ^ *p * kP5, 11) * kP1;
    h = (h ^ (h >> 33)) * kP2;
    h = (h ^ (h >> 29)) * kP3;
    return h ^ (h >> 32);
  }

 private:
  uint64_t seed_;
  uint64_t lane_[4];
  uint64_t total_ = 0;
};

}  // namespace

uint64_t xxh64(const void* data, size_t bytes, uint64_t seed) {
  Xxh64 hash(seed);
  return hash.finish(hash.stripes(static_cast<const uint8_t*>(data), bytes));
}

FileHash hash_file(const std::string& path) {
  const RegularFile file(path, "file", "a file to hash");
  std::vector<uint8_t> buffer(1 << 18);
  FileHash result{.bytes = file.bytes()};
  Xxh64 hash(0);
  const uint8_t* rest = buffer.data();
  for (uint64_t at = 0; at < file.bytes(); at += buffer.size()) {
    const size_t part = std::min<uint64_t>(buffer.size(), file.bytes() - at);
    file.read(buffer.data(), part, at);
    rest = hash.stripes(buffer.data(), part);
  }
  result.hex = fmt::format("{:016x}", hash.finish(rest));
  return result;
}

}  // namespace brim::io
