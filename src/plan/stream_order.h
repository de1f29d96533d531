// Where the streams of a program wait for each other. Launches beside the main stream come behind
// all that stand before them in the program; those behind them wait only if they have to, or name
// what they wait for.
#pragma once

#include <span>
#include <vector>

#include "plan/program.h"

namespace brim::plan {

using backend::PlanStream;

class StreamOrder {
 public:
  explicit StreamOrder(const Program& program);

  bool has_side_streams() const { return has_side_streams_; }
  /// The launches beside the main stream that this one waits for before launch `i` is queued, on
  /// whichever stream: at most one of each, those before it being done as well. Of its own stream
  /// there is one only if `i` names it.
  std::span<const int> waits_for(size_t i) const { return waits_for_[i]; }
  /// The last launch beside which launch `i` may still run: `i` itself on the main stream.
  int runs_beside(size_t i) const { return runs_beside_[i]; }

 private:
  std::vector<std::vector<int>> waits_for_;
  std::vector<int> runs_beside_;
  bool has_side_streams_ = false;
};

}  // namespace brim::plan
