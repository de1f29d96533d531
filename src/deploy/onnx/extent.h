// A size, stride or offset as a function of the batch, found by comparing two recordings.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace brim::deploy {

/// fixed + per_sample * batch
struct Extent {
  int64_t fixed = 0, per_sample = 0;

  Extent() = default;
  Extent(int64_t value) : fixed(value) {}  // NOLINT: a number is one
  Extent(int64_t f, int64_t per) : fixed(f), per_sample(per) {}

  bool is_fixed() const { return per_sample == 0; }
  bool is(int64_t value) const { return is_fixed() && fixed == value; }
  /// For a batch of some size, to compare extents by.
  int64_t at(int64_t batch) const { return fixed + per_sample * batch; }
  friend bool operator==(const Extent&, const Extent&) = default;
};

inline Extent operator+(Extent a, Extent b) {
  return {a.fixed + b.fixed, a.per_sample + b.per_sample};
}
inline Extent operator-(Extent a, Extent b) {
  return {a.fixed - b.fixed, a.per_sample - b.per_sample};
}

/// Nothing where it is no such function, as the batch's square.
inline std::optional<Extent> product(Extent a, Extent b) {
  if (!a.is_fixed() && !b.is_fixed()) return {};
  return Extent(a.fixed * b.fixed, a.fixed * b.per_sample + b.fixed * a.per_sample);
}

/// a / b, where that is a whole number for every batch.
inline std::optional<Extent> quotient(Extent a, Extent b) {
  if (a == b && !b.is(0)) return Extent(1);
  if (b.is_fixed()) {
    if (b.fixed == 0 || a.fixed % b.fixed != 0 || a.per_sample % b.fixed != 0) return {};
    return Extent(a.fixed / b.fixed, a.per_sample / b.fixed);
  }
  if (b.fixed != 0 || a.fixed != 0 || a.per_sample % b.per_sample != 0) return {};
  return Extent(a.per_sample / b.per_sample);
}

/// How often b > 0 goes into a, by parts that the batch is in and parts that it is not.
inline Extent whole_part(Extent a, Extent b) {
  if (b.is_fixed())
    return {a.fixed / b.fixed, a.per_sample % b.fixed == 0 ? a.per_sample / b.fixed : 0};
  return b.fixed == 0 ? Extent(a.per_sample / b.per_sample) : Extent(0);
}

using Extents = std::vector<Extent>;

}  // namespace brim::deploy
