// A stream of a step beside its main one: collectives wait there for other ranks, and copies for
// the link, while the main one computes.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include <brim/core/stream.h>

#include "backend/launch.h"
#include "core/context.h"
#include "core/scratch_stack.h"

namespace brim::plan {

/// One thread at a time. On a CPU, which has no streams, a thread of its own does the work.
class SideStream {
 public:
  /// `which`: not main. On a CPU collectives alone have one.
  static std::unique_ptr<SideStream> create(
      Device device, backend::PlanStream which = backend::PlanStream::collectives);
  virtual ~SideStream() = default;
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

  /// Queues on the stream of the context.
  using Work = std::function<void(const Context&)>;
  /// Does the work behind what is queued on `main`, and behind that queued here before.
  virtual void queue(Work work, const Stream& main) = 0;
  /// What is queued on `main` from here on waits for the first `count` works since the last
  /// finish(). Throws what they threw, where they have run by then.
  virtual void wait_for(size_t count, const Stream& main) = 0;
  /// The same for all of them; the next one is the first again.
  virtual void finish(const Stream& main) = 0;

  /// Of the works' kernels.
  ScratchStack& scratch() { return scratch_; }

 protected:
  SideStream() = default;
  ScratchStack scratch_;
};

}  // namespace brim::plan
