// Who holds a tensor that a plan uses: plans, or somebody else. What plans alone hold is a
// leftover: the variable it was in has another tensor by now, or none.
#pragma once

#include <cstdint>
#include <map>

#include <brim/core/tensor.h>

namespace brim::plan {

/// The handles of one plan to a storage. Those of all plans are added up.
class Holding {
 public:
  /// `own`: by the plan itself, and by tensors that nobody else has; `shared`: handles to tensors
  /// that others gave it. The holding has one more to the storage.
  Holding(Ref<Storage> storage, uint32_t own, std::map<TensorImpl*, uint32_t> shared);
  ~Holding();
  Holding(Holding&& other) noexcept = default;
  Holding(const Holding&) = delete;
  Holding& operator=(Holding&&) = delete;

  /// Whether somebody who is no plan holds the storage. Takes no lock: it is asked at each step.
  bool is_held_by_others() const;

 private:
  struct All;  // of all plans
  struct Table;

  Ref<Storage> storage_;  // null once moved from
  uint32_t own_;
  std::map<TensorImpl*, uint32_t> shared_;
  All* all_;
};

}  // namespace brim::plan
