// See nccl.h.
#if BRIM_HAVE_NCCL
#include "dist/cuda/nccl.h"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "backend/cuda/graph/capture.h"
#include "backend/cuda/runtime/runtime.h"
#include "core/check.h"
#include "core/clock.h"
#include "core/environment.h"
#include "core/host_name.h"
#include "core/printable.h"
#include "core/start_thread.h"
#include "dist/cuda/nccl_library.h"
#include "dist/own_devices.h"

namespace brim::cuda {
namespace {

using nccl::library;

/// Calls at which the ranks meet to compare them; all of them with BRIM_DIST_CHECK=1. Those of
/// plans are none of them: which of these a graph makes, and when, is each rank's own affair.
constexpr int kCompared = 100;
/// Seconds between two looks at whether another rank is gone.
constexpr double kLook = 0.1;

/// One rank's end of what connects the GPUs of a group.
class Communicator {
 public:
  /// All ranks make theirs in the same call.
  Communicator(dist::Transport& transport, const dist::Call& asked, int device)
      : transport_(transport), device_(device) {
    BRIM_CHECK(library().problem().empty(), NotImplemented, "[dist] {} of tensors on GPUs: {}",
               asked.str(), library().problem());
    const dist::Call call{.kind = dist::CallKind::connect};
    ncclUniqueId id{};
    std::string problem;
    if (transport.rank() == 0) {
      const ncclResult_t made = library().unique_id(&id);
      if (made != ncclSuccess) problem = text_of(made, "ncclGetUniqueId");
    }
    send_to_all(call, &id, sizeof(id));
    BRIM_CHECK(problem.empty(), DistError, "[dist] rank 0 cannot begin with NCCL: {}", problem);
    // NCCL would refuse, too, but name neither rank.
    dist::check_own_device(
        transport, call,
        {.identity = uuid_of(device), .device = Device::cuda(device).str(), .host = host_name()});
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;  // so that a rank that never comes is no end of this one
    const DeviceGuard guard(device);
    try {
      BRIM_CUDA(outside_captures([&] {
        const ncclResult_t begun =
            library().init(&comm_, transport.size(), id, transport.rank(), &config);
        finish(begun, "ncclCommInitRankConfig", asked);
        return cudaSuccess;
      }));
    } catch (...) {
      if (comm_) (void)library().abort(comm_);
      throw;
    }
    watcher_ = start_thread([this] { return std::thread([this] { watch(); }); });
  }
  ~Communicator() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    if (watcher_.joinable()) watcher_.join();
    if (!comm_ || leave()) return;
    if (fault_.empty()) {
      const std::string why = fmt::format(
          "rank {} left its group while others had not come to their calls", transport_.rank());
      warn_on_stderr("[dist] " + why + "; what was queued on its GPU is not whole");
      transport_.abort(why);
    }
    (void)library().abort(comm_);
  }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  void exchange(const dist::Call& call, Stream stream, std::span<const dist::Outgoing> out,
                std::span<const dist::Incoming> in) {
    compare(call, out, in);
    const std::lock_guard lock(mutex_);
    check_alive(call);
    const DeviceGuard guard(device_);
    const cudaStream_t native_stream = native(stream);
    ncclResult_t result = library().group_start();
    for (const dist::Outgoing& o : out)
      if (result == ncclSuccess && o.bytes > 0)
        result = library().send(o.data, o.bytes, ncclUint8, o.to, comm_, native_stream);
    for (const dist::Incoming& i : in)
      if (result == ncclSuccess && i.bytes > 0)
        result = library().receive(i.data, i.bytes, ncclUint8, i.from, comm_, native_stream);
    const ncclResult_t ended = library().group_end();
    finish(result == ncclSuccess || result == ncclInProgress ? ended : result, "a group of sends",
           call);
    note_queued(device_);
  }

 private:
  std::string text_of(ncclResult_t result, const char* call) const {
    const char* last = comm_ ? library().last_error(comm_) : nullptr;
    return fmt::format("{}: {}{}{}", call, library().error_string(result),
                       last && *last ? ": " : "", last ? last : "");
  }

  void check_alive(const dist::Call& call) const {
    if (!fault_.empty()) dist::raise_fault(transport_.rank(), call, fault_);
  }

