// Where the two streams of a program wait for each other. Launches of the side stream come behind
// all that stand before them in the program; those behind them wait only if they have to.
#pragma once

#include <vector>

#include "plan/program.h"

namespace brim::plan {

class StreamOrder {
 public:
  explicit StreamOrder(const Program& program);

  bool has_side_stream() const { return has_side_stream_; }
  /// The launch of the side stream that has to be done before launch `i` of the main one begins; -1
  /// for none, or if an earlier one has waited for it already. The side stream is in order.
  int waits_for(size_t i) const { return waits_for_[i]; }
  /// The launch before which launch `i`, of the side stream, is waited for: the number of launches
  /// where only the step's end does. `i` itself on the main stream.
  int joined_by(size_t i) const { return joined_by_[i]; }

 private:
  std::vector<int> waits_for_, joined_by_;
  bool has_side_stream_ = false;
};

}  // namespace brim::plan
