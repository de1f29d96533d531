// Which samples an epoch has, where it is not all of them once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace brim::data {

/// A function of (epoch, position), so that any number of workers and of ranks gives the same
/// batches, and an epoch can begin anywhere. Called by several threads at once.
class Sampler {
 public:
  virtual ~Sampler() = default;
  /// Samples of an epoch, all ranks together.
  virtual int64_t size() const = 0;
  /// The sample at `position`, 0 <= position < size().
  virtual int64_t sample(int64_t epoch, int64_t position) const = 0;
  /// What it is, so that a checkpoint can tell one sampler from another; "" tells nothing.
  virtual std::string describe() const { return {}; }
};

/// Draws `size` samples (0: as many as weights) with replacement, sample i with probability
/// weights[i] / sum (Walker's alias method: Vose 1991). Throws ValueError for a weight that is
/// negative or no number, or where all are 0.
std::shared_ptr<const Sampler> weighted_sampler(const std::vector<double>& weights,
                                                int64_t size = 0, uint64_t seed = 0);

/// The same, each class equally often. Throws ValueError for a negative label.
std::shared_ptr<const Sampler> balanced_sampler(std::span<const int64_t> labels, int64_t size = 0,
                                                uint64_t seed = 0);

/// Batches of samples of about one length, from Dataset::length(): a bucket has all up to `growth`
/// times its shortest, so that little is padding, and as many more as fill a batch. Samples change
/// their batches, and batches their places, from epoch to epoch.
struct Buckets {
  /// Each bucket's longest sample is so many times as long as that of the one before.
  double growth = 1.1;
  /// 0: LoaderOptions::batch samples. Else as many as have this many tokens at most, padded to the
  /// longest of the bucket; at least one.
  int64_t tokens = 0;
};

}  // namespace brim::data
