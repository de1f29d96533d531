// Which gradients ranks reduce together.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
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

/// What an element of a collective moves: where a rank has several nodes of the tree of sums it
/// sends all of them, and receives one.
double bytes_of_element(const Launch& collective, size_t element);
/// What a collective takes, as its link was measured, or is modelled.
double seconds_of(const Launch& collective);

/// For comparisons and tests: makes the pass cut each all-reduce into so many buckets, whether or
/// not that wins time.
extern thread_local std::optional<size_t> forced_buckets;

}  // namespace brim::plan
