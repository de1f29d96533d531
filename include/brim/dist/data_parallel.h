// Data parallel training: each rank of a group computes the gradients of its part of every batch,
// and all of them step with the gradient of the whole.
//
//   dist::DataParallel parallel(net, world);
//   for (data::Batch& b : loader.epoch(e)) {  // LoaderOptions::rank, world_size
//     parallel.forward_backward([&](int64_t) { return cross_entropy(net(b.x), b.y); });
//     optimizer.step();
//   }
//
// With V virtual ranks a batch is cut into V equal parts, which the ranks deal out among each other
// in runs. Each part is computed by itself, draws its own random numbers, and normalises by its own
// statistics; sums are taken in one tree over the parts. So V alone decides the bits, and a run may
// go on with any number of ranks that divides it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <brim/core/tensor.h>
#include <brim/dist/process_group.h>
#include <brim/nn/module.h>

namespace brim::dist {

class Reducer;

/// Keeps a module's gradients the same in all ranks of a group, while backward still computes
/// others.
class DataParallel {
 public:
  /// The other ranks' parameters and buffers become those of rank 0. `virtual_ranks`: a multiple of
  /// the group's size; 0: as many as there are ranks. The network is kept by reference. Throws
  /// ValueError, also for several parts where batch norm is synchronised, and for ranks of one
  /// process on one stream of a device other than the CPU; DistError where ranks have other
  /// parameters.
  DataParallel(nn::Module& network, GroupPtr group, int64_t virtual_ranks = 0);
  ~DataParallel();

  /// From now on f32 gradients are exchanged as bf16 or f16, which halves what crosses the links:
  /// they are rounded before the exchange and at each sum (f16 overflows beyond 65504; f32: as they
  /// are). Throws DTypeError for others; ValueError where there are several parts for each rank,
  /// whose number would decide the bits.
  void compress_gradients(DType dtype);

  ProcessGroup& group() const { return *group_; }           ///< the ranks that share it
  int64_t virtual_ranks() const { return virtual_ranks_; }  ///< parts that a batch is cut into
  int64_t parts() const { return virtual_ranks_ / group_->size(); }  ///< of this rank

  /// The mean loss over part 0, 1, ... of this rank's samples: parts() equal runs of them.
  using Loss = std::function<Tensor(int64_t part)>;
  /// Computes the gradients of a loss, as Tensor::backward() does, which is what happens without
  /// one.
  using Backward = std::function<void(const Tensor& loss)>;

  /// Whether gradients are exchanged while others are still computed, in steps that are not
  /// compiled, where that wins time; in all ranks the same. By default yes, in steps without a
  /// Backward of one's own. true: in these, too, which then call backward() once and leave the
  /// gradients as it made them. false: never, which a backward pass needs that itself calls
  /// collectives of this group (or give those a duplicate()).
  void overlap(bool on) { overlap_ = on; }
  /// Without, steps leave in each parameter what this rank's parts add to the gradient, and return
  /// what they add to the loss: what a training costs whose links are free, but for what the
  /// network itself exchanges (batch norm that is synchronised). In all ranks the same.
  void exchange(bool on) { exchange_ = on; }

  /// Leaves the gradient of the mean loss over all ranks' samples in each parameter, instead of
  /// what was there, and returns that loss (a scalar without history): the same bits in all ranks.
  /// Running statistics, and what else is a floating buffer, become the mean of what the parts made
  /// of them. `part_losses`, if given, becomes what each part added to that loss, by virtual rank:
  /// which one is not finite. Waits for no device; compiled steps may hold it. Throws ValueError
  /// for a loss that is no scalar, and where hooks or a Backward change what overlap() has sent;
  /// DistError as collectives do, and where a parameter has a gradient in some ranks only.
  Tensor forward_backward(const Loss& loss, const Backward& backward = {},
                          Tensor* part_losses = nullptr);

 private:
  struct Sums;
  Sums sum(int64_t begin, int64_t end, const std::function<Sums(int64_t)>& part) const;
  Sums part(int64_t virtual_rank, const Loss& loss, const Backward& backward, Reducer* reducer);
  Tensor slots_not_of(int64_t virtual_rank, const Tensor& loss);
  void reduce(std::vector<Sums>& nodes) const;
  /// Throws ValueError for batch norm that is synchronised, and several parts.
  void check_synchronised() const;

  nn::Module& network_;
  GroupPtr group_;
  int64_t virtual_ranks_;
  DType exchanged_ = DType::f32;  // what f32 gradients are exchanged as
  std::vector<Tensor> parameters_;
  std::vector<Tensor> averaged_, counted_;  // floating buffers, and others
  std::vector<Tensor> before_;              // what averaged_ held when the step began
  std::vector<Tensor> slots_;               // by part of this rank; see slots_not_of()
  std::unique_ptr<Reducer> reducer_;        // of ranks with one part each
  std::optional<bool> overlap_;
  bool exchange_ = true;
};

}  // namespace brim::dist
