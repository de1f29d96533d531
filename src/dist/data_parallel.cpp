#include <brim/dist/data_parallel.h>

#include <brim/autograd/autograd.h>
#include <brim/core/random.h>
#include <brim/core/stream.h>
#include <brim/nn/norm.h>
#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/create.h>

#include <algorithm>
#include <string_view>

#include "backend/kernel.h"
#include "core/check.h"
#include "core/hash.h"
#include "core/recording.h"
#include "diag/span.h"
#include "dist/collectives.h"
#include "dist/reducer.h"
#include "dist/sum_tree.h"

namespace brim::dist {
namespace {

/// Rank 0's values in all ranks.
void share(ProcessGroup& group, const std::vector<Tensor>& tensors) {
  const NoGrad guard;
  by_dtype(tensors, [&](const std::vector<Tensor>& same) {
    std::vector<Tensor> dense;
    for (const Tensor& t : same) dense.push_back(t.detach().contiguous());
    broadcast(group, dense);
    for (size_t i = 0; i < same.size(); ++i) {
      Tensor to = same[i].detach();
      if (to.storage() != dense[i].storage()) to.copy_(dense[i]);
      same[i].storage()->bump_version();
    }
  });
}

GroupPtr given(GroupPtr group) {
  BRIM_CHECK(group, ValueError, "[dist] data parallel training over no group; give one");
  return group;
}

/// Ranks that are threads: on one stream, what one queues would wait for what another one has not
/// queued yet.
void check_streams(ProcessGroup& group, Device device) {
  if (std::string_view(group.backend()) != "local") return;
  const std::vector<std::string> streams =
      group.all_gather_text(fmt::format("{} {}", device.str(), Stream::current(device).id));
  for (size_t r = 1; r < streams.size(); ++r)
    for (size_t other = 0; other < r && !device.is_cpu(); ++other)
      BRIM_CHECK(streams[r] != streams[other], ValueError,
                 "[dist] ranks {} and {} of this process work on one stream of {}; give each a "
                 "device of its own, or a stream (StreamGuard)",
                 other, r, device.str());
}

/// Whether batch norm anywhere in it meets the other ranks in each part of a batch.
bool is_synchronised(nn::Module& network) {
  bool found = false;
  network.apply([&](nn::Module& module) {
    const auto* const norm = dynamic_cast<const nn::BatchNorm2d*>(&module);
    found = found || (norm && norm->has_own_normalisation());
  });
  return found;
}

/// Multiplies them all: in one launch where it can be.
void scale(const std::vector<Tensor>& tensors, double factor) {
  static const backend::Kernel<void(const Context&, std::span<Tensor>, double)> kernel(
      "list_scale", {.operands = "rw tensors"});
  by_dtype(tensors, [&](std::vector<Tensor>& same) {
    const Device device = same[0].device();
    const bool listed =
        kernel.exists(device, same[0].dtype()) &&
        std::ranges::all_of(same, [](const Tensor& t) { return t.is_contiguous(); });
    if (listed) kernel(device, same[0].dtype(), same, factor);
    for (Tensor& t : same) listed ? t.storage()->bump_version() : (void)t.mul_(factor);
  });
}

}  // namespace

/// Of one or several parts.
struct DataParallel::Sums {
  std::vector<Tensor> gradients;  ///< by parameter; undefined where there is none
  std::vector<Tensor> buffers;    ///< of averaged_
  Tensor losses;                  ///< their sum, then each virtual rank's; one of one alone

