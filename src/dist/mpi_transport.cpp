// Ranks whose messages Open MPI carries: over its shared memory, InfiniBand or whatever it was
// built for. They meet over TCP, which stays for the heartbeat, so what goes wrong is noticed and
// named as without it.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/clock.h"
#include "dist/mpi_library.h"
#include "dist/tcp_transport.h"

namespace brim::dist {
namespace {

/// What goes before each message.
struct MpiFrame {
  Call call;
  uint64_t bytes = 0;
};
static_assert(std::is_trivially_copyable_v<MpiFrame>);

/// A message up to here goes with its frame.
constexpr size_t kShort = 8192;
/// Of a longer one, the most that a call takes, which counts with an int.
constexpr size_t kPiece = size_t{1} << 30;
/// How often messages are asked for before the thread yields, and before it sleeps.
constexpr int kTries = 200, kYields = 2000;
constexpr auto kSleep = std::chrono::microseconds(50);
/// Seconds after which a rank that waits looks whether another one is said to be gone.
constexpr double kLookEvery = 0.1;

class MpiTransport final : public Transport {
 public:
  MpiTransport(Connected base, MpiLibrary& mpi, MpiLibrary::Comm comm)
      : Transport(base.transport->rank(), base.transport->size()),
        base_(std::move(base.transport)),
        watch_(std::move(base.watch)),
        mpi_(mpi),
        comm_(comm) {}

  const char* backend() const override { return "mpi"; }
  double timeout() const override { return base_->timeout(); }
  std::string peers_fault() override { return watch_ ? watch_->fault() : ""; }

  void exchange(const Call& call, std::span<const Outgoing> out,
                std::span<const Incoming> in) override {
    if (watch_) watch_->enter(call);
    try {
      move_messages(call, out, in);
    } catch (...) {
      mpi_.give_up();
      throw;
    }
    if (watch_) watch_->leave();
  }

  std::unique_ptr<Transport> duplicate(const Call& call) override {
    Connected base{base_->duplicate(call), watch_};
    MpiLibrary::Comm comm = nullptr;
    Requests requests;
    start(requests, "MPI_Comm_idup",
          [&](MpiLibrary::Request* request) { return mpi_.comm_idup(comm_, &comm, request); });
    wait_for(call, [&] { return finished(requests); });
    {
      const std::lock_guard lock(mpi_.mutex);
      mpi_.check(mpi_.set_error_handler(comm, mpi_.errors_return), "MPI_Comm_set_errhandler");
    }
    return std::make_unique<MpiTransport>(std::move(base), mpi_, comm);
  }

  void abort(const std::string& why) noexcept override {
    mpi_.give_up();
    base_->abort(why);
  }

  /// Another communicator than the program's own, in which errors come back.
  static std::unique_ptr<Transport> make(Connected base, MpiLibrary& mpi) {
    int rank = 0, size = 0;
    mpi.check(mpi.comm_rank(mpi.world, &rank), "MPI_Comm_rank");
    mpi.check(mpi.comm_size(mpi.world, &size), "MPI_Comm_size");
    BRIM_CHECK(rank == base.transport->rank() && size == base.transport->size(), DistError,
               "[dist] this is rank {} of {}, and for MPI it is rank {} of {}; start it with "
               "Open MPI's mpirun, or with a srun that speaks to it (--mpi=pmix)",
               base.transport->rank(), base.transport->size(), rank, size);
    MpiTransport first(std::move(base), mpi, mpi.world);
    std::unique_ptr<Transport> own = first.duplicate({.kind = CallKind::duplicate});
    first.meet();  // the first one's connections go now
    return own;
  }

 private:
  using Requests = std::vector<MpiLibrary::Request>;

  /// Messages from another rank, in their order: the frame of the next one, then what is long.
  struct Arriving {
    int from = 0;
    std::deque<Incoming> messages;
    std::vector<char> buffer;
    Requests frame, rest;
  };

  template <class F>
  void start(Requests& requests, const char* what, const F& call) {
    const std::lock_guard lock(mpi_.mutex);
    BRIM_CHECK(!mpi_.gave_up(), DistError, "[dist] rank {}: MPI has failed before", rank());
    MpiLibrary::Request request = nullptr;
    mpi_.check(call(&request), what);
    requests.push_back(request);
  }

  /// Drops what is done. Returns whether all is.
  bool finished(Requests& requests) {
    const std::lock_guard lock(mpi_.mutex);
    std::erase_if(requests, [&](MpiLibrary::Request& request) {
      int flag = 0;
      mpi_.check(mpi_.test(&request, &flag, nullptr), "MPI_Test");
      return flag != 0;
    });
    return requests.empty();
  }

  void send_bytes(Requests& requests, const void* data, size_t bytes, int to) {
    start(requests, "MPI_Isend", [&](MpiLibrary::Request* request) {
      return mpi_.isend(data, static_cast<int>(bytes), mpi_.byte, to, 0, comm_, request);
    });
  }
  void receive_bytes(Requests& requests, void* data, size_t bytes, int from) {
    start(requests, "MPI_Irecv", [&](MpiLibrary::Request* request) {
      return mpi_.irecv(data, static_cast<int>(bytes), mpi_.byte, from, 0, comm_, request);
    });
  }

