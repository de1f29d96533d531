// A small CIFAR-10 folder for tests: ten colours with noise, which a network learns at once.
#pragma once

#include <filesystem>
#include <fstream>
#include <random>
#include <string>

namespace brim::testing {

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

inline std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace brim::testing
