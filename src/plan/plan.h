// A plan: an optimised program with memory, ready to be replayed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/scratch_stack.h"
#include "plan/memory.h"
#include "plan/pass.h"
#include "plan/recorder.h"

namespace brim::plan {

class Plan {
 public:
  /// Runs the chosen passes over what was recorded, and gives it memory. Throws OutOfMemory.
  Plan(Recording recording, const PassSelection& passes);
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  enum class Fit : uint8_t {
    fits,     ///< and what changes from step to step is renewed
    not_now,  ///< gradients are not as the step met them: summed into, or not there yet
    never     ///< parameters or the optimizer's state are no longer those
  };
  /// Whether what the plan was made for holds.
  Fit prepare();
  /// Whether the step writes memory that an input shows.
  bool writes_into(std::span<const Tensor> inputs) const;
  /// One step, after prepare(). `inputs`: row-major, of the recorded shapes. The results stay valid
  /// until the next call, and longer in the hands of others.
  std::span<const Tensor> replay(std::span<const Tensor> inputs);

  const Program& program() const { return program_; }
  const MemoryPlan& memory() const { return memory_; }
  std::string explain() const;

 private:
  void allocate(bool share);
  void renew_results();
  void sign(std::span<const Tensor> inputs);

  Program program_;
  std::vector<LeafGradient> gradients_;
  std::vector<Seen> seen_;
  std::vector<std::pair<Ref<Storage>, Ref<Storage>>> kept_;
  std::vector<std::string> notes_;  // what each pass did
  MemoryPlan memory_;
  Ref<Storage> arena_;
  std::vector<Ref<Storage>> written_;  // that others see
  std::vector<Launch*> refreshed_, committed_, drawing_;
  ScratchStack scratch_;
  Ref<Storage> scratch_memory_;
  std::vector<uint64_t> signature_;  // what may differ from replay to replay
  std::shared_ptr<void> graphs_;     // the backend's
  std::vector<Tensor> results_;
  struct Result {  // a storage behind some of the results
    Ref<Storage> storage, memory;
    uint32_t handles;  // among results_
  };
  std::vector<Result> result_storages_;
};

}  // namespace brim::plan