  void next_frame(Arriving& a) {
    if (!a.messages.empty()) receive_bytes(a.frame, a.buffer.data(), a.buffer.size(), a.from);
  }

  /// Takes in what has come. Returns whether all has.
  bool receive(const Call& call, Arriving& a) {
    while (!a.messages.empty() && finished(a.frame)) {
      const Incoming message = a.messages.front();
      MpiFrame frame;
      std::memcpy(&frame, a.buffer.data(), sizeof(frame));
      if (!(frame.call == call) || frame.bytes != message.bytes)
        raise_mismatch(rank(), call, message.bytes, a.from, frame.call, frame.bytes);
      if (message.bytes <= kShort) {
        if (message.bytes > 0)
          std::memcpy(message.data, a.buffer.data() + sizeof(frame), message.bytes);
      } else {
        for (size_t at = 0; at < message.bytes; at += kPiece)
          receive_bytes(a.rest, static_cast<char*>(message.data) + at,
                        std::min(kPiece, message.bytes - at), a.from);
      }
      a.messages.pop_front();
      next_frame(a);
    }
    return a.messages.empty() && finished(a.rest);
  }

  void move_messages(const Call& call, std::span<const Outgoing> out,
                     std::span<const Incoming> in) {
    std::vector<Arriving> arriving;
    for (const Incoming& message : in) {
      auto from = std::ranges::find(arriving, message.from, &Arriving::from);
      if (from == arriving.end()) {
        arriving.push_back({.from = message.from,
                            .messages = {},
                            .buffer = std::vector<char>(sizeof(MpiFrame) + kShort),
                            .frame = {},
                            .rest = {}});
        from = arriving.end() - 1;
      }
      from->messages.push_back(message);
    }
    for (Arriving& a : arriving) next_frame(a);
    std::deque<std::vector<char>> frames;
    Requests sending;
    for (const Outgoing& message : out) {
      const MpiFrame frame{call, message.bytes};
      const size_t with = message.bytes <= kShort ? message.bytes : 0;
      std::vector<char>& buffer = frames.emplace_back(sizeof(frame) + with);
      std::memcpy(buffer.data(), &frame, sizeof(frame));
      if (with > 0) std::memcpy(buffer.data() + sizeof(frame), message.data, with);
      send_bytes(sending, buffer.data(), buffer.size(), message.to);
      if (message.bytes <= kShort) continue;
      for (size_t at = 0; at < message.bytes; at += kPiece)
        send_bytes(sending, static_cast<const char*>(message.data) + at,
                   std::min(kPiece, message.bytes - at), message.to);
    }
    try {
      wait_for(call, [&] {
        bool all = finished(sending);
        for (Arriving& a : arriving) all = receive(call, a) && all;
        return all;
      });
    } catch (...) {
      keep_for_ever(std::move(arriving), std::move(frames));
      throw;
    }
  }

  /// MPI may still write and read the buffers of a call that failed.
  static void keep_for_ever(std::vector<Arriving> arriving, std::deque<std::vector<char>> frames) {
    static std::mutex mutex;
    static auto& kept =
        *new std::deque<std::pair<std::vector<Arriving>, std::deque<std::vector<char>>>>;
    const std::lock_guard lock(mutex);
    kept.emplace_back(std::move(arriving), std::move(frames));
  }

  template <class F>
  void wait_for(const Call& call, const F& is_done) {
    double begin = 0, looked = 0;
    for (int tries = 0; !is_done(); ++tries) {
      if (tries < kTries) continue;
      if (tries < kYields) {
        std::this_thread::yield();
        continue;
      }
      std::this_thread::sleep_for(kSleep);
      const double now = steady_seconds();
      if (begin == 0) begin = looked = now;
      if (now - looked < kLookEvery) continue;
      looked = now;
      if (const std::string fault = peers_fault(); !fault.empty()) raise_fault(rank(), call, fault);
      if (timeout() > 0 && now - begin >= timeout())
        raise_timeout(rank(), call, "the other ranks", timeout());
    }
  }

  const std::unique_ptr<Transport> base_;
  const std::shared_ptr<Watch> watch_;
  MpiLibrary& mpi_;
  const MpiLibrary::Comm comm_;
};

}  // namespace

GroupPtr mpi_group(const TcpOptions& options) {
  MpiLibrary& mpi = MpiLibrary::open();
  Connected base = connect_over_tcp(options);
  if (options.size == 1)
    return std::make_shared<ProcessGroup>(std::move(base.transport), options.group);
  const int each = base.transport->ranks_per_host();
  std::unique_ptr<Transport> transport = MpiTransport::make(std::move(base), mpi);
  transport->set_ranks_per_host(each);
  return std::make_shared<ProcessGroup>(std::move(transport), options.group);
}

}  // namespace brim::dist
