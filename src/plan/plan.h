// A plan: an optimised program with memory, ready to be replayed.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <brim/plan/compile.h>

#include "core/reclaim.h"
#include "core/runtime.h"
#include "core/scratch_stack.h"
#include "plan/holding.h"
#include "plan/memory.h"
#include "plan/pass.h"
#include "plan/recorder.h"
#include "plan/side_stream.h"

namespace brim::plan {

class Plan final : Reclaimable {
 public:
  /// Runs the chosen passes over what was recorded, and plans its memory; the arena is asked for by
  /// the first replay. Throws OutOfMemory.
  Plan(Recording recording, const PassSelection& passes);
  ~Plan() override;

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

  /// Seconds that each launch takes, collectives 0. On the CPU those of whole steps, in their
  /// order: the medians of as many replays as take half a second, with these inputs, so that what
  /// the step writes is written. On other devices each launch by itself (launch_time()).
  std::vector<double> measure(std::span<const Tensor> inputs);

  const Program& program() const { return program_; }
  const MemoryPlan& memory() const { return memory_; }
  const MemoryPlan& host_memory() const { return host_memory_; }
  /// Where replay() threw OutOfMemory, nothing of the step was done, and a plan that is made now
  /// may have room: the Program::reserve that it should have.
  std::optional<int64_t> wanted_reserve() const { return wanted_reserve_; }
  /// Likewise, but the host had too little memory to pin.
  bool lacks_host_memory() const { return lacks_host_memory_; }
  /// What the device's backend made of it.
  RepeatedStats launched() const;
  std::string explain() const;
  PlanTimeline timeline() const;

 private:
  void allocate(bool share);
  void take_arena();
  void take_host_arena();
  bool is_tight() const;
  bool may_be_made_anew() const;
  /// Between steps the arena holds nothing.
  bool give_back(Device device) noexcept override;
  Repeated replay_now(std::span<const Tensor> inputs, int steps,
                      const std::function<void()>& after_each);
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
  void queue_on_all(const Context& context);
  void run_timed(const Context& context);
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
  MemoryPlan host_memory_;  // of what is moved to the host
  Ref<Storage> arena_, host_arena_;
  bool has_run_ = false;                      // was asked for a step
  bool has_begun_ = false;                    // this replay: it has its arena
  int64_t counted_ = 0, counted_before_ = 0;  // steps; before this replay
  std::optional<int64_t> wanted_reserve_;
  bool lacks_host_memory_ = false;
  std::atomic<bool> is_arena_used_ = false;  // by a replay, or by whoever takes it away
  std::vector<Ref<Storage>> written_;        // that others see
  std::vector<Launch*> refreshed_, committed_, drawing_;
  ScratchStack scratch_;
  Ref<Storage> scratch_memory_;
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
  std::vector<Tensor> copies_;  // results_, but copies of those that are
  /// By PlanStream; null where no launch is on it, and for the main one.
  std::array<std::unique_ptr<SideStream>, backend::kPlanStreams> side_;
  std::array<Ref<Storage>, backend::kPlanStreams> side_scratch_memory_;
  bool has_side_streams_ = false;
  struct Wait {
    SideStream* of;
    size_t count;  // works of it
  };
  std::vector<std::vector<Wait>> waits_;  // by launch, of the main stream
  /// While launches are measured: by launch, the seconds of each step.
  std::optional<std::vector<std::vector<double>>> measured_;
};

}  // namespace brim::plan
