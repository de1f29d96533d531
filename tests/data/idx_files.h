// Makes the IDX files of a small MNIST for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace brim::tests {

/// The file of a magic number, dimensions and what follows them.
inline std::vector<uint8_t> idx_file(uint32_t magic, const std::vector<uint32_t>& dimensions,
                                     const std::vector<uint8_t>& data) {
  std::vector<uint8_t> bytes;
  const auto word = [&](uint32_t value) {
    for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<uint8_t>(value >> shift));
  };
  word(magic);
  for (const uint32_t d : dimensions) word(d);
  bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

inline std::vector<uint8_t> idx_labels(const std::vector<uint8_t>& labels) {
  return idx_file(0x801, {static_cast<uint32_t>(labels.size())}, labels);
}

/// Pixel k of all is k * 7 (mod 251).
inline std::vector<uint8_t> idx_images(uint32_t count, uint32_t height = 28, uint32_t width = 28) {
  std::vector<uint8_t> pixels;
  for (uint32_t k = 0; k < count * height * width; ++k)
    pixels.push_back(static_cast<uint8_t>(k * 7 % 251));
  return idx_file(0x803, {count, height, width}, pixels);
}

}  // namespace brim::tests
