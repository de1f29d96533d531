// Sources of labelled pictures. A source is immutable once open: every const member may be called
// from many threads at once, and sample i is the same picture for ever.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <brim/core/error.h>
#include <brim/data/image.h>

namespace brim::data {

/// Which part of a data set. `all` is train followed by test, or everything in data without a
/// split.
enum class Split : uint8_t {
  train,  ///< what is learned from
  test,   ///< what is measured on
  all     ///< both together
};

/// "train", "test" or "all".
const char* to_string(Split split);

/// Inverse of `to_string`. Throws ValueError for any other word.
Split parse_split(const std::string& word);

/// The data set is there but has no such split.
class NoSuchSplit : public FileError {
 public:
  using FileError::FileError;
};

/// Told from 0 to 1 how much of a large file is read. Returning false stops the opening with an
/// Error.
using OpenProgress = std::function<bool(double fraction)>;

/// Random access to labelled pictures.
class Source {
 public:
  virtual ~Source() = default;

  /// Number of samples; at least 1.
  virtual int64_t size() const = 0;

  /// Class names by label, the same for every split of one data set; each there once, none empty.
  virtual const std::vector<std::string>& classes() const = 0;

  /// Label of sample i, 0 <= label < classes().size().
  virtual int64_t label(int64_t i) const = 0;

  /// The shape of every sample, or {0, 0, 0} where it is known only after decoding.
  virtual ImageShape image_shape() const { return {}; }

  /// Decodes sample i into `out`, whose memory is reused: width, height, 3 channels and that many
  /// pixels. Throws FileError with the sample's name.
  virtual void read(int64_t i, Image& out) const = 0;

  /// The pixels of sample i without a copy, valid while the source lives; null where they are not
  /// in memory.
  virtual ImageView view(int64_t i) const;

  /// The JPEG or PNG file of sample i, still encoded: in `buffer`, or in memory that lives as long
  /// as the source. Empty where samples are no files. Throws FileError.
  virtual std::span<const uint8_t> file(int64_t i, std::vector<uint8_t>& buffer) const;

  /// Called shortly before sample i is asked for, as Dataset::prefetch is.
  virtual void prefetch(int64_t i) const noexcept;

  /// Throws FileError where what `view` and `file` gave may have been lost while it was used: their
  /// file became shorter. To be called afterwards; the loader does, once a batch.
  virtual void check() const {}

  /// True when `view` gives every sample, so that reading one costs next to nothing.
  virtual bool in_memory() const { return false; }

  /// Where sample i comes from, for messages: "pets.tar: train/cat/0012.jpg".
  virtual std::string describe(int64_t i) const = 0;

  /// Opens what `where` names, found out by content:
  ///  - "shapes10" (or "shapes10:SEED"): the built-in drawn set, unless a file of that name exists
  ///  - a directory with data_batch_*.bin and test_batch.bin, or one such file (CIFAR-10 binary)
  ///  - a directory with train-images-idx3-ubyte, t10k-labels-idx1-ubyte ... (MNIST's IDX files)
  ///  - a directory of one folder per class, or of train/ and test/ (or val/) with such folders
  ///  - a tar of the same layout: plain, gzip, xz or zstd
  ///  - a safetensors file with pictures and labels
  ///  - "shards/train-{000000..000009}.tar": tars with WebDataset's naming
  /// Data without a split is all train. Throws FileError for what is missing, damaged or empty, or
  /// has two classes of one name, and its child NoSuchSplit when only the split is missing.
  /// `progress` is called while a tar or gzip file is read; everything else opens at once.
  static std::shared_ptr<const Source> open(const std::string& where, Split split,
                                            const OpenProgress& progress = {});
};

/// The built-in set: ten drawn shapes, 32 x 32 RGB, 10,000 train and 2,000 test samples. Samples
/// are drawn on first use, so opening costs nothing; the same seed gives the same pixels on every
/// machine.
std::shared_ptr<const Source> open_shapes10(Split split, uint64_t seed = 0);

/// CIFAR-10 binary (Krizhevsky 2009, cs.toronto.edu/~kriz/cifar.html): records of one label byte
/// and 3,072 pixel bytes in three planes. Class names come from batches.meta.txt where there is
/// one; it may name up to 256 classes. Files are mapped.
std::shared_ptr<const Source> open_cifar10(const std::string& path, Split split);

/// MNIST and sets made like it (LeCun, Cortes, Burges, yann.lecun.com/exdb/mnist): {train,t10k}-
/// {images-idx3,labels-idx1}-ubyte, also spelled with a dot before "idx", each plain (mapped) or
/// gzip (unpacked into memory, no more than the header declares); in the folder or in raw/. Grey
/// becomes RGB, as in `decode_image`. Classes are "0" to "9", or as many as labels of both splits
/// name. Throws FileError for damage: magic numbers, sizes, counts that differ, labels with a gap.
std::shared_ptr<const Source> open_idx(const std::string& path, Split split,
                                       const OpenProgress& progress = {});

/// One folder per class; the sorted folder names are the classes, and files lie at any depth below.
std::shared_ptr<const Source> open_image_folder(const std::string& path, Split split);

/// A tar with the layout of an image folder. The compressed pictures are held in memory (a plain
/// tar is mapped instead). Refuses links, devices, absolute paths and "..".
std::shared_ptr<const Source> open_image_tar(const std::string& path, Split split,
                                             const OpenProgress& progress = {});

/// Tar shards with the naming of WebDataset (github.com/webdataset/webdataset): the range in braces
/// counts the tars (plain, gzip, xz or zstd); files with the same name up to the first dot are one
/// sample, a picture (.jpg, .jpeg, .png) and its class number (.cls, decimal text); others are left
/// alone. Classes are "0" to the largest label. All samples are train. Pictures are held as in
/// `open_image_tar`. Throws FileError for a missing shard and for samples that are not complete.
std::shared_ptr<const Source> open_shards(const std::string& pattern, Split split,
                                          const OpenProgress& progress = {});

/// Arrays of a safetensors file, mapped: `images` u8 (N, C, H, W), (N, H, W, C) or (N, H, W) with 1
/// or 3 channels (the axis behind N decides where both would do) and `labels` i64, i32 or u8 (N);
/// or `train_images`, `train_labels`, `test_images`, `test_labels`. Without a split all is train.
/// Metadata `classes` holds their names, one a line; otherwise classes are "0" to the largest
/// label. Throws FileError for other shapes and dtypes, counts that differ, and labels below 0.
std::shared_ptr<const Source> open_arrays(const std::string& path, Split split);

}  // namespace brim::data
