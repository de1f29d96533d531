// Ranks sum their gradients while others are still computed, in steps that no plan repeats.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <brim/core/stream.h>
#include <brim/dist/process_group.h>

#include "plan/buckets.h"
#include "plan/side_stream.h"

namespace brim::dist {

/// Of ranks that compute one part of a batch each. The second backward pass, which is warm, notes
/// when gradients are ready; from what the link was measured to take follows which are reduced
/// together, as in compiled steps (plan/buckets.h), in all ranks as rank 0 found.
class Reducer {
 public:
  Reducer(GroupPtr group, std::vector<Tensor> parameters);

  /// Calls `backward`, which leaves each parameter's gradient in it. Sums `others`, and the
  /// gradients as `exchanged` where they are f32, over all ranks, and returns those of the
  /// parameters: undefined where there is none. Throws as collectives do, and ValueError for a
  /// gradient that is added to, or replaced, when it was sent.
  std::vector<Tensor> run(const std::function<void()>& backward, std::vector<Tensor> others,
                          DType exchanged);

 private:
  struct Hooks;
  enum class Stage : uint8_t { cold, timed, chosen };
  void ready(size_t parameter);
  void queue_bucket();
  void check_sent() const;
  void choose();
  void use(plan::Buckets buckets);
  std::vector<plan::ReadyBytes> ready_bytes() const;
  void give_up(const std::string& why) noexcept;

  const GroupPtr group_;
  std::vector<Tensor> parameters_;
  Stage stage_ = Stage::cold;
  plan::Buckets buckets_;                   // of parameters
  std::vector<size_t> bucket_of_;           // by parameter
  std::unique_ptr<plan::SideStream> side_;  // where there are several buckets

  // Of the step; by parameter, where nothing else is said.
  DType exchanged_ = DType::f32;
  std::vector<Tensor> gradients_, sent_;  // as they are reduced; what grad() was then
  std::vector<Tensor> others_;            // go with the last bucket
  std::vector<int> times_ready_;
  std::vector<size_t> left_;  // by bucket: parameters that are not ready
  size_t queued_ = 0;         // buckets

  // When gradients were ready in the timed step: of a CPU, and of a device.
  std::vector<double> seconds_;
  std::vector<Event> events_;
  Event begun_;
};

/// Calls f with the tensors of each dtype, in the order in which dtypes first appear.
template <class F>
void by_dtype(const std::vector<Tensor>& tensors, const F& f) {
  std::vector<DType> done;
  for (const Tensor& t : tensors) {
    if (std::ranges::find(done, t.dtype()) != done.end()) continue;
    done.push_back(t.dtype());
    std::vector<Tensor> same;
    for (const Tensor& other : tensors)
      if (other.dtype() == t.dtype()) same.push_back(other);
    f(same);
  }
}

}  // namespace brim::dist
