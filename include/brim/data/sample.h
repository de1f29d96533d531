// A sample: named values of any dtype and shape, as a data set gives them to a loader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <vector>

#include <brim/core/dtype.h>
#include <brim/core/shape.h>
#include <brim/core/tensor.h>
#include <brim/data/keyed_random.h>

namespace brim::data {

/// One field of a sample; `data` lies in row-major order and belongs to the sample.
struct SampleField {
  std::string name = {};     ///< of the tensor in the batch
  DType dtype = DType::f32;  ///< of its elements
  Shape shape = {};          ///< of one sample's part
  void* data = nullptr;      ///< where its elements are, row-major

  /// Of its elements.
  int64_t bytes() const { return shape.numel() * static_cast<int64_t>(size_of(dtype)); }
  /// Throws DTypeError unless T fits.
  template <class T>
  std::span<T> values() const {
    check(dtype_of<T>);
    return {static_cast<T*>(data), static_cast<size_t>(shape.numel())};
  }

 private:
  void check(DType wanted) const;
};

class Dataset;
class IterableDataset;
struct SampleRows;

/// Filled by Dataset::get or IterableDataset::next; the loader keeps one for each thread, so that
/// memory is reused. Where batches are stacked, its memory is a row of the batch: nothing is
/// copied.
class Sample {
 public:
  Sample();  ///< without fields
  ~Sample();
  ///@{
  /// Moves the fields and their memory.
  Sample(Sample&&) noexcept;
  Sample& operator=(Sample&&) noexcept;
  ///@}

  // --- for those who fill it
  /// Memory for the field `name`, to be written in full. Throws ShapeError where batches are
  /// stacked and earlier samples had another shape; ValueError for an empty name.
  void* make(std::string_view name, DType dtype, const Shape& shape);
  /// The same of T's dtype, as elements.
  template <class T>
  std::span<T> make(std::string_view name, const Shape& shape) {
    return {static_cast<T*>(make(name, dtype_of<T>, shape)), static_cast<size_t>(shape.numel())};
  }
  /// A number, of rank 0: in batches of n, (n).
  template <class T>
  requires std::is_arithmetic_v<T>
  void set(std::string_view name, T value) {
    *static_cast<T*>(make(name, dtype_of<T>, {})) = value;
  }
  /// Copies. The tensor lies on the CPU.
  void set(std::string_view name, const Tensor& value);
  /// Copies what another sample has of these fields, under the same names.
  void set(const SampleField& field);

  /// Draws that depend on (seed, epoch, sample) alone. Whatever is random comes from here.
  KeyedRandom& random() { return outer_ ? outer_->random() : random_; }

  /// An S of this thread and of `owner`, made at first and kept from sample to sample: buffers.
  template <class S>
  S& scratch(const void* owner) {
    std::shared_ptr<void>& slot = scratch_of(owner, typeid(S));
    if (!slot) slot = std::make_shared<S>();
    return *static_cast<S*>(slot.get());
  }
  /// An empty sample with the same draws, for data sets made of others: owner is `this`. There is
  /// one for each owner, so what it holds lasts until the next call.
  Sample& inner(const void* owner);

  // --- for those who read it
  /// Where it comes from, for messages: Dataset::describe.
  std::string describe() const;
  /// Those made so far, in order.
  std::span<const SampleField> fields() const { return {fields_.data(), count_}; }
  /// Null where there is none.
  const SampleField* find(std::string_view name) const;
  /// Throws IndexError, with the names that there are.
  const SampleField& operator[](std::string_view name) const;

 private:
  friend struct SampleAccess;  // the loader
  struct Scratch {
    const void* owner;
    const std::type_info* type;
    std::shared_ptr<void> value;
  };
  SampleField& field_for(std::string_view name);
  std::shared_ptr<void>& scratch_of(const void* owner, const std::type_info& type);

  std::vector<SampleField> fields_;  // the first count_ are this sample's
  size_t count_ = 0;
  std::vector<std::vector<std::byte>> memory_;  // by field, where it is no row of a batch
  const SampleRows* rows_ = nullptr;            // of the batch that it is a row of
  int64_t row_ = 0;
  std::vector<Scratch> scratch_;
  Sample* outer_ = nullptr;
  const Dataset* data_ = nullptr;  // that it is a sample of, and which one; or of an iterable one
  const IterableDataset* iterable_ = nullptr;
  int64_t index_ = 0;
  uint64_t key_ = 0;
  KeyedRandom random_{0};
  uint64_t reading_ = 0, decoding_ = 0, augmenting_ = 0;  // ticks, noted by brim's own data sets
};

}  // namespace brim::data
