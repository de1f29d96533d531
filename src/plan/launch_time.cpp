#include "plan/launch_time.h"

#include <brim/ops/create.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "core/context.h"
#include "core/runtime.h"
#include "core/scratch_stack.h"

namespace brim::plan {

using backend::Launch;
using backend::Operand;

namespace {

constexpr int kRuns = 2;              // the best one counts
constexpr int kQueued = 10;           // launches of a run on a device,
constexpr double kQueueBelow = 2e-3;  // if one is shorter than so many seconds
constexpr int kUntilCaptured = 2;     // such runs make them one graph, where there are graphs

/// Memory as large as the tensor's, on its device. Zeros; but floats of devices are numbers around
/// 1 that differ, for libraries there are only chosen where results show what they compute, and
/// bytes are 255: as indices within pooled windows they name no element, where 0 may be padding.
Ref<Storage> memory_for(const Tensor& t) {
  const size_t bytes = t.storage()->bytes(), size = size_of(t.dtype());
  if (t.device().is_cpu() || !is_floating(t.dtype()) || bytes == 0) {
    Tensor memory = Tensor::empty({static_cast<int64_t>(bytes)}, DType::u8, t.device());
    memory.fill_(t.dtype() == DType::u8 ? 255 : 0);
    return memory.storage();
  }
  const auto count = static_cast<int64_t>((bytes + size - 1) / size);
  Tensor memory = Tensor::empty({count}, t.dtype(), t.device());
  int64_t done = std::min<int64_t>(count, 4093);
  memory.slice(0, 0, done).copy_(linspace(0.5, 1.5, done).to(t.dtype()));
  for (; done < count; done *= 2) {
    const int64_t more = std::min(done, count - done);
    memory.slice(0, done, done + more).copy_(memory.slice(0, 0, more));
  }
  return memory.storage();
}

/// Whether a launch reads positions in memory from it, as the columns of a sparse weight: they must
/// be what they are.
bool is_index(const Operand& o) {
  return !o.writes && o.tensor->dtype() == DType::i32 && o.tensor->storage()->data() != nullptr;
}

/// Puts memory of its own behind the launch's tensors, and takes it away again.
class Borrowed {
 public:
  explicit Borrowed(Launch& launch) : launch_(launch) {
    std::map<const Storage*, Ref<Storage>> memory;
    for (const Operand& o : launch.operands()) {
      before_.push_back(*o.tensor);
      if (!o.tensor->defined() || is_index(o)) continue;
      const Ref<Storage>& storage = o.tensor->storage();
      Ref<Storage>& own = memory[storage.get()];
      if (!own) own = memory_for(*o.tensor);
      *o.tensor = o.tensor->alias(o.tensor->shape(), o.tensor->strides(), o.tensor->offset());
      o.tensor->impl()->storage = own;
    }
  }
  ~Borrowed() {
    for (size_t i = 0; i < before_.size(); ++i) *launch_.operands()[i].tensor = before_[i];
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

 private:
  Launch& launch_;
  std::vector<Tensor> before_;
};

}  // namespace

double launch_time(Launch& launch) {
  using Clock = std::chrono::steady_clock;
  const Borrowed memory(launch);
  const Stream stream = Stream::current(launch.device());
  // Scratch memory of its own, which stays where it is while a graph knows it.
  ScratchStack scratch;
  const Context context{stream, &scratch};
  std::shared_ptr<void> kept;
  const auto seconds = [&](int runs) {
    const auto start = Clock::now();
    runtime(stream.device.kind)
        .launch_as_one(stream,
                       {.steps = runs,
                        .queue =
                            [&](int) {
                              launch.run(context);
                              return true;
                            }},
                       kept);
    stream.synchronize();
    return std::chrono::duration<double>(Clock::now() - start).count() / runs;
  };
  (void)seconds(1);  // the first one chooses algorithms, and waits for what was queued before
  const size_t bytes = std::max<size_t>(scratch.max_bytes(), 1);
  const Workspace workspace(bytes, stream, nullptr);
  scratch.rebind(workspace.as<void>(), bytes);
  // A device's queue hides what the host does for a launch, as in a step; a graph has next to none.
  int runs = 1;
  if (!stream.device.is_cpu() && seconds(1) < kQueueBelow) {
    runs = kQueued;
    for (int i = 0; i < kUntilCaptured; ++i) (void)seconds(runs);
  }
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRuns; ++i) best = std::min(best, seconds(runs));
  return best;
}

}  // namespace brim::plan
