// What the loader does with samples.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <brim/data/sample.h>

namespace brim::data {

/// The fields of a stacked batch; sample i of it writes row i of each.
struct SampleRows {
  struct Field {
    std::string name;
    DType dtype;
    Shape shape;    // of a row
    int64_t bytes;  // of a row
    char* base = nullptr;
  };
  std::vector<Field> fields;
};

struct SampleAccess {
  /// Empties the sample for another one, to be read into its own memory, or into a row.
  static void begin(Sample& sample, uint64_t key, const SampleRows* rows = nullptr,
                    int64_t row = 0);
  static void is_from(Sample& sample, const Dataset& data, int64_t i) {
    sample.data_ = &data;
    sample.iterable_ = nullptr;
    sample.index_ = i;
  }
  static void is_from(Sample& sample, const IterableDataset& data, int64_t i) {
    sample.data_ = nullptr;
    sample.iterable_ = &data;
    sample.index_ = i;
  }
  /// Throws ShapeError if it is a row and a field of that was not made.
  static void check_row(const Sample& sample);

  /// Throws ShapeError where its fields have not the names, dtypes and ranks of the others'.
  static void check_like(const Sample& sample, const SampleRows& others);
  /// The rows of a batch of samples like this one.
  static SampleRows rows(const Sample& sample);

  /// A thread needs the buffers of data sets once, and not for each sample of a batch.
  static void hand_buffers(Sample& from, Sample& to) {
    if (&from != &to) to.scratch_ = std::move(from.scratch_);
  }

  // Of samples with memory of their own, which are no rows.
  static void empty(Sample& sample) { sample.count_ = 0; }
  /// What the samples hold.
  static void swap_values(Sample& a, Sample& b);
  /// Empties `out` for what is made of `in`: it is the same sample, and its draws go on.
  static void begin_after(const Sample& in, Sample& out);
  /// Gives `to` what `from` holds; it is the same sample, and its draws go on.
  static void hand_over(Sample& from, Sample& to);
  /// Further draws are others for each `part`.
  static void draw_apart(Sample& sample, uint64_t part);

  static uint64_t key(const Sample& s) { return s.outer_ ? key(*s.outer_) : s.key_; }
  static int64_t row(const Sample& s) { return s.row_; }
  // Ticks that its data set spent on files, on decoding and on mapping, since they were taken.
  static uint64_t& reading(Sample& s) { return s.outer_ ? reading(*s.outer_) : s.reading_; }
  static uint64_t& decoding(Sample& s) { return s.outer_ ? decoding(*s.outer_) : s.decoding_; }
  static uint64_t& augmenting(Sample& s) {
    return s.outer_ ? augmenting(*s.outer_) : s.augmenting_;
  }
};

}  // namespace brim::data
