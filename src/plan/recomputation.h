// Launches that compute once more what they have computed before.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plan/program.h"

namespace brim::plan {

/// What launch `index`, the only writer of the temporary `y`, would be run with: by its own kernel,
/// or by one that makes the same from what the first one has saved.
class Recomputation {
 public:
  /// Empty where the launch does more than to write temporaries, or reads what changes meanwhile.
  Recomputation() = default;
  /// `before`: the last launch before which it may be run.
  Recomputation(const Program& program, const Uses& uses, int index, const Storage& y, int before);

  explicit operator bool() const { return launch_ != nullptr; }
  /// The storages that it reads.
  const std::vector<const Storage*>& reads() const { return reads_; }
  double seconds() const;
  /// The launch, which writes a new temporary instead of `y`. It is not in the program yet.
  std::unique_ptr<Launch> make(Program& program, Tensor& result) const;
  /// Whether the first launch makes what the other kernel can make again, to the bit. Has to be set
  /// while there is a launch that was made of this.
  void set_repeatable(bool repeatable) const;

 private:
  Launch* launch_ = nullptr;
  const Storage* y_ = nullptr;
  bool from_saved_ = false;  // batch_norm_again
  std::vector<const Storage*> reads_;
};

}  // namespace brim::plan
