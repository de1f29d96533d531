// See nccl.h.
#if BRIM_HAVE_NCCL
#include "dist/cuda/nccl.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "backend/cuda/graph/capture.h"
#include "backend/cuda/runtime/runtime.h"
#include "core/check.h"
#include "core/clock.h"
#include "core/environment.h"
#include "core/start_thread.h"
#include "dist/cuda/nccl_library.h"

namespace brim::cuda {
namespace {

using nccl::library;

/// Calls at which the ranks meet to compare them; more with BRIM_DIST_CHECK=1.
constexpr int kCompared = 100;
/// Seconds between two looks at whether another rank is gone, and until the ranks have met.
constexpr double kLook = 0.1;

/// One rank's end of what connects the GPUs of a group.
class Communicator {
 public:
  /// All ranks make theirs in the same call.
  Communicator(dist::Transport& transport, const dist::Call& call, int device)
      : transport_(transport), device_(device) {
    BRIM_CHECK(library().problem().empty(), NotImplemented, "[dist] {} of tensors on GPUs: {}",
               call.str(), library().problem());
    ncclUniqueId id{};
    std::string problem;
    if (transport.rank() == 0) {
      const ncclResult_t made = library().unique_id(&id);
      if (made != ncclSuccess) problem = text_of(made, "ncclGetUniqueId");
    }
    send_to_all(call, &id, sizeof(id));
    BRIM_CHECK(problem.empty(), DistError, "[dist] rank 0 cannot begin with NCCL: {}", problem);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;  // so that a rank that never comes is no end of this one
    const DeviceGuard guard(device);
    const auto begin = [&] {
      const ncclResult_t begun =
          library().init(&comm_, transport.size(), id, transport.rank(), &config);
      finish(begun, "ncclCommInitRankConfig", call);
      return cudaSuccess;
    };
    try {
      BRIM_CUDA(outside_captures(begin));
    } catch (...) {
      end();
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
    finish_all();
    end();
  }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  void exchange(const dist::Call& call, Stream stream, std::span<const dist::Outgoing> out,
                std::span<const dist::Incoming> in) {
    static const bool always = environment_switch("BRIM_DIST_CHECK");
    if (always || compared_ < kCompared) {
      ++compared_;
      transport_.meet(call);
    }
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
    for (int tries = 0; result == ncclInProgress; ++tries) {
      if (tries > 50) std::this_thread::sleep_for(std::chrono::microseconds(200));
      if (tries % 500 == 499) fault_ = transport_.fault();
      if (!fault_.empty()) {
        end();
        check_alive(call);
      }
      if (library().async_error(comm_, &result) != ncclSuccess) result = ncclInternalError;
    }
    if (result == ncclSuccess) return;
    fault_ = "NCCL failed in " + text_of(result, what);
    end();
    check_alive(call);
  }

  /// What is queued ends, whatever the other ranks do.
  void end() {
    if (comm_) (void)library().abort(comm_);
    comm_ = nullptr;
  }

  /// Nothing of it is on its way any more, if all ranks are well.
  void finish_all() {
    if (!comm_ || !fault_.empty()) return;
    constexpr double kMost = 10;
    ncclResult_t result = library().finalize(comm_);
    const double begin = steady_seconds();
    while (result == ncclInProgress && steady_seconds() - begin < kMost) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      if (library().async_error(comm_, &result) != ncclSuccess) return;
      if (!transport_.fault().empty()) return;
    }
    if (result != ncclSuccess) return;
    (void)library().destroy(comm_);
    comm_ = nullptr;
  }

  /// A kernel that waits for a rank that is gone would never end.
  void watch() {
    std::unique_lock lock(mutex_);
    while (!ending_ && fault_.empty()) {
      changed_.wait_for(lock, std::chrono::duration<double>(kLook));
      if (ending_ || !comm_) return;
      ncclResult_t result = ncclSuccess;
      fault_ = transport_.fault();
      if (fault_.empty() && library().async_error(comm_, &result) == ncclSuccess &&
          result != ncclSuccess && result != ncclInProgress)
        fault_ = "NCCL failed: " + text_of(result, "a group of sends");
      if (!fault_.empty()) end();
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
  std::shared_ptr<void>& links = transport.links_of(stream.device);
  if (!links) links = std::make_shared<Communicator>(transport, call, stream.device.index);
  static_cast<Communicator*>(links.get())->exchange(call, stream, out, in);
}

}  // namespace brim::cuda
#endif
