// The CIFAR-10 binary format: constants and what reader and converter share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace brim::data {

inline constexpr int kCifarSide = 32;
inline constexpr int64_t kCifarPixels = 3 * kCifarSide * kCifarSide;
inline constexpr int64_t kCifarRecord =
    1 + kCifarPixels;  // label, red plane, green plane, blue plane
inline constexpr int64_t kCifarRecordsPerFile = 10000;
inline constexpr const char* kCifarMeta = "batches.meta.txt";

/// True if the folder, or cifar-10-batches-bin in it, holds data_batch_*.bin or test_batch.bin.
bool is_cifar10_folder(const std::string& path);

/// The data_batch_N.bin of a folder in order of N, as paths.
std::vector<std::string> cifar10_train_files(const std::string& folder);

}  // namespace brim::data
