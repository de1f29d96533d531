// Which samples each batch of an epoch has, for one rank: a function of (seed, epoch, batch).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <brim/data/loader.h>

#include "data/permutation.h"

namespace brim::data {

/// The order of one rank's samples in one epoch, where batches are cut from one line: a batch of
/// all ranks is a run of it, and each rank's part a run of that.
class Order {
 public:
  /// `samples`: of the rank in an epoch.
  Order(const Dataset& data, const LoaderOptions& options, int64_t samples, int64_t epoch);
  int64_t operator[](int64_t position) const {
    const int64_t global = global_of(position);
    if (sampler_) return drawn(global);
    return shuffle_ ? permutation_[global] : global;
  }
  /// The samples at positions `first` and behind, as many as `samples` has.
  void list(int64_t first, std::span<int64_t> samples) const;
  /// How many samples there are to draw from: the sampler's, or all.
  int64_t line_size() const { return permutation_.size(); }
  /// The sample `ahead` behind `sample`, which lies at `position`: in the data set, or where a
  /// sampler draws them, in what it draws.
  int64_t behind(int64_t position, int64_t sample, int64_t ahead) const {
    if (!sampler_) return (sample + ahead) % samples_;
    return drawn((global_of(position) + ahead) % line_size());
  }

 private:
  /// Where a position of this rank is on the line.
  int64_t global_of(int64_t position) const {
    const int64_t before = position - position % batch_;
    const int64_t size = std::min(batch_, rank_samples_ - before);  // of the batch
    return (before * world_size_ + rank_ * size + position - before) % permutation_.size();
  }
  /// What the sampler gives. Throws IndexError for what is no sample.
  int64_t drawn(int64_t position) const;

  Permutation permutation_;
  bool shuffle_;
  int64_t rank_, world_size_, batch_, rank_samples_, epoch_, samples_;
  const Sampler* sampler_;
};

class BatchOrder {
 public:
  virtual ~BatchOrder() = default;
  /// Throws ValueError for impossible options, and where no batch is full that has to be.
  static std::unique_ptr<const BatchOrder> make(const Dataset& data, const LoaderOptions& options);

  int64_t batches() const { return batches_; }  ///< in an epoch of this rank
  int64_t samples() const { return samples_; }  ///< the same; with Buckets of several ranks, about
  int64_t largest() const { return largest_; }  ///< samples of the largest batch
  /// Replaces `samples` by those of batch `number`, 0 <= number < batches().
  virtual void list(int64_t epoch, int64_t number, std::vector<int64_t>& samples) const = 0;
  /// Whether samples are cut from one line, so that Order says which lies where.
  virtual bool is_line() const = 0;

 protected:
  int64_t batches_ = 0, samples_ = 0, largest_ = 0;
};

}  // namespace brim::data
