// Conversion of any source to any of the formats that Source::open reads. Link brim::datasets.
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

/// What a conversion writes.
enum class DataFormat : uint8_t {
  cifar10,      ///< a folder of CIFAR-10 binary files; pictures must be 32 x 32
  idx,          ///< a folder of MNIST's four IDX files; pictures must be grey and of one size
  folder,       ///< train/CLASS/x.jpg and test/CLASS/x.jpg, or CLASS/x.jpg without a test split
  tar,          ///< the same in a plain tar
  shards,       ///< a folder of WebDataset tars, train-000000.tar ... with 1,000 samples each
  safetensors,  ///< one file of arrays: train_images (N, H, W, 3), train_labels ...; one size
};

/// "cifar10", "idx", "folder", "tar", "shards", "safetensors".
const char* to_string(DataFormat format);

/// Inverse of `to_string`. Throws ValueError for any other word.
DataFormat parse_data_format(const std::string& word);

/// Options of convert().
struct ConvertOptions {
  int side = 0;       ///< resize (bilinear) to side x side; 0: as they are. CIFAR-10 takes 0 and 32
  int workers = -1;   ///< decoding threads; 0: the calling one; -1: one per available CPU
  uint64_t seed = 0;  ///< of the order of the records
  bool overwrite = false;  ///< replace CIFAR-10 files that are already in the folder
  /// Called now and then from the calling thread. Returning false stops the conversion: Error is
  /// thrown and nothing is left behind.
  std::function<bool(const ConvertProgress&)> progress = {};
};

/// What convert() wrote.
struct ConvertResult {
  int64_t train = 0;                 ///< pictures of the training split
  int64_t test = 0;                  ///< 0 if the input has no test split
  std::vector<std::string> classes;  ///< in the order of their labels
  std::vector<std::string> files;    ///< what was written, as paths
};

/// Writes data_batch_1.bin ... (10,000 records a file), test_batch.bin if there is a test split,
/// and batches.meta.txt into `out_dir`, which is made if needed. `input` is anything that
/// Source::open takes; archives are streamed. The order of the records is a permutation keyed by
/// `seed`, so that no file is sorted by class. Files appear under their names only when all of them
/// are complete. Throws FileError for damaged input, pictures of another size (naming the first),
/// more than 256 classes, or an unwritable folder.
ConvertResult convert_to_cifar10(const std::string& input, const std::string& out_dir,
                                 const ConvertOptions& options = {});

/// Writes `input` as `format` to `out`, a file or folder that appears when it is complete. JPEG and
/// PNG files are taken over as they are (unless they are resized), other pictures are written as
/// PNG. The order of samples is a permutation keyed by `seed`. Folders must not exist yet;
/// `overwrite` is for files and CIFAR-10. Throws what convert_to_cifar10 throws.
ConvertResult convert(const std::string& input, const std::string& out, DataFormat format,
                      const ConvertOptions& options = {});

}  // namespace brim::data
