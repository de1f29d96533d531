// What a step keeps on its device while nothing uses it, and what it moves to the host or computes
// again instead, so that it fits into the memory that there is. Here it is a problem of times and
// bytes; the pass `offload` makes it of a program, and a program of its solution.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

namespace brim::plan {

enum class Choice : uint8_t {
  keep,
  offload,
  recompute,
  keep_mask,    ///< a bit of each element stays: it is read for its sign alone
  keep_bf16,    ///< rounded to bf16 meanwhile: half of the bytes stay
  offload_bf16  ///< or are moved
};
std::string_view name(Choice choice);
constexpr bool is_moved(Choice c) { return c == Choice::offload || c == Choice::offload_bf16; }
constexpr bool is_rounded(Choice c) { return c == Choice::keep_bf16 || c == Choice::offload_bf16; }
/// Launches make it smaller and whole again.
constexpr bool is_packed(Choice c) { return is_rounded(c) || c == Choice::keep_mask; }

inline constexpr double kImpossible = std::numeric_limits<double>::infinity();

/// A temporary that is not used between two launches.
struct Activation {
  int64_t bytes = 0;
  int made_by = 0;  ///< launch
  int last_before = 0, first_after = 0,
      last_use = 0;  ///< launches; the gap is between the first two
  double to_host = kImpossible, to_device = kImpossible;  ///< seconds that a copy takes
  double recompute = kImpossible;                         ///< seconds to compute it once more
  double to_bf16 = kImpossible, from_bf16 = kImpossible;  ///< seconds to round it, and back
  double to_mask = kImpossible, from_mask = kImpossible;  ///< likewise, where its sign is enough
  int64_t mask_bytes = 0;
  std::vector<int> made_of;  ///< activations that computing it reads

  /// Seconds of a choice where nothing hides them; kImpossible where it cannot be made.
  double seconds_of(Choice choice) const;
  /// Of what a choice keeps or copies.
  int64_t bytes_of(Choice c) const {
    return c == Choice::keep_mask ? mask_bytes : is_rounded(c) ? (bytes + 1) / 2 : bytes;
  }
  double seconds_to_pack(Choice c) const { return c == Choice::keep_mask ? to_mask : to_bf16; }
  double seconds_to_unpack(Choice c) const {
    return c == Choice::keep_mask ? from_mask : from_bf16;
  }
  double seconds_to_host(Choice c) const { return is_rounded(c) ? to_host / 2 : to_host; }
  double seconds_to_device(Choice c) const { return is_rounded(c) ? to_device / 2 : to_device; }
};

struct FitProblem {
  std::vector<double> seconds;          ///< of each launch on the main stream; 0 for others
  std::vector<int64_t> others;          ///< bytes of what is no activation, during each launch
  std::vector<Activation> activations;  ///< in the order in which they are made
  int64_t limit = 0;                    ///< bytes
  int64_t host_limit = std::numeric_limits<int64_t>::max();  ///< bytes of what is moved
  bool in_turn = false;    ///< each copy is waited for at once: nothing hides it
  bool may_round = false;  ///< to bf16, which changes values
};

/// When the things happen that choices ask for. Launches are those of the problem.
struct Schedule {
  struct Trip {
    int released_by = -1;  ///< the launch before which the copy to the host is waited for
    int fetched_at = -1;   ///< the launch behind whose predecessors the copy back is queued
    int needed_by = -1;    ///< that uses it first after the gap, or what is computed again of it
    int arrives_by = -1;   ///< the launch before which the copy back is waited for; -1: needed_by
    bool offloaded_beside = false;  ///< the last use before the gap, instead of behind it
  };
  std::vector<Trip> trips;  ///< by activation; needed_by alone where nothing is copied
  double seconds = 0;       ///< that the step takes
  double waiting = 0;       ///< of them, for copies
  int64_t peak = 0;         ///< bytes
  bool fits = false;        ///< peak is within the limit, what is moved within the host's
};

/// What is done with each activation, and when.
struct Solution {
  std::vector<Choice> choices;
  Schedule schedule;
};

/// Where activations are needed and used last, with what is computed again counted in.
struct Needs {
  std::vector<int> needed_by, last_use;  ///< launches, by activation
};
Needs needs_of(const FitProblem& problem, const std::vector<Choice>& choices);
/// During each launch, but for those of copies that are on their way.
std::vector<int64_t> live_bytes(const FitProblem& problem, const std::vector<Choice>& choices,
                                const Needs& needs);

/// To the host, all together: at least what is there at the same time.
int64_t bytes_moved(const FitProblem& problem, const std::vector<Choice>& choices);

/// On a virtual clock: launches follow each other, copies follow each other in each direction. The
/// memory of what is copied to the host serves others as soon as that is done, and is waited for
/// where it would be missed; copies back are queued as late as they can be without being waited
/// for, or as early as there is room.
Schedule schedule(const FitProblem& problem, const std::vector<Choice>& choices);

/// Choices with which the step fits and takes as short as was found: from those that compute the
/// cheapest ones again and move the earliest others, single changes and exchanges that help.
/// Several ways, the best one first: the memory of some may have more gaps. Empty where nothing
/// fits. The same on every machine.
std::vector<std::vector<Choice>> solve(const FitProblem& problem);

/// What a step takes longer at least if copies alone make it fit, in seconds: what is over the
/// limit during a launch has to be gone by then, and to come back behind it. kImpossible where
/// nothing can be copied.
double link_bound(const FitProblem& problem);

/// What a step takes longer at least, in seconds, whatever is chosen: less than the best choices by
/// what their copies wait for each other, and by what has to be made again for others alone.
/// kImpossible where nothing fits.
double step_bound(const FitProblem& problem);

/// About the least limit that can be met: with all moved or kept as masks that may be, or computed
/// again in segments.
int64_t least_limit(const FitProblem& problem);

}  // namespace brim::plan
