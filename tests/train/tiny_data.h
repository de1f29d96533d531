// A small CIFAR-10 folder for tests: ten colours with noise, which a network learns at once.
#pragma once

#include <filesystem>
#include <fstream>
#include <random>
#include <string>

namespace brim::tests {

inline void write_cifar_file(const std::string& path, int records, unsigned seed) {
  std::mt19937 random(seed);
  std::ofstream out(path, std::ios::binary);
  for (int i = 0; i < records; ++i) {
    const int label = i % 10;
    std::string record(1, static_cast<char>(label));
    for (int c = 0; c < 3; ++c) {
      const unsigned base = static_cast<unsigned>((label * 37 + c * 101) % 192);
      for (int p = 0; p < 1024; ++p) record += static_cast<char>(base + random() % 64);
    }
    out << record;
  }
}

/// data_batch_1.bin with `train` records and test_batch.bin with `test`.
inline void write_tiny_cifar(const std::string& folder, int train = 60, int test = 20) {
  std::filesystem::create_directories(folder);
  write_cifar_file(folder + "/data_batch_1.bin", train, 1);
  if (test > 0) write_cifar_file(folder + "/test_batch.bin", test, 2);
}

/// A picture of one pixel.
inline void write_pixel_png(const std::string& path) {
  const unsigned char bytes[] = {
      0x89, 'P',  'N',  'G',  0x0d, 0x0a, 0x1a, 0x0a, 0,    0,    0,    0x0d, 'I',  'H',
      'D',  'R',  0,    0,    0,    1,    0,    0,    0,    1,    8,    2,    0,    0,
      0,    0x90, 0x77, 0x53, 0xde, 0,    0,    0,    0x0c, 'I',  'D',  'A',  'T',  0x08,
      0xd7, 0x63, 0xf8, 0xcf, 0xc0, 0,    0,    0x03, 0x01, 0x01, 0,    0x18, 0xdd, 0x8d,
      0xb0, 0,    0,    0,    0,    'I',  'E',  'N',  'D',  0xae, 0x42, 0x60, 0x82};
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes), sizeof bytes);
}

inline std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace brim::tests
