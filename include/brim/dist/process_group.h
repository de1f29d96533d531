// The ranks that work on one thing together, and what they tell each other.
//
//   const dist::GroupPtr world = dist::open_world();  // as the launcher says
//   dist::all_reduce(*world, gradient);  // the sum of all ranks, in each of them
//
// Every rank calls the same functions in the same order, with the same dtypes and shapes; where one
// does not, all of them get a DistError that shows both sides. Sums are taken in one fixed tree
// over the ranks, so all ranks have the same bits, in each run. On `sim` and `cuda` a call is
// queued on the current stream as any op; on the CPU it is done when it returns. Compiled steps
// hold them. Between GPUs NCCL carries what the ranks send, and they meet on the host at a group's
// first calls only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <brim/core/tensor.h>

namespace brim::dist {

class FlightRecorder;
class Transport;
struct Call;

/// How the elements of the ranks become one.
enum class Reduce : uint8_t {
  sum,      ///< their sum
  product,  ///< their product
  min,      ///< the least
  max       ///< the largest
};

/// Options of a ProcessGroup.
struct GroupOptions {
  /// Seconds that a call waits for a rank from which nothing comes, before it is a DistError; 0:
  /// without an end.
  double timeout = 300;
  /// Seconds without a sign of life after which the process of another rank is taken for dead, of
  /// groups over processes: calls that need it are a DistError then.
  double heartbeat_timeout = 4;
  /// A folder in which a rank whose call fails writes `rank-N.json`: the error and its newest 1,000
  /// calls. Where it is not there, none is written.
  std::string record_folder = {};
  /// How many ranks there are on each host, the first ones on the first: these reduce among
  /// themselves before anything goes over the network. 0: groups over processes find out, threads
  /// are on one.
  int ranks_per_host = 0;
};

/// What an all-reduce over a group takes, about.
struct LinkSpeed {
  double latency = 0;           ///< seconds, however little is reduced
  double seconds_per_byte = 0;  ///< of the reduced tensors
  double waiting = 1;           ///< the share of it in which this rank's CPU has nothing to do
};

/// A handle of one rank. Calls of several threads come one after the other, in an order that
/// other ranks cannot know: give each thread a duplicate().
class ProcessGroup : public std::enable_shared_from_this<ProcessGroup> {
 public:
  /// For those who open groups; see local_group() and launch.h.
  explicit ProcessGroup(std::unique_ptr<Transport> transport, GroupOptions options = {});
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int rank() const { return rank_; }  ///< in [0, size)
  int size() const { return size_; }  ///< how many ranks there are
  const char* backend() const;        ///< "local", "tcp", "mpi", "simulated"
  bool has_links() const;             ///< modelled ones (links.h), by which exchanges are timed

  /// Another group of the same ranks, whose calls do not mix with these. All ranks call it.
  /// `timeout`: instead of GroupOptions::timeout, in all ranks the same.
  std::shared_ptr<ProcessGroup> duplicate(std::optional<double> timeout = {});
  /// Returns when all ranks have called it. The host waits, for the ranks alone: what is queued on
  /// devices may not be done.
  void barrier();
  /// What each rank gave, by rank: settings, addresses. The host waits.
  std::vector<std::string> all_gather_text(const std::string& text);

  /// Measures what connects tensors on such devices, once: later calls return what the first one
  /// found, which is rank 0's in all ranks. Compiled steps choose by it which gradients are reduced
  /// together while others are computed. All ranks call it; the host waits.
  LinkSpeed measure_link(Device device);
  /// What measure_link() found; zeros before.
  LinkSpeed link_speed(Device device) const;
  /// Of compiled steps: the text that rank 0 gave with this key the first time; "" where it gave
  /// another key. All ranks call it the first time, behind measure_link(); the host waits.
  std::string settle(const std::string& key, const std::string& text);

  /// Throws a DistError if another rank is known to be gone. What was queued on GPUs then ends
  /// without what that rank was to send: ask before results are believed that waited for no call.
  void check();
  /// Has the other ranks know that this one gives up: their calls throw a DistError with `why`, and
  /// so do later ones of this rank.
  void abort(const std::string& why) noexcept;

  /// Of the collectives: `use(transport)` as the next call. A call that fails ends the group.
  template <class F>
  void run(const Call& call, const F& use);

 private:
  void check_alive() const;
  Call begin(const Call& call);
  void end();
  void failed(const std::string& why) noexcept;

  const GroupOptions options_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<FlightRecorder> recorder_;
  const int rank_, size_;
  std::mutex mutex_;
  uint64_t calls_ = 0;
  std::string failure_;  // of an earlier call
  mutable std::mutex links_mutex_;
  std::map<std::string, LinkSpeed> links_;  // by device
  std::shared_ptr<ProcessGroup> control_;  // of settle(): devices may have calls of this one queued
  std::map<std::string, std::string> settled_;
};

using GroupPtr = std::shared_ptr<ProcessGroup>;  ///< A group that modules and loaders share.

/// Groups of `size` ranks within this process, by rank: give one to each thread.
std::vector<GroupPtr> local_groups(int size, const GroupOptions& options = {});
/// Calls `rank` with all of them at the same time: with the first one here, with each other one in
/// a thread of its own, whose random numbers begin where this thread's are and which has its modes
/// (GradMode, Autocast, AnomalyMode, Tf32, DeviceScope). Returns when all have. A rank that throws
/// ends its group; one that returns while others wait for it is noticed after
/// GroupOptions::timeout. Throws what a rank threw by itself, and no DistError that others got
/// because of it.
void run_ranks(const std::vector<GroupPtr>& groups, const std::function<void(ProcessGroup&)>& rank);

// --- collectives. Tensors live on one device, in any dtype that ops compute with
// (bool has no sum and no product: DTypeError); written ones are contiguous (ShapeError). Gradients
// do not flow through them (AutogradError for a tensor that requires one, outside of NoGrad).

/// Replaces the tensor by the reduction over all ranks.
void all_reduce(ProcessGroup& group, Tensor& tensor, Reduce reduce = Reduce::sum);
/// The same for several tensors of one dtype in one call: small ones together are faster.
void all_reduce(ProcessGroup& group, std::span<Tensor> tensors, Reduce reduce = Reduce::sum);
/// Rank `root`'s values in all ranks.
void broadcast(ProcessGroup& group, Tensor& tensor, int root = 0);
/// The same for several tensors.
void broadcast(ProcessGroup& group, std::span<Tensor> tensors, int root = 0);
/// x of rank r becomes y[r]. y: (size, x's shape).
void all_gather(ProcessGroup& group, const Tensor& x, Tensor& y);
/// y of rank r is the reduction of the x[r] of all ranks. x: (size, y's shape).
void reduce_scatter(ProcessGroup& group, const Tensor& x, Tensor& y, Reduce reduce = Reduce::sum);
/// y[r] is the x[rank] of rank r. x, y: (size, ...).
void all_to_all(ProcessGroup& group, const Tensor& x, Tensor& y);
///@{
/// To and from one other rank. Returns when the tensor may be written again. Not in compiled steps.
void send(ProcessGroup& group, const Tensor& tensor, int to);
void receive(ProcessGroup& group, Tensor& tensor, int from);
///@}

}  // namespace brim::dist
