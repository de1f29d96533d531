// The 64 steps of RFC 1321, section 3.4.
#include "data/get/md5.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/check.h"
#include "data/file.h"

namespace brim::data {
namespace {

// floor(2^32 |sin(i + 1)|), as the RFC defines them.
const std::array<uint32_t, 64>& sines() {
  static const auto table = [] {
    std::array<uint32_t, 64> t{};
    for (size_t i = 0; i < 64; ++i)
      t[i] = static_cast<uint32_t>(std::abs(std::sin(static_cast<double>(i + 1))) * 4294967296.0);
    return t;
  }();
  return table;
}

constexpr std::array<std::array<int, 4>, 4> kTurns = {
    {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}}};

}  // namespace

void Md5::block(const uint8_t* data) {
  std::array<uint32_t, 16> words{};
  for (size_t i = 0; i < 64; ++i) words[i / 4] |= uint32_t{data[i]} << (i % 4 * 8);
  auto [a, b, c, d] = state_;
  for (size_t i = 0; i < 64; ++i) {
    uint32_t mixed = 0;
    size_t word = 0;
    switch (i / 16) {
      case 0:
        mixed = (b & c) | (~b & d), word = i;
        break;
      case 1:
        mixed = (d & b) | (~d & c), word = (5 * i + 1) % 16;
        break;
      case 2:
        mixed = b ^ c ^ d, word = (3 * i + 5) % 16;
        break;
      default:
        mixed = c ^ (b | ~d), word = 7 * i % 16;
    }
    const uint32_t sum = a + mixed + sines()[i] + words[word];
    a = d, d = c, c = b;
    b += std::rotl(sum, kTurns[i / 16][i % 4]);
  }
  state_[0] += a, state_[1] += b, state_[2] += c, state_[3] += d;
}

void Md5::add(const void* data, size_t bytes) {
  const auto* from = static_cast<const uint8_t*>(data);
  while (bytes > 0) {
    const size_t held = total_ % 64, take = std::min(64 - held, bytes);
    std::memcpy(&buffer_[held], from, take);
    total_ += take, from += take, bytes -= take;
    if (held + take == 64) block(buffer_.data());
  }
}

std::string Md5::hex() {
  const uint64_t bits = total_ * 8;
  const std::array<uint8_t, 64> padding = {0x80};
  add(padding.data(), (119 - total_ % 64) % 64 + 1);
  std::array<uint8_t, 8> length{};
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<uint8_t>(bits >> (8 * i));
  add(length.data(), 8);
  std::string text;
  for (const uint32_t word : state_)
    for (int i = 0; i < 4; ++i) text += fmt::format("{:02x}", word >> (8 * i) & 0xff);
  return text;
}

std::string md5_of_file(const std::string& path) {
  const MappedFile file(path);
  Md5 md5;
  md5.add(file.bytes().data(), file.bytes().size());
  return md5.hex();
}

}  // namespace brim::data
