// A batch: the tensors that some samples of a data set became.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <brim/core/tensor.h>

namespace brim::data {

/// A tensor of a batch, and what it is called.
struct NamedTensor {
  std::string name = {};  ///< of the field: "x", "mask"
  Tensor tensor = {};     ///< its values, the batch as axis 0
};

/// The tensors belong to whoever holds them: a slot's memory is used again only when nobody does,
/// and when copies out of it to LoaderOptions::target are done.
struct Batch {
  Tensor x;  ///< field "x"; of pictures (N, C, H, W) f32; with LoaderOptions::raw u8, before crop
             ///< and mirroring
  Tensor y;  ///< field "y"; of pictures (N) i64
  /// The other fields of a data set, always in the same order.
  std::vector<NamedTensor> fields;
  /// With LoaderOptions::raw alone: (N, 4) i32, for each sample its number in x, the corner y, x of
  /// its crop (which may lie outside), and whether it is mirrored.
  Tensor windows;
  Tensor packed;      ///< with raw alone: windows, y and x in one piece (u8), to be copied
  int64_t index = 0;  ///< number of the batch in its epoch
  std::vector<int64_t> samples;  ///< which samples of the source, in order
  /// With a DeviceLoader over several devices alone: the part of each, in its own tensors and
  /// samples, while those of the whole are undefined. Fewer than devices where the samples are
  /// fewer.
  std::vector<Batch> parts;

  /// The field of that name. Throws IndexError, with the names that there are.
  const Tensor& operator[](std::string_view name) const;
};

/// Goes through the batches of an epoch E, by its next().
template <class E>
class BatchIterator {
 public:
  ///@{
  /// For the standard library's algorithms.
  using iterator_category = std::input_iterator_tag;
  using value_type = Batch;
  using difference_type = std::ptrdiff_t;
  using pointer = Batch*;
  using reference = Batch&;
  ///@}

  /// For epochs: at `batch`, or at the end where it is null.
  BatchIterator(E* epoch, Batch* batch) : epoch_(epoch), batch_(batch) {}
  /// Owns the epoch and begins it; the epoch ends with the last copy of the iterator.
  explicit BatchIterator(E epoch)
      : owned_(std::make_shared<E>(std::move(epoch))),
        epoch_(owned_.get()),
        batch_(epoch_->next()) {}

  ///@{
  /// The batch, which lasts until the iterator moves on.
  Batch& operator*() const { return *batch_; }
  Batch* operator->() const { return batch_; }
  ///@}
  /// The next batch.
  BatchIterator& operator++() {
    batch_ = epoch_->next();
    return *this;
  }
  /// Whether both are at one batch, or at the end.
  bool operator==(const BatchIterator& other) const { return batch_ == other.batch_; }

 private:
  std::shared_ptr<E> owned_;
  E* epoch_;
  Batch* batch_;
};

}  // namespace brim::data
