// Data sets of any tensors: a class of two functions, or made of others.
//
//   struct Sines final : data::Dataset {
//     int64_t size() const override { return 1000; }
//     void get(int64_t i, data::Sample& out) const override {
//       const std::span<float> x = out.make<float>("x", {64});
//       for (size_t k = 0; k < x.size(); ++k) x[k] = std::sin(0.01f * float(i) * float(k));
//       out.set("y", i % 2);
//     }
//   };
//   const data::Loader loader(std::make_shared<Sines>(), {.batch = 32});
//   for (const data::Batch& b : loader) step(b.x, b.y);  // (32, 64) f32 and (32) i64
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <brim/core/tensor.h>
#include <brim/data/sample.h>
#include <brim/data/source.h>
#include <brim/data/transform.h>

namespace brim::data {

/// Random access to samples. Every const member may be called from many threads at once, and sample
/// i is the same for ever, but for what it draws from Sample::random().
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// Number of samples; at least 1.
  virtual int64_t size() const = 0;

  /// Puts the fields of sample i, 0 <= i < size(), into `out`; the same names and dtypes for all.
  /// What it throws reaches the training loop with describe(i) in front; a FileError, and whatever
  /// is no Error of brim, is a sample that cannot be read (LoaderOptions::on_error).
  virtual void get(int64_t i, Sample& out) const = 0;

  /// Called shortly before get(i), by the thread that will, where it knows: a data set in memory,
  /// or mapped, can ask for the cache lines of sample i meanwhile. Throws nothing; does nothing by
  /// default.
  virtual void prefetch(int64_t i) const noexcept;

  /// How long sample i is, for batches of samples of about one length (Buckets), without reading
  /// it. Throws ValueError by default.
  virtual int64_t length(int64_t i) const;

  /// Where sample i comes from, for messages: "table.csv: line 7".
  virtual std::string describe(int64_t i) const;

  /// Throws FileError where what was read may have been lost while it was used. Called once a
  /// batch.
  virtual void check() const {}

  /// True where getting a sample costs next to nothing and waits for nothing: one worker is enough,
  /// then, and a loop that would have to wait for a small batch makes it itself.
  virtual bool in_memory() const { return false; }
};

using DatasetPtr = std::shared_ptr<const Dataset>;  ///< A data set that loaders share.

/// Sample i has row i of each tensor, on the CPU. Throws ValueError, ShapeError where they have not
/// equally many rows.
DatasetPtr from_tensors(const std::vector<std::pair<std::string, Tensor>>& fields);

/// Labelled pictures as "x" (C, H, W) f32 and "y", an i64.
DatasetPtr from_pictures(std::shared_ptr<const Source> source, const Transform& transform = {});

/// One behind the other. Throws ValueError for none.
DatasetPtr concat(std::vector<DatasetPtr> parts);

/// Those samples alone, in that order; one may be there several times. Throws IndexError.
DatasetPtr subset(DatasetPtr from, std::vector<int64_t> samples);

/// Disjoint random parts of about these fractions, which add up to 1 at most; the same seed gives
/// the same parts. Each has a sample at least. Throws ValueError.
std::vector<DatasetPtr> random_split(const DatasetPtr& from, const std::vector<double>& fractions,
                                     uint64_t seed = 0);

/// Samples made of samples: `f` fills `out` from `in`, and draws from out.random(). It is called by
/// several threads at once.
DatasetPtr map(DatasetPtr from, std::function<void(const Sample& in, Sample& out)> f);

/// All samples, `times` over.
DatasetPtr repeat(DatasetPtr from, int64_t times);

/// `size` samples of several sets in the proportion of `weights`, evenly mixed; each set's come in
/// order and begin anew at its end. Throws ValueError.
DatasetPtr interleave(std::vector<DatasetPtr> sets, const std::vector<double>& weights,
                      int64_t size);

/// Keeps samples in memory as they are read, up to `max_bytes`; the others are read each time. What
/// is drawn for a sample is the same in every epoch, kept or not: put map() behind it.
DatasetPtr cached(DatasetPtr from, int64_t max_bytes);

}  // namespace brim::data
