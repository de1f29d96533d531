// Conversion of any source to the CIFAR-10 binary format.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace brim::data {

/// How far a conversion is.
struct ConvertProgress {
  int64_t images = 0;      ///< pictures done
  double fraction = 0;     ///< 0 to 1
  const char* stage = "";  ///< "decode" or "write"
};

struct ConvertOptions {
  int side = 0;  ///< 0: every picture must be 32 x 32; 32: others are resized (bilinear) to 32 x 32
  int workers = -1;        ///< decoding threads; 0: the calling one; -1: one per available CPU
  uint64_t seed = 0;       ///< of the order of the records
  bool overwrite = false;  ///< replace CIFAR-10 files that are already in the folder
  /// Called now and then from the calling thread. Returning false stops the conversion: Error is
  /// thrown and nothing is left behind.
  std::function<bool(const ConvertProgress&)> progress;
};

struct ConvertResult {
  int64_t train = 0;
  int64_t test = 0;  ///< 0 if the input has no test split
  std::vector<std::string> classes;
  std::vector<std::string> files;  ///< what was written, as paths
};

/// Writes data_batch_1.bin ... (10,000 records a file), test_batch.bin if there is a test split,
/// and batches.meta.txt into `out_dir`, which is made if needed. `input` is anything that
/// Source::open takes; archives are streamed. The order of the records is a permutation keyed by
/// `seed`, so that no file is sorted by class. Files appear under their names only when all of them
/// are complete. Throws FileError for damaged input, pictures of another size (naming the first),
/// more than 256 classes, or an unwritable folder.
ConvertResult convert_to_cifar10(const std::string& input, const std::string& out_dir,
                                 const ConvertOptions& options = {});

}  // namespace brim::data