  /// Meets those that take part, to see that they call the same.
  void compare(const dist::Call& call, std::span<const dist::Outgoing> out,
               std::span<const dist::Incoming> in) {
    static const bool always = environment_switch("BRIM_DIST_CHECK");
    if (call.is_replayed) return;
    if (call.kind == dist::CallKind::send) {
      std::vector<dist::Outgoing> to(out.begin(), out.end());
      std::vector<dist::Incoming> from(in.begin(), in.end());
      for (dist::Outgoing& o : to) o.bytes = 0;
      for (dist::Incoming& i : from) i.bytes = 0;
      return transport_.exchange(call, to, from);
    }
    if (!always && compared_ >= kCompared) return;
    ++compared_;
    transport_.meet(call);
  }

  void send_to_all(const dist::Call& call, void* data, size_t bytes) {
    std::vector<dist::Outgoing> out;
    std::vector<dist::Incoming> in;
    if (transport_.rank() != 0)
      in.push_back({0, data, bytes});
    else
      for (int peer = 1; peer < transport_.size(); ++peer) out.push_back({peer, data, bytes});
    transport_.exchange(call, out, in);
  }

  /// Waits until NCCL's threads have done on the host what was asked for.
  void finish(ncclResult_t result, const char* what, const dist::Call& call) {
    const double begin = steady_seconds(), most = transport_.timeout();
    for (int tries = 0; result == ncclInProgress && fault_.empty(); ++tries) {
      if (tries > 50) std::this_thread::sleep_for(std::chrono::microseconds(200));
      if (tries % 500 == 499) fault_ = transport_.fault();
      if (most > 0 && steady_seconds() - begin > most)
        fault_ = fmt::format("NCCL has waited {:g} s in {} for other ranks", most, what);
      if (library().async_error(comm_, &result) != ncclSuccess) result = ncclInternalError;
    }
    if (fault_.empty() && result != ncclSuccess) fault_ = "NCCL failed in " + text_of(result, what);
    if (fault_.empty()) return;
    changed_.notify_all();  // watch() ends what is queued
    check_alive(call);
  }

  /// Whether nothing of it is on its way any more: all ranks are well and have made their calls.
  bool leave() {
    if (!fault_.empty()) return false;
    const double begin = steady_seconds(), most = transport_.timeout();
    ncclResult_t result = library().finalize(comm_);
    while (result == ncclInProgress && (most <= 0 || steady_seconds() - begin < most)) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      if (library().async_error(comm_, &result) != ncclSuccess) return false;
      if (!transport_.fault().empty()) return false;
    }
    if (result != ncclSuccess) return false;
    (void)library().destroy(comm_);
    return true;
  }

  /// A kernel that waits for a rank that is gone would never end.
  void watch() {
    std::unique_lock lock(mutex_);
    while (!ending_) {
      changed_.wait_for(lock, std::chrono::duration<double>(kLook),
                        [this] { return ending_ || !fault_.empty(); });
      if (ending_) return;
      ncclResult_t result = ncclSuccess;
      if (fault_.empty()) fault_ = transport_.fault();
      if (fault_.empty() && library().async_error(comm_, &result) == ncclSuccess &&
          result != ncclSuccess && result != ncclInProgress)
        fault_ = "NCCL failed: " + text_of(result, "a group of sends");
      if (fault_.empty()) continue;
      const std::string why = fault_;
      const ncclComm_t comm = std::exchange(comm_, nullptr);
      lock.unlock();
      transport_.note_fault(why);
      transport_.abort(why);
      // Kernels end at once; the call may return only when the graphs that hold some are gone.
      (void)library().abort(comm);
      return;
    }
  }

  dist::Transport& transport_;
  const int device_;
  int compared_ = 0;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  ncclComm_t comm_ = nullptr;
  std::string fault_;
  bool ending_ = false;
  std::thread watcher_;
};

}  // namespace

void exchange_by_nccl(dist::Transport& transport, const dist::Call& call, Stream stream,
                      std::span<const dist::Outgoing> out, std::span<const dist::Incoming> in) {
  if (transport.size() == 1 || transport.modelled()) return;  // nobody is there
  std::shared_ptr<void>& links = transport.links_of(stream.device);
  if (!links) links = std::make_shared<Communicator>(transport, call, stream.device.index);
  static_cast<Communicator*>(links.get())->exchange(call, stream, out, in);
}

}  // namespace brim::cuda
#endif
