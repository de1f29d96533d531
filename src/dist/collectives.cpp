#include "dist/collectives.h"

#include <brim/autograd/autograd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/launch.h"
#include "core/check.h"
#include "core/recording.h"
#include "dist/collective_kernels.h"
#include "dist/reduce_elements.h"
#include "dist/sum_tree.h"
#include "ops/checks.h"

namespace brim::dist {

Call call_of(CallKind kind, std::span<const Tensor> tensors, const CollectiveOptions& options,
             bool is_replayed) {
  Call call{.shapes = options.which,
            .tensors = static_cast<uint32_t>(tensors.size()),
            .virtual_ranks = static_cast<uint32_t>(options.virtual_ranks),
            .root = options.root,
            .kind = kind,
            .dtype = tensors.empty() ? DType::f32 : tensors[0].dtype(),
            .reduce = options.reduce,
            .is_replayed = is_replayed};
  for (const Tensor& t : tensors) {
    call.elements += t.numel();
    call.shapes = splitmix64(call.shapes ^ static_cast<uint64_t>(t.rank()));
    for (const int64_t n : t.shape())
      call.shapes = splitmix64(call.shapes ^ static_cast<uint64_t>(n));
  }
  return call;
}

namespace {

using InPlace =
    backend::Kernel<void(const Context&, std::span<Tensor> tensors, const CollectiveOptions&)>;
using Reduction = backend::Kernel<void(const Context&, std::span<Tensor> tensors,
                                       std::span<Tensor> others, const CollectiveOptions&)>;
using OutOfPlace =
    backend::Kernel<void(const Context&, const Tensor& x, Tensor& y, const CollectiveOptions&)>;

constexpr backend::Work kBetweenRanks = backend::Work::communication;

double bytes_of_all(std::span<const Tensor> tensors) {
  double bytes = 0;
  for (const Tensor& t : tensors)
    bytes += static_cast<double>(t.numel()) * static_cast<double>(size_of(t.dtype()));
  return bytes;
}
/// What a rank sends over a device's link, for those that pace it: of `times` all other ranks'
/// parts of the bytes. Nothing where the group's own links do.
double bytes_sent(double bytes, double times, const CollectiveOptions& options) {
  const double ranks = options.group->size();
  return options.group->has_links() ? 0 : times * bytes * (ranks - 1) / ranks;
}
double bytes_in_place(const std::span<Tensor>& tensors, const CollectiveOptions& options) {
  return bytes_sent(bytes_of_all(tensors), 1, options);
}
double bytes_to_one(const std::span<Tensor>& tensors, const CollectiveOptions& options) {
  return options.group->has_links() ? 0 : bytes_of_all(tensors);
}
double bytes_of_reduction(const std::span<Tensor>& tensors, const std::span<Tensor>& others,
                          const CollectiveOptions& options) {
  return bytes_sent(bytes_of_all(tensors) + bytes_of_all(others) / 2, 2, options);
}
double bytes_out_of_place(const Tensor& x, const Tensor& y, const CollectiveOptions& options) {
  return bytes_sent(
      static_cast<double>(std::max(x.numel(), y.numel())) * static_cast<double>(size_of(x.dtype())),
      1, options);
}

/// What lies on the host.
struct HostMover {
  static constexpr int64_t kBlock = 4096;  // in cache
  explicit HostMover(const Context&) {}
  void copy(std::span<const Copy> copies) const {
    for (const Copy& c : copies) std::memcpy(c.to, c.from, c.bytes);
  }
  void reduce(DType dtype, Reduce reduce, void* into, const void* from, int64_t count) const {
    reduce_elements(dtype, reduce, into, from, count);
  }
  void exchange(Transport& transport, const Call& call, std::span<const Outgoing> out,
                std::span<const Incoming> in) const {
    transport.exchange(call, out, in);
  }
  static bool is_replayed(const Context&) { return false; }
};

const bool registered = CollectiveKernels<HostMover>::add_to(DeviceKind::cpu);

// --- checks
// ---------------------------------------------------------------------------------------

void check_use(const char* op, const Tensor& t) {
  ops::check_defined(op, t);
  BRIM_CHECK(!grad_enabled() || !t.requires_grad(), AutogradError,
             "[{}] gradients do not flow between ranks; use NoGrad, or detach() the tensor", op);
}

void check_written(const char* op, const Tensor& t) {
  check_use(op, t);
  BRIM_CHECK(
      t.is_contiguous(), ShapeError,
      "[{}] a tensor of shape {} that is not contiguous; write into one that is, and copy_() "
      "from there",
      op, t.shape().str());
}

void check_written(const char* op, std::span<Tensor> tensors) {
  for (const Tensor& t : tensors) {
    check_written(op, t);
    (void)ops::common_device(op, tensors[0], t);
    (void)ops::common_dtype(op, tensors[0], t);
  }
  for (const Tensor& t : tensors) t.storage()->bump_version();
}

/// The other ranks wait for it, so a plan never leaves it out. Null outside of recordings.
backend::Communication* keep_in_plan(ProcessGroup& group) {
  backend::LaunchRecorder* const recorder = backend::launch_recorder();
  if (!recorder) return nullptr;
  backend::Launch& launch = recorder->last_launch();
  launch.commit = [] {};
  const LinkSpeed speed = group.link_speed(launch.device());
  return &launch.communication.emplace(
      backend::Communication{.latency = speed.latency,
                             .seconds_per_byte = speed.seconds_per_byte,
                             .waiting = speed.waiting,
                             .settle = {}});
}

void check_reduce(const char* op, DType dtype, Reduce reduce) {
  BRIM_CHECK(dtype != DType::bool_ || reduce == Reduce::min || reduce == Reduce::max, DTypeError,
             "[{}] bool has no sum and no product; use Reduce::max for any, Reduce::min for all",
             op);
}

void check_rank(const char* op, const ProcessGroup& group, int rank) {
  BRIM_CHECK(rank >= 0 && rank < group.size(), ValueError, "[{}] rank {} of a group of {}", op,
             rank, group.size());
}

void check_rows(const char* op, const ProcessGroup& group, const Tensor& rows, const Tensor& row) {
  std::vector<int64_t> expected = {group.size()};
  expected.insert(expected.end(), row.shape().begin(), row.shape().end());
  const bool fits = rows.rank() == row.rank() + 1 &&
                    std::equal(expected.begin(), expected.end(), rows.shape().begin());
  BRIM_CHECK(fits, ShapeError, "[{}] shapes {} and {} in a group of {}; the first one is ({}, ...)",
             op, rows.shape().str(), row.shape().str(), group.size(), group.size());
}

void check_pair(const char* op, const Tensor& x, const Tensor& y) {
  check_use(op, x);
  check_written(op, y);
  (void)ops::common_device(op, x, y);
  (void)ops::common_dtype(op, x, y);
  BRIM_CHECK(x.storage() != y.storage(), ValueError, "[{}] x and y share their memory", op);
  y.storage()->bump_version();
}

void reduce_all(std::span<Tensor> tensors, std::span<Tensor> others,
                const CollectiveOptions& options) {
  static const Reduction kernel("all_reduce",
                                {.operands = "rw tensors, rw others", .work = kBetweenRanks},
                                &bytes_of_reduction);
  kernel(tensors[0].device(), tensors[0].dtype(), tensors, others, options);
  backend::Communication* const communication = keep_in_plan(*options.group);
  if (!communication || communication->latency <= 0) return;
  const Call call = call_of(CallKind::all_reduce, tensors, options, false);
  communication->settle = [group = options.group,
                           key = fmt::format("{} {:x}", call.str(), call.shapes)](
                              const std::string& text) { return group->settle(key, text); };
}

}  // namespace

void all_reduce_nodes(ProcessGroup& group, std::span<Tensor> tensors, int64_t virtual_ranks,
                      uint64_t which) {
  if (tensors.empty()) return;
  check_written("all_reduce", tensors);
  const size_t nodes = nodes_of(group.rank(), group.size(), virtual_ranks).size();
  const size_t each = tensors.size() / nodes;
  std::vector<Tensor> others;
  for (size_t i = 0; i < each; ++i)
    for (size_t k = 1; k < nodes; ++k) others.push_back(tensors[k * each + i]);
  reduce_all(tensors.first(each), others,
             {.group = group.shared_from_this(), .virtual_ranks = virtual_ranks, .which = which});
}

void all_reduce(ProcessGroup& group, std::span<Tensor> tensors, Reduce reduce) {
  if (tensors.empty()) return;
  check_written("all_reduce", tensors);
  check_reduce("all_reduce", tensors[0].dtype(), reduce);
  reduce_all(tensors, {}, {.group = group.shared_from_this(), .reduce = reduce});
}
void all_reduce(ProcessGroup& group, Tensor& tensor, Reduce reduce) {
  all_reduce(group, std::span(&tensor, 1), reduce);
}

void broadcast(ProcessGroup& group, std::span<Tensor> tensors, int root) {
  static const InPlace kernel("broadcast", {.operands = "rw tensors", .work = kBetweenRanks},
                              &bytes_in_place);
  if (tensors.empty()) return;
  check_written("broadcast", tensors);
  check_rank("broadcast", group, root);
  kernel(tensors[0].device(), tensors[0].dtype(), tensors,
         {.group = group.shared_from_this(), .root = root});
  keep_in_plan(group);
}
void broadcast(ProcessGroup& group, Tensor& tensor, int root) {
  broadcast(group, std::span(&tensor, 1), root);
}

void all_gather(ProcessGroup& group, const Tensor& x, Tensor& y) {
  static const OutOfPlace kernel("all_gather", {.operands = "x, y", .work = kBetweenRanks},
                                 &bytes_out_of_place);
  check_pair("all_gather", x, y);
  check_rows("all_gather", group, y, x);
  kernel(x.device(), x.dtype(), x.detach().contiguous(), y, {.group = group.shared_from_this()});
  keep_in_plan(group);
}

void reduce_scatter(ProcessGroup& group, const Tensor& x, Tensor& y, Reduce reduce) {
  static const OutOfPlace kernel("reduce_scatter", {.operands = "x, y", .work = kBetweenRanks},
                                 &bytes_out_of_place);
  check_pair("reduce_scatter", x, y);
  check_rows("reduce_scatter", group, x, y);
  check_reduce("reduce_scatter", x.dtype(), reduce);
  kernel(x.device(), x.dtype(), x.detach().contiguous(), y,
         {.group = group.shared_from_this(), .reduce = reduce});
  keep_in_plan(group);
}

void all_to_all(ProcessGroup& group, const Tensor& x, Tensor& y) {
  static const OutOfPlace kernel("all_to_all", {.operands = "x, y", .work = kBetweenRanks},
                                 &bytes_out_of_place);
  check_pair("all_to_all", x, y);
  BRIM_CHECK(x.shape() == y.shape() && x.rank() > 0 && x.size(0) == group.size(), ShapeError,
             "[all_to_all] shapes {} and {} in a group of {}; both are ({}, ...)", x.shape().str(),
             y.shape().str(), group.size(), group.size());
  kernel(x.device(), x.dtype(), x.detach().contiguous(), y, {.group = group.shared_from_this()});
  keep_in_plan(group);
}

namespace {

void to_or_from(const char* op, const InPlace& kernel, ProcessGroup& group, Tensor tensor,
                int rank) {
  refuse_in_recording(op, "what it does depends on the rank; call it outside the step");
  check_rank(op, group, rank);
  BRIM_CHECK(rank != group.rank(), ValueError, "[{}] rank {} and this rank are the same", op, rank);
  kernel(tensor.device(), tensor.dtype(), std::span(&tensor, 1),
         {.group = group.shared_from_this(), .root = rank});
}

}  // namespace

void send(ProcessGroup& group, const Tensor& tensor, int to) {
  static const InPlace kernel("send", {.operands = "rw tensors", .work = kBetweenRanks},
                              &bytes_to_one);
  check_use("send", tensor);
  to_or_from("send", kernel, group, tensor.detach().contiguous(), to);
}

void receive(ProcessGroup& group, Tensor& tensor, int from) {
  static const InPlace kernel("receive", {.operands = "rw tensors", .work = kBetweenRanks},
                              &bytes_to_one);
  check_written("receive", std::span(&tensor, 1));
  to_or_from("receive", kernel, group, tensor, from);
}

}  // namespace brim::dist
