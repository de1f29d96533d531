// What a Loader and its running epochs share.
#pragma once

#include <brim/data/loader.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "data/keyed.h"
#include "data/permutation.h"
#include "data/transform/plan.h"

namespace brim::data {

/// What a sample's random choices depend on.
inline uint64_t sample_key(uint64_t seed, int64_t epoch, int64_t sample) {
  return key64(seed, 0x6175676d, static_cast<uint64_t>(epoch), static_cast<uint64_t>(sample));
}

/// The order of one rank's samples in one epoch.
class Order {
 public:
  Order(int64_t total, const LoaderOptions& options, int64_t epoch);
  int64_t operator[](int64_t position) const {
    const int64_t global = (position * world_size_ + rank_) % permutation_.size();
    return shuffle_ ? permutation_[global] : global;
  }

 private:
  Permutation permutation_;
  bool shuffle_;
  int64_t rank_, world_size_;
};

struct Loader::State {
  State(std::shared_ptr<const Source> from, const Transform& transform,
        const LoaderOptions& wanted);

  std::shared_ptr<const Source> source;
  TransformPlan plan;
  LoaderOptions options;
  ImageShape shape;
  int64_t samples = 0;  // of this rank, per epoch
  int64_t batches = 0;
  std::atomic<int64_t> skipped{0};
};

}  // namespace brim::data
