// A plan: an optimised program with memory, ready to be replayed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <brim/plan/compile.h>

#include "core/runtime.h"
#include "core/scratch_stack.h"
#include "plan/holding.h"
#include "plan/memory.h"
#include "plan/pass.h"
#include "plan/recorder.h"
#include "plan/side_stream.h"

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
    never     ///< tensors, the optimizer's state or options of its own are no longer those
  };
  /// Whether what the plan was made for holds.
  Fit prepare();
  /// Whether the step writes memory that an input shows.
  bool writes_into(std::span<const Tensor> inputs) const;
  /// One step, after prepare(). `inputs`: row-major, of the recorded shapes. The results stay valid
  /// until the next call, and longer in the hands of others.
  std::span<const Tensor> replay(std::span<const Tensor> inputs) {
    return replay(inputs, 1, {}).results;
  }
  struct Repeated {
    std::span<const Tensor> results;  // of the last step
    int steps;
  };
  /// Up to `steps` of them, queued as one, all with the same inputs: fewer where the plan no longer
  /// fits. `after_each` is called on the host when the parameters of a step are read.
  Repeated replay(std::span<const Tensor> inputs, int steps,
                  const std::function<void()>& after_each);

  const Program& program() const { return program_; }
  const MemoryPlan& memory() const { return memory_; }
  /// What the device's backend made of it.
  RepeatedStats launched() const;
  std::string explain() const;
  PlanTimeline timeline() const;

 private:
  void allocate(bool share);
  void rebind_scratch(ScratchStack& scratch, Ref<Storage>& memory);
  void renew_results();
  std::span<const Tensor> handed_out();
  void sign(std::span<const Tensor> inputs);
  void list_parameters();
  void list_holdings();
  void list_waits();
  void draw_keys();
  void take_parameters();
  bool queue(int step, const Context& context);
  void queue_on_both(const Context& context);
  void enter(const Stream& stream);
  void leave(const Stream& stream);
  void count_step();
  void finish();

  Program program_;
  std::vector<LeafGradient> gradients_;
  std::vector<Seen> seen_;
  std::vector<std::pair<Ref<Storage>, Ref<Storage>>> kept_;
  std::vector<backend::HostState> host_;
  std::vector<Holding> holdings_;
  std::vector<std::string> notes_;  // what each pass did
  std::vector<Pass> inexact_;       // that did something
  MemoryPlan memory_;
  Ref<Storage> arena_;
  std::vector<Ref<Storage>> written_;  // that others see
  std::vector<Launch*> refreshed_, committed_, drawing_;
  ScratchStack scratch_;
  Ref<Storage> scratch_memory_, side_scratch_memory_;
  Stream home_;                      // where the plan's memory is given back
  std::vector<uint64_t> signature_;  // addresses that may differ from replay to replay
  std::vector<RepeatedWork::Parameter> parameters_;  // that differ from step to step
  std::vector<uint64_t> values_;                     // of these, step after step
  std::shared_ptr<void> graphs_;                     // the backend's
  std::vector<Tensor> results_;
  struct Result {  // a storage behind some of the results
    Ref<Storage> storage, memory;
    uint32_t handles;  // among results_
    int held = 0;      // times in a row that the caller still held it at the next replay
  };
  bool is_copied(const Result& r) const;
  std::vector<Result> result_storages_;
  std::vector<Tensor> copies_;        // results_, but copies of those that are
  std::unique_ptr<SideStream> side_;  // null where no launch is on it
  std::vector<size_t> waits_for_;     // by launch: how many on the side stream
};

}  // namespace brim::plan
