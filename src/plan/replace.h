// Whether launches of a program may be replaced by others, and where those can stand.
#pragma once

#include <optional>
#include <unordered_set>
#include <vector>

#include "plan/program.h"

namespace brim::plan {

/// A launch that goes; or elements of one that works on lists, which stays with the others.
struct Removed {
  int launch;
  std::vector<size_t> elements;  ///< in rising order; empty: the whole launch
  size_t part = 0;               ///< which of the new launches takes its place
};

/// True if one uses a storage that the other writes.
bool conflict(std::span<const Operand> a, std::span<const Operand> b);

/// True if `launch`, which stands at `from`, can stand at `to` instead: what lies between neither
/// writes what it uses nor reads what it writes.
bool can_move(const Program& program, int from, int to);

/// Whether a new launch may write a storage that it uses under another name as well.
enum class Overlap : uint8_t {
  refused,  ///< a kernel need not expect that
  same      ///< this one does, where both are the same elements
};

/// Some launches, to be replaced by fewer. The launches of a program keep their places until
/// compact(), so that `uses` stays right.
class Replacement {
 public:
  Replacement(const Program& program, const Uses& uses, std::vector<Removed> removed);

  /// Whether others than what goes use the storage.
  bool touched_by_others(const Storage& storage) const;
  /// Whether others write it between two launches.
  bool written_by_others(const Storage& storage, int first, int last) const;

  /// The places of `launches`, one for each part, where all results are as before: whoever sees
  /// what the launches wrote that go sees it written, and nothing in between gets in the way.
  /// Nullopt if there are none.
  std::optional<std::vector<int>> places(const std::vector<std::unique_ptr<Launch>>& launches,
                                         Overlap overlap = Overlap::refused) const;

  /// Puts them there. The elements that go take their launch's refresh with them, the last ones
  /// its commit.
  void apply(Program& program, std::vector<std::unique_ptr<Launch>> launches,
             const std::vector<int>& places) const;

 private:
  std::vector<Operand> operands_of(const Removed& r) const;
  bool is_removed(const Operand& o) const { return removed_operands_.contains(o.tensor); }
  bool all_written(const std::vector<std::unique_ptr<Launch>>& launches) const;
  bool can_stand_at(int place, size_t part) const;

  const Program& program_;
  const Uses& uses_;
  std::vector<Removed> removed_;
  std::vector<std::vector<Operand>> operands_;  // of each removed one
  std::unordered_set<const Tensor*> removed_operands_;
};

}  // namespace brim::plan
