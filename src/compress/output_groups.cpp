#include "compress/output_groups.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "compress/prune_units.h"
#include "ops/sparse/order_by_zeros.h"

namespace brim::compress {
namespace {

constexpr int kRounds = 20;
constexpr int64_t kMaxProducts = int64_t{1} << 30;  // of a round; else columns are left out
constexpr int64_t kMaxPairs = int64_t{1} << 23;     // of outputs and groups that are compared

class Grouping {
 public:
  Grouping(std::span<const float> scores, int64_t outputs, int64_t vector, double sparsity)
      : scores_(scores),
        outputs_(outputs),
        columns_(outputs > 0 ? std::ssize(scores) / outputs : 0),
        vector_(vector),
        groups_((outputs + vector - 1) / vector),
        sparsity_(sparsity),
        step_(1 + outputs_ * groups_ * columns_ / kMaxProducts) {}

  /// The better one of two beginnings: groups that there are, and outputs that are alike.
  std::vector<int64_t> found() {
    std::vector<int64_t> first = ops::order_by_zeros(scores_, outputs_, vector_);
    const double kept = raise(first);
    if (groups_ <= 1 || outputs_ * groups_ > kMaxPairs) return first;
    std::vector<int64_t> second = order_by_likeness();
    return raise(second) > kept * (1 + 1e-6) ? second : first;
  }

 private:
  float score(int64_t o, int64_t k) const { return scores_[static_cast<size_t>(o * columns_ + k)]; }
  int64_t output_at(int64_t position) const { return order_[static_cast<size_t>(position)]; }

  /// Swaps outputs while that helps; what is kept of the scores then.
  double raise(std::vector<int64_t>& order) {
    order_ = order;
    const bool can_swap = groups_ > 1 && outputs_ * groups_ <= kMaxPairs;
    for (int round = 0; round < kRounds && can_swap; ++round) {
      left_out_ = left_out_vectors(scores_, order_, vector_, sparsity_);
      if (!swap()) break;
    }
    order = order_;
    left_out_ = left_out_vectors(scores_, order_, vector_, sparsity_);
    double sum = 0;
    for (int64_t position = 0; position < outputs_; ++position)
      sum += kept_of(output_at(position), position / vector_);
    return sum;
  }

  /// The first one left with those most like it, again and again.
  std::vector<int64_t> order_by_likeness() const {
    std::vector<float> alike;  // (O, some columns), of length 1
    for (int64_t o = 0; o < outputs_; ++o) {
      const size_t begin = alike.size();
      double squares = 0;
      for (int64_t k = 0; k < columns_; k += step_) {
        alike.push_back(score(o, k));
        squares += double{alike.back()} * alike.back();
      }
      const auto inverse = static_cast<float>(1 / std::sqrt(std::max(squares, 1e-30)));
      for (size_t i = begin; i < alike.size(); ++i) alike[i] *= inverse;
    }
    const int64_t width = outputs_ > 0 ? std::ssize(alike) / outputs_ : 0;
    const auto likeness = [&](int64_t a, int64_t b) {
      float sum = 0;
      for (int64_t k = 0; k < width; ++k)
        sum +=
            alike[static_cast<size_t>(a * width + k)] * alike[static_cast<size_t>(b * width + k)];
      return sum;
    };
    std::vector<int64_t> left(static_cast<size_t>(outputs_)), order;
    std::iota(left.begin(), left.end(), int64_t{0});
    while (!left.empty()) {
      std::vector<std::pair<float, int64_t>> far;
      for (const int64_t o : left) far.emplace_back(o == left[0] ? -2 : -likeness(left[0], o), o);
      std::ranges::sort(far);
      far.resize(std::min(far.size(), static_cast<size_t>(vector_)));
      for (const auto& [distance, o] : far) {
        order.push_back(o);
        std::erase(left, o);
      }
    }
    return order;
  }

  /// What group `g` keeps of output `o`.
  double kept_of(int64_t o, int64_t g) const {
    const float* const s = scores_.data() + o * columns_;
    const uint8_t* const left_out = left_out_.data() + g * columns_;
    double sum = 0;
    for (int64_t k = 0; k < columns_; k += step_) sum += left_out[k] ? 0 : s[k];
    return sum;
  }

  /// Each position is swapped once at most with that which gains most. Whether any was.
  bool swap() {
    std::vector<double> kept(static_cast<size_t>(outputs_ * groups_));
    for (int64_t o = 0; o < outputs_; ++o)
      for (int64_t g = 0; g < groups_; ++g)
        kept[static_cast<size_t>(o * groups_ + g)] = kept_of(o, g);
    const auto at = [&](int64_t position, int64_t g) {
      return kept[static_cast<size_t>(output_at(position) * groups_ + g)];
    };
    std::vector<bool> is_swapped(static_cast<size_t>(outputs_), false);
    bool any = false;
    for (int64_t a = 0; a < outputs_; ++a) {
      if (is_swapped[static_cast<size_t>(a)]) continue;
      const int64_t own = a / vector_;
      double most = 1e-6 * (std::fabs(at(a, own)) + 1e-30);
      int64_t best = -1;
      for (int64_t b = (own + 1) * vector_; b < outputs_; ++b) {
        if (is_swapped[static_cast<size_t>(b)]) continue;
        const int64_t other = b / vector_;
        const double gain = at(a, other) + at(b, own) - at(a, own) - at(b, other);
        if (gain > most) {
          most = gain;
          best = b;
        }
      }
      if (best < 0) continue;
      std::swap(order_[static_cast<size_t>(a)], order_[static_cast<size_t>(best)]);
      is_swapped[static_cast<size_t>(a)] = is_swapped[static_cast<size_t>(best)] = any = true;
    }
    return any;
  }

  const std::span<const float> scores_;
  const int64_t outputs_, columns_, vector_, groups_;
  const double sparsity_;
  const int64_t step_;  // of columns: of very large weights some are enough
  std::vector<int64_t> order_;
  std::vector<uint8_t> left_out_;
};

}  // namespace

std::vector<uint8_t> left_out_vectors(std::span<const float> scores,
                                      const std::vector<int64_t>& order, int64_t vector,
                                      double sparsity) {
  const PruneUnits units = vector_units(scores, order, vector);
  return least_units({&units, 1}, sparsity)[0];
}

std::vector<int64_t> group_outputs(std::span<const float> scores, int64_t outputs, int64_t vector,
                                   double sparsity) {
  return Grouping(scores, outputs, vector, sparsity).found();
}

}  // namespace brim::compress
