#include "compress/output_groups.h"

#include <algorithm>
#include <cmath>

#include "ops/sparse/output_groups.h"

namespace brim::compress {
namespace {

constexpr int kRounds = 20;

class Grouping {
 public:
  Grouping(std::span<const float> scores, int64_t outputs, int64_t vector, double sparsity)
      : scores_(scores),
        outputs_(outputs),
        columns_(outputs > 0 ? std::ssize(scores) / outputs : 0),
        vector_(vector),
        groups_((outputs + vector - 1) / vector),
        sparsity_(sparsity),
        order_(ops::order_by_zeros(scores, outputs, vector)) {}

  std::vector<int64_t> found() {
    for (int round = 0; round < kRounds && groups_ > 1; ++round) {
      choose_columns();
      if (!swap()) break;
    }
    return order_;
  }

 private:
  float score(int64_t o, int64_t k) const { return scores_[static_cast<size_t>(o * columns_ + k)]; }
  int64_t output_at(int64_t place) const { return order_[static_cast<size_t>(place)]; }
  int64_t end_of(int64_t group) const { return std::min((group + 1) * vector_, outputs_); }

  /// Those of which the groups have the highest means.
  void choose_columns() {
    std::vector<float> means(static_cast<size_t>(groups_ * columns_), 0.0F);
    for (int64_t g = 0; g < groups_; ++g)
      for (int64_t place = g * vector_; place < end_of(g); ++place)
        for (int64_t k = 0; k < columns_; ++k)
          means[static_cast<size_t>(g * columns_ + k)] +=
              score(output_at(place), k) / static_cast<float>(end_of(g) - g * vector_);
    std::vector<float> sorted = means;
    const auto left_out = std::clamp<std::ptrdiff_t>(
        std::llround(sparsity_ * static_cast<double>(sorted.size())), 0, std::ssize(sorted) - 1);
    std::nth_element(sorted.begin(), sorted.begin() + left_out, sorted.end());
    const float least = sorted[static_cast<size_t>(left_out)];
    is_kept_.resize(means.size());
    for (size_t i = 0; i < means.size(); ++i) is_kept_[i] = means[i] >= least ? 1.0F : 0.0F;
  }

  /// What group `g` keeps of output `o`.
  double kept_of(int64_t o, int64_t g) const {
    const float* const s = scores_.data() + o * columns_;
    const float* const kept = is_kept_.data() + g * columns_;
    double sum = 0;
    for (int64_t k = 0; k < columns_; ++k) sum += s[k] * kept[k];
    return sum;
  }

  /// Each place is swapped once at most with that which gains most. Whether any was.
  bool swap() {
    std::vector<double> kept(static_cast<size_t>(outputs_ * groups_));
    for (int64_t o = 0; o < outputs_; ++o)
      for (int64_t g = 0; g < groups_; ++g)
        kept[static_cast<size_t>(o * groups_ + g)] = kept_of(o, g);
    const auto at = [&](int64_t place, int64_t g) {
      return kept[static_cast<size_t>(output_at(place) * groups_ + g)];
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
  std::vector<int64_t> order_;
  std::vector<float> is_kept_;  // 1 or 0 of each group's columns
};

}  // namespace

std::vector<int64_t> group_outputs(std::span<const float> scores, int64_t outputs, int64_t vector,
                                   double sparsity) {
  return Grouping(scores, outputs, vector, sparsity).found();
}

}  // namespace brim::compress