  /// `a` is spoilt.
  static void add(Tensor& a, const Tensor& b) {
    if (!a.defined())
      a = b;
    else if (b.defined())
      a.add_(b);
  }
  void add(const Sums& other) {
    for (size_t i = 0; i < gradients.size(); ++i) add(gradients[i], other.gradients[i]);
    for (size_t i = 0; i < buffers.size(); ++i) add(buffers[i], other.buffers[i]);
    add(losses, other.losses);
  }
};

DataParallel::DataParallel(nn::Module& network, GroupPtr group, int64_t virtual_ranks)
    : network_(network),
      group_(given(std::move(group))),
      virtual_ranks_(virtual_ranks > 0 ? virtual_ranks : group_->size()),
      parameters_(network.parameters()) {
  BRIM_CHECK(virtual_ranks >= 0 && virtual_ranks_ % group_->size() == 0, ValueError,
             "[dist] {} virtual ranks are not a multiple of the {} ranks; take {}", virtual_ranks,
             group_->size(), group_->size() * std::max<int64_t>(1, virtual_ranks / group_->size()));
  check_synchronised();
  std::string shapes;
  for (const auto& [name, p] : network.named_parameters())
    shapes += fmt::format("{} {} {}\n", name, p.shape().str(), brim::name(p.dtype()));
  std::vector<Tensor> all = parameters_;
  for (const auto& [name, buffer] : network.named_buffers()) {
    shapes += fmt::format("{} {} {}\n", name, buffer.shape().str(), brim::name(buffer.dtype()));
    (is_floating(buffer.dtype()) ? averaged_ : counted_).push_back(buffer);
    all.push_back(buffer);
  }
  if (group_->size() == 1) return;
  const std::vector<std::string> others = group_->all_gather_text(shapes);
  for (size_t r = 0; r < others.size(); ++r)
    BRIM_CHECK(others[r] == others[0], DistError,
               "[dist] the networks of rank 0 and rank {} have other parameters", r);
  if (!parameters_.empty()) {
    check_streams(*group_, parameters_[0].device());
    (void)group_->measure_link(parameters_[0].device());
  }
  share(*group_, all);
  if (parts() == 1 && !parameters_.empty())
    reducer_ = std::make_unique<Reducer>(group_, parameters_);
}

DataParallel::~DataParallel() = default;

void DataParallel::check_synchronised() const {
  BRIM_CHECK(parts() == 1 || !is_synchronised(network_), ValueError,
             "[dist] batch norm that is synchronised works with one part for each rank, not {}; "
             "take {} virtual ranks",
             parts(), group_->size());
}

void DataParallel::compress_gradients(DType dtype) {
  BRIM_CHECK(dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16, DTypeError,
             "[dist] gradients cannot be exchanged as {}; use bf16, f16 or f32", name(dtype));
  BRIM_CHECK(dtype == DType::f32 || parts() == 1, ValueError,
             "[dist] compressed gradients work with one part for each rank, not {}; take {} "
             "virtual ranks",
             parts(), group_->size());
  exchanged_ = dtype;
}

/// Which of (the sum, virtual rank 0's, virtual rank 1's, ...) the loss is not added to.
Tensor DataParallel::slots_not_of(int64_t virtual_rank, const Tensor& loss) {
  slots_.resize(static_cast<size_t>(parts()));
  Tensor& slots = slots_[static_cast<size_t>(virtual_rank % parts())];
  if (!slots.defined() || slots.device() != loss.device()) {
    const RecordingPause now;
    const Tensor slot = arange(virtual_ranks_ + 1, {.dtype = f32, .device = loss.device()});
    slots = logical_and(ne(slot, 0.0), ne(slot, static_cast<double>(1 + virtual_rank)));
  }
  return slots;
}

DataParallel::Sums DataParallel::part(int64_t virtual_rank, const Loss& loss,
                                      const Backward& backward, Reducer* reducer) {
  const int64_t number = virtual_rank % parts();
  std::vector<Tensor> counted;  // by the first part: one step is counted once
  {
    const NoGrad guard;
    for (Tensor& p : parameters_) p.zero_grad();
    if (number > 0) {
      for (size_t i = 0; i < averaged_.size(); ++i) averaged_[i].copy_(before_[i]);
      for (const Tensor& t : counted_) counted.push_back(t.clone());
    }
  }
  const Tensor mean = loss(number);
  BRIM_CHECK(mean.defined() && mean.numel() == 1, ValueError,
             "[dist] the loss of a part is not one number");
  const Tensor weighted = virtual_ranks_ == 1 ? mean : mean / static_cast<double>(virtual_ranks_);
  const auto run_backward = [&] { backward ? backward(weighted) : weighted.backward(); };

  Sums sums;
  sums.losses = weighted.detach();
  if (virtual_ranks_ > 1) {
    const NoGrad guard;
    const Tensor other_slots = slots_not_of(virtual_rank, sums.losses);
    sums.losses = masked_fill(sums.losses.reshape({1}).expand(other_slots.shape()), other_slots, 0);
    for (const Tensor& t : averaged_)
      sums.buffers.push_back(parts() > 1 ? t.clone() : t.detach().contiguous());
  }
  if (reducer) {
    std::vector<Tensor> others = sums.buffers;
    others.push_back(sums.losses);
    sums.gradients = reducer->run(run_backward, std::move(others), exchanged_);
    return sums;
  }
  run_backward();
  const NoGrad guard;
  for (size_t i = 0; i < counted.size(); ++i) counted_[i].copy_(counted[i]);
  for (const Tensor& p : parameters_) sums.gradients.push_back(p.grad());
  return sums;
}

DataParallel::Sums DataParallel::sum(int64_t begin, int64_t end,
                                     const std::function<Sums(int64_t)>& part) const {
  if (end - begin == 1) return part(begin);
  const TreeNode node{begin, end};
  Sums left = sum(node.left().begin, node.left().end, part);
  const Sums right = sum(node.right().begin, node.right().end, part);
  const NoGrad guard;
  left.add(right);
  return left;
}

void DataParallel::reduce(std::vector<Sums>& nodes) const {
  const diag::Span span("reduce gradients", diag::Cause::dispatch);
  std::vector<std::vector<Tensor>> lists(nodes.size());  // the same tensors of each node
  uint64_t which = 0;                                    // of them all
  const auto add = [&](auto&& tensor_of) {
    const auto defined =
        std::ranges::find_if(nodes, [&](Sums& s) { return tensor_of(s).defined(); });
    which = splitmix64(which + (defined != nodes.end()));
    if (defined == nodes.end()) return;
    for (size_t k = 0; k < nodes.size(); ++k) {
      Tensor& t = tensor_of(nodes[k]);
      t = t.defined() ? t.contiguous() : zeros_like(tensor_of(*defined)).contiguous();
      lists[k].push_back(t);
    }
  };
  add([](Sums& s) -> Tensor& { return s.losses; });
  for (size_t i = 0; i < parameters_.size(); ++i)
    add([i](Sums& s) -> Tensor& { return s.gradients[i]; });
  for (size_t i = 0; i < averaged_.size(); ++i)
    add([i](Sums& s) -> Tensor& { return s.buffers[i]; });
  by_dtype(lists[0], [&](const std::vector<Tensor>& like) {
    std::vector<Tensor> tensors;
    for (const std::vector<Tensor>& list : lists)
      for (const Tensor& t : list)
        if (t.dtype() == like[0].dtype()) tensors.push_back(t);
    all_reduce_nodes(*group_, tensors, virtual_ranks_, which);
  });
}

Tensor DataParallel::forward_backward(const Loss& loss, const Backward& backward,
                                      Tensor* part_losses) {
  if (parts() > 1) check_synchronised();  // it may have been since
  before_.clear();
  if (parts() > 1) {
    const NoGrad guard;
    for (const Tensor& t : averaged_) before_.push_back(t.clone());
  }
  // Gradients go while others are computed, but not where the backward pass calls the group, too.
  const bool early = exchange_ && reducer_ && overlap_.value_or(!backward) && !recording &&
                     !is_synchronised(network_);
  RandomParts random(Generator::global(), virtual_ranks_);
  std::vector<Sums> nodes;
  for (const TreeNode& node : nodes_of(group_->rank(), group_->size(), virtual_ranks_))
    nodes.push_back(sum(node.begin, node.end, [&](int64_t virtual_rank) {
      random.begin(static_cast<uint64_t>(virtual_rank));
      return part(virtual_rank, loss, backward, early ? reducer_.get() : nullptr);
    }));
  before_.clear();
  const NoGrad guard;
  Sums& all = nodes[0];
  if (group_->size() > 1 && exchange_ && !early) {
    for (Tensor& g : all.gradients)
      if (g.defined() && g.dtype() == DType::f32) g = g.to(exchanged_);
    reduce(nodes);
  }
  const bool is_alone = !exchange_;
  for (size_t i = 1; is_alone && i < nodes.size(); ++i) all.add(nodes[i]);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& g = all.gradients[i];
    parameters_[i].set_grad(g.defined() ? g.to(parameters_[i].dtype()) : g);
  }
  for (size_t i = 0; i < all.buffers.size(); ++i)
    if (all.buffers[i].storage() != averaged_[i].storage()) averaged_[i].copy_(all.buffers[i]);
  const int64_t summed = is_alone ? parts() : virtual_ranks_;
  if (!all.buffers.empty()) scale(averaged_, 1 / static_cast<double>(summed));
  const Tensor& losses = all.losses;
  if (virtual_ranks_ == 1) {
    if (part_losses) *part_losses = losses.reshape({1});
    return losses;
  }
  if (part_losses) *part_losses = losses.slice(0, 1, virtual_ranks_ + 1);
  return losses.select(0, 0);
}

}  // namespace brim::dist
