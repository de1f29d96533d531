#include <brim/data/sampler.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "core/check.h"
#include "core/hash.h"
#include "data/keyed.h"

namespace brim::data {
namespace {

class Weighted final : public Sampler {
 public:
  Weighted(const std::vector<double>& weights, int64_t size, uint64_t seed)
      : size_(size > 0 ? size : static_cast<int64_t>(weights.size())),
        seed_(seed),
        weights_(xxh64(weights.data(), weights.size() * sizeof(double))) {
    BRIM_CHECK(size >= 0, ValueError, "[data] a sampler of {} samples", size);
    BRIM_CHECK(weights.size() <= UINT32_MAX, ValueError, "[data] {} weights", weights.size());
    double sum = 0;
    for (const double w : weights) {
      BRIM_CHECK(std::isfinite(w) && w >= 0, ValueError, "[data] a weight of {}: must be 0 or more",
                 w);
      sum += w;
    }
    BRIM_CHECK(sum > 0 && std::isfinite(sum), ValueError,
               "[data] the weights add up to {}; one at least must be above 0", sum);
    // Each column holds a sample up to its threshold, and above it one with weight to spare.
    const auto n = weights.size();
    threshold_.resize(n);
    alias_.resize(n);
    std::vector<uint32_t> small, large;
    for (size_t i = 0; i < n; ++i) {
      threshold_[i] = weights[i] / sum * static_cast<double>(n);
      alias_[i] = static_cast<uint32_t>(i);
      (threshold_[i] < 1 ? small : large).push_back(static_cast<uint32_t>(i));
    }
    while (!small.empty() && !large.empty()) {
      const uint32_t less = small.back(), more = large.back();
      small.pop_back();
      alias_[less] = more;
      threshold_[more] -= 1 - threshold_[less];
      if (threshold_[more] < 1) {
        large.pop_back();
        small.push_back(more);
      }
    }
    // What rounding left over fills its column; never a sample of weight 0.
    for (const uint32_t i : large) threshold_[i] = 1;
    const auto heaviest =
        static_cast<uint32_t>(std::ranges::max_element(weights) - weights.begin());
    for (const uint32_t i : small) {
      alias_[i] = heaviest;
      threshold_[i] = weights[i] > 0 ? 1 : 0;
    }
  }
  int64_t size() const override { return size_; }
  std::string describe() const override {
    return fmt::format("weighted(seed {}, weights {:016x})", seed_, weights_);
  }
  int64_t sample(int64_t epoch, int64_t position) const override {
    KeyedRandom random(
        key64(seed_, 0x77656967, static_cast<uint64_t>(epoch), static_cast<uint64_t>(position)));
    const auto columns = static_cast<uint64_t>(threshold_.size());
    const auto column = static_cast<size_t>((random.next() >> 32) * columns >> 32);
    const double height = static_cast<double>(random.next() >> 11) * 0x1p-53;
    return static_cast<int64_t>(height < threshold_[column] ? column : alias_[column]);
  }

 private:
  const int64_t size_;
  const uint64_t seed_;
  const uint64_t weights_;  // their hash
  std::vector<double> threshold_;
  std::vector<uint32_t> alias_;
};

}  // namespace

std::shared_ptr<const Sampler> weighted_sampler(const std::vector<double>& weights, int64_t size,
                                                uint64_t seed) {
  return std::make_shared<Weighted>(weights, size, seed);
}

std::shared_ptr<const Sampler> balanced_sampler(std::span<const int64_t> labels, int64_t size,
                                                uint64_t seed) {
  std::unordered_map<int64_t, double> count;
  for (const int64_t label : labels) {
    BRIM_CHECK(label >= 0, ValueError, "[data] label {}: must be 0 or more", label);
    ++count[label];
  }
  std::vector<double> weights;
  for (const int64_t label : labels) weights.push_back(1 / count[label]);
  return weighted_sampler(weights, size, seed);
}

}  // namespace brim::data
