// A program as a problem of times and bytes (fit.h).
#pragma once

#include <brim/plan/memory_fit.h>

#include <optional>
#include <unordered_map>
#include <vector>

#include "plan/fit.h"
#include "plan/program.h"
#include "plan/recomputation.h"

namespace brim::plan {

/// Temporaries that share bytes because one takes over those of another are one activation.
class FitModel {
 public:
  explicit FitModel(const Program& program);

  FitProblem& problem() { return problem_; }
  const FitProblem& problem() const { return problem_; }
  const Activation& activation(size_t t) const { return problem_.activations[t]; }
  /// The storage that is not used for a while, or the last one where all are used throughout.
  const Ref<Storage>& storage(size_t t) const { return storages_.at(groups_[t].storage); }
  /// The launch that makes it; -1 where it has no gap, or something else made it.
  int maker(size_t t) const { return groups_[t].maker; }
  const Recomputation& recomputation(size_t t) const { return groups_[t].recomputation; }
  /// Of its elements; empty where launches take them for several.
  std::optional<DType> dtype(size_t t) const { return dtypes_.at(groups_[t].storage); }
  const Uses& uses() const { return uses_; }

  /// What people want to know of those with a gap, and why the policy chose so. The program is as
  /// it was.
  std::vector<MemoryFit::Tensor> describe(const std::vector<Choice>& choices,
                                          MemoryPolicy policy) const;

 private:
  /// Storages of which one takes over the bytes of the one before it.
  struct Group {
    std::vector<const Storage*> members;
    int first, last;
    const Storage* storage = nullptr;  // the one that is not used for a while
    int maker = -1;
    Recomputation recomputation;
  };

  void list_groups();
  void list_activations();
  void list_recomputation(Group& group, Activation& a);
  void list_rounding(const Group& group, Activation& a) const;
  void list_mask(const Group& group, Activation& a) const;

  const Program& program_;
  const Uses uses_;
  FitProblem problem_;
  std::vector<Group> groups_;
  std::unordered_map<const Storage*, size_t> group_of_;
  std::unordered_map<const Storage*, Ref<Storage>> storages_;
  std::unordered_map<const Storage*, std::optional<DType>> dtypes_;  // none: launches differ
};

}  // namespace brim::plan
