// Which gradients ranks reduce together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plan/program.h"

namespace brim::plan {

/// Something to be reduced.
struct ReadyBytes {
  double seconds;  ///< when it can be, from the step's begin
  double bytes;
};

/// Cuts `ready`, in the order of their times, into runs that are reduced one after the other, each
/// once all of it is ready and the one before is done, so that the last is done soonest; of equally
/// good ways one with few runs. Returns where each ends. `latency`: seconds of a run besides its
/// bytes. Takes time with the square of how many there are.
std::vector<size_t> solve_buckets(std::span<const ReadyBytes> ready, double latency,
                                  double seconds_per_byte);

/// Seconds behind `end` until all is reduced: in one go, and in these buckets one after the other.
std::pair<double, double> exposed_seconds(std::span<const ReadyBytes> buckets,
                                          const backend::Communication& link, double end);

/// Which elements, by number, are reduced together; in the order in which the buckets are.
using Buckets = std::vector<std::vector<size_t>>;
/// The best ones for elements that are ready then; one of all where that wins too little. `end`:
/// when nothing is computed any more that could hide them.
Buckets choose_buckets(std::span<const ReadyBytes> ready, const backend::Communication& link,
                       double end);
/// "0,2|1".
std::string text_of(const Buckets& buckets);
/// The buckets of such a text, one of all for "". Empty where it does not have each of `count`
/// elements once.
std::optional<Buckets> read_buckets(const std::string& text, size_t count);

/// What an element of a collective moves: where a rank has several nodes of the tree of sums it
/// sends all of them, and receives one.
double bytes_of_element(const Launch& collective, size_t element);
/// What a collective takes, as its link was measured, or is modelled.
double seconds_of(const Launch& collective);

/// For comparisons and tests: choose_buckets() makes so many, whether or not that wins time.
extern thread_local std::optional<size_t> forced_buckets;

/// How other systems choose their buckets.
struct BucketRule {
  enum class Kind : uint8_t {
    filled,  ///< each until it holds `bytes`
    ready,   ///< each of what is ready when the one before is reduced, up to `bytes`
  };
  Kind kind = Kind::filled;
  double bytes = 0;
};
/// For forecasts of these: choose_buckets() goes by it.
extern thread_local std::optional<BucketRule> bucket_rule;

}  // namespace brim::plan
