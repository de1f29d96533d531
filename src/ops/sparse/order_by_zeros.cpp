#include "ops/sparse/order_by_zeros.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

namespace brim::ops {
namespace {

/// A bit for each column of each output: whether it is kept.
class Kept {
 public:
  Kept(std::span<const float> weight, int64_t outputs)
      : columns_(outputs > 0 ? std::ssize(weight) / outputs : 0),
        words_((columns_ + 63) / 64),
        bits_(static_cast<size_t>(outputs * words_), 0) {
    for (int64_t o = 0; o < outputs; ++o)
      for (int64_t k = 0; k < columns_; ++k)
        if (weight[static_cast<size_t>(o * columns_ + k)] != 0)
          bits_[static_cast<size_t>(o * words_ + k / 64)] |= uint64_t{1} << (k % 64);
  }
  std::span<const uint64_t> of(int64_t o) const {
    return {bits_.data() + o * words_, static_cast<size_t>(words_)};
  }
  struct Less {
    bool operator()(std::span<const uint64_t> a, std::span<const uint64_t> b) const {
      return std::ranges::lexicographical_compare(a, b);
    }
  };
  /// Columns that one of two has, and the other has not.
  int64_t distance(int64_t a, int64_t b) const {
    int64_t count = 0;
    for (int64_t w = 0; w < words_; ++w) count += std::popcount(word(a, w) ^ word(b, w));
    return count;
  }
  /// Columns that groups of `vector` keep in this order.
  int64_t count(const std::vector<int64_t>& order, int64_t vector) const {
    int64_t sum = 0;
    for (int64_t first = 0; first < std::ssize(order); first += vector)
      for (int64_t w = 0; w < words_; ++w) {
        uint64_t any = 0;
        for (int64_t p = first; p < std::min(first + vector, std::ssize(order)); ++p)
          any |= word(order[static_cast<size_t>(p)], w);
        sum += std::popcount(any);
      }
    return sum;
  }

 private:
  uint64_t word(int64_t o, int64_t w) const { return bits_[static_cast<size_t>(o * words_ + w)]; }

  int64_t columns_, words_;
  std::vector<uint64_t> bits_;
};

}  // namespace

std::vector<int64_t> order_by_zeros(std::span<const float> weight, int64_t outputs,
                                    int64_t vector) {
  const Kept kept(weight, outputs);
  std::vector<int64_t> as_they_are(static_cast<size_t>(outputs));
  std::iota(as_they_are.begin(), as_they_are.end(), int64_t{0});
  // Whole groups of outputs that keep the same.
  std::vector<int64_t> left, order;
  std::map<std::span<const uint64_t>, std::vector<int64_t>, Kept::Less> alike;
  for (const int64_t o : as_they_are) {
    std::vector<int64_t>& group = alike[kept.of(o)];
    group.push_back(o);
    if (std::ssize(group) < vector) continue;
    order.insert(order.end(), group.begin(), group.end());
    group.clear();
  }
  for (const auto& [bits, group] : alike) left.insert(left.end(), group.begin(), group.end());
  std::ranges::sort(left);
  while (!left.empty()) {
    // The first one left, and those nearest to it.
    std::vector<std::pair<int64_t, int64_t>> near;
    for (const int64_t o : left) near.emplace_back(kept.distance(left[0], o), o);
    const auto count = std::min<size_t>(static_cast<size_t>(vector), near.size());
    std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(count), near.end());
    near.resize(count);
    std::ranges::sort(near, {}, &std::pair<int64_t, int64_t>::second);
    for (const auto& [distance, o] : near) {
      order.push_back(o);
      std::erase(left, o);
    }
  }
  return kept.count(order, vector) < kept.count(as_they_are, vector) ? order : as_they_are;
}

}  // namespace brim::ops
