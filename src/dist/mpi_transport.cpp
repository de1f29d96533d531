// Ranks whose messages Open MPI carries: over its shared memory, InfiniBand or whatever it was
// built for. They meet over TCP, which stays for the heartbeat, so what goes wrong is noticed and
// named as without it.
#include <fmt/ranges.h>

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

/// A message up to here goes with its frame.
constexpr size_t kShort = 8192;
/// Of a longer one, what goes at a time: it shows that something moves.
constexpr size_t kPiece = size_t{16} << 20;
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
  std::string peers_fault() override { return watch_->fault(); }

  void exchange(const Call& call, std::span<const Outgoing> out,
                std::span<const Incoming> in) override {
    watch_->enter(call);
    try {
      move_messages(call, out, in);
    } catch (const std::exception& e) {
      mpi_.give_up(e.what());
      throw;
    }
    watch_->leave();
  }

  std::unique_ptr<Transport> duplicate(const Call& call, double timeout) override {
    Connected base{base_->duplicate(call, timeout), watch_};
    MpiLibrary::Comm comm = nullptr;
    MpiLibrary::Request request = nullptr;
    {
      const auto lock = mpi_.lock();
      mpi_.check(mpi_.comm_idup(comm_, &comm, &request), "MPI_Comm_idup");
    }
    Pending others;
    for (int peer = 0; peer < size(); ++peer)
      if (peer != rank()) others.push_back(peer);
    wait_for(call, [&] { return test(request) ? Pending() : others; });
    {
      const auto lock = mpi_.lock();
      mpi_.check(mpi_.set_error_handler(comm, mpi_.errors_return), "MPI_Comm_set_errhandler");
    }
    return std::make_unique<MpiTransport>(std::move(base), mpi_, comm);
  }

  void abort(const std::string& why) noexcept override {
    mpi_.give_up(why);
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
    std::unique_ptr<Transport> own =
        first.duplicate({.kind = CallKind::duplicate}, first.timeout());
    first.meet();  // the first one's connections go now
    return own;
  }

 private:
  struct Request {
    MpiLibrary::Request handle;
    int peer;
  };
  using Requests = std::vector<Request>;
  using Pending = std::vector<int>;  // ranks from which or to which something is on the way

  /// Messages from another rank, in their order: the frame of the next one, then what is long.
  struct Arriving {
    int from = 0;
    std::deque<Incoming> messages;
    std::vector<char> buffer;
    Requests frame, rest;
  };
  /// What MPI knows while messages are on the way.
  struct Exchange {
    std::vector<Arriving> arriving;
    std::deque<std::vector<char>> frames;
    Requests sending;
  };

  template <class F>
  void start(Requests& requests, int peer, const char* what, const F& call) {
    const auto lock = mpi_.lock();
    MpiLibrary::Request request = nullptr;
    mpi_.check(call(&request), what);
    requests.push_back({request, peer});
  }
  bool test(MpiLibrary::Request& request) {
    const auto lock = mpi_.lock();
    int is_done = 0;
    mpi_.check(mpi_.test(&request, &is_done, nullptr), "MPI_Test");
    completed_ += is_done != 0;
    return is_done != 0;
  }
  /// Drops what is done. Returns whether all is.
  bool finished(Requests& requests) {
    std::erase_if(requests, [&](Request& request) { return test(request.handle); });
    return requests.empty();
  }
  static Pending peers_of(const Requests& requests) {
    Pending peers;
    for (const Request& request : requests) peers.push_back(request.peer);
    return peers;
  }

  void send_bytes(Requests& requests, const void* data, size_t bytes, int to) {
    start(requests, to, "MPI_Isend", [&](MpiLibrary::Request* request) {
      return mpi_.isend(data, static_cast<int>(bytes), mpi_.byte, to, 0, comm_, request);
    });
  }
  void receive_bytes(Requests& requests, void* data, size_t bytes, int from) {
    start(requests, from, "MPI_Irecv", [&](MpiLibrary::Request* request) {
      return mpi_.irecv(data, static_cast<int>(bytes), mpi_.byte, from, 0, comm_, request);
    });
  }
  template <class Byte, class Move>
  static void in_pieces(Byte* data, size_t bytes, const Move& move) {
    for (size_t at = 0; at < bytes; at += kPiece) move(data + at, std::min(kPiece, bytes - at));
  }

  void next_frame(Arriving& a) {
    if (!a.messages.empty()) receive_bytes(a.frame, a.buffer.data(), a.buffer.size(), a.from);
  }

  /// Takes in what has come. Returns whether all has.
  bool receive(const Call& call, Arriving& a) {
    while (!a.messages.empty() && finished(a.frame)) {
      const Incoming message = a.messages.front();
      Frame frame;
      std::memcpy(&frame, a.buffer.data(), sizeof(frame));
      if (!(frame.call == call) || frame.bytes != message.bytes)
        raise_mismatch(rank(), call, message.bytes, a.from, frame.call, frame.bytes);
      auto* const data = static_cast<char*>(message.data);
      if (message.bytes > kShort)
        in_pieces(data, message.bytes,
                  [&](char* at, size_t bytes) { receive_bytes(a.rest, at, bytes, a.from); });
      else if (message.bytes > 0)
        std::memcpy(data, a.buffer.data() + sizeof(frame), message.bytes);
      a.messages.pop_front();
      next_frame(a);
    }
    return a.messages.empty() && finished(a.rest);
  }

  void send(const Call& call, const Outgoing& message, Exchange& x) {
    const Frame frame{call, message.bytes};
    const size_t with = message.bytes <= kShort ? message.bytes : 0;
    std::vector<char>& buffer = x.frames.emplace_back(sizeof(frame) + with);
    std::memcpy(buffer.data(), &frame, sizeof(frame));
    if (with > 0) std::memcpy(buffer.data() + sizeof(frame), message.data, with);
    send_bytes(x.sending, buffer.data(), buffer.size(), message.to);
    if (message.bytes > kShort)
      in_pieces(
          static_cast<const char*>(message.data), message.bytes,
          [&](const char* at, size_t bytes) { send_bytes(x.sending, at, bytes, message.to); });
  }

  void move_messages(const Call& call, std::span<const Outgoing> out,
                     std::span<const Incoming> in) {
    auto exchange = std::make_unique<Exchange>();
    Exchange& x = *exchange;
    for (const Incoming& message : in) {
      auto from = std::ranges::find(x.arriving, message.from, &Arriving::from);
      if (from == x.arriving.end()) {
        Arriving& added = x.arriving.emplace_back();
        added.from = message.from;
        added.buffer.resize(sizeof(Frame) + kShort);
        from = x.arriving.end() - 1;
      }
      from->messages.push_back(message);
    }
    try {
      for (Arriving& a : x.arriving) next_frame(a);
      for (const Outgoing& message : out) send(call, message, x);
      wait_for(call, [&] {
        (void)finished(x.sending);
        Pending pending = peers_of(x.sending);
        for (Arriving& a : x.arriving)
          if (!receive(call, a)) pending.push_back(a.from);
        return pending;
      });
    } catch (...) {
      (void)exchange.release();  // MPI may still write and read it
      throw;
    }
  }

  /// Until `pending()` names nobody.
  template <class F>
  void wait_for(const Call& call, const F& pending) {
    uint64_t before = completed_;
    double since = 0, looked = 0;  // when something moved last; 0: asked for when nothing does
    int tries = 0;
    for (Pending peers = pending(); !peers.empty(); peers = pending()) {
      if (std::exchange(before, completed_) != before) since = 0, tries = 0;
      if (++tries < kTries) continue;
      if (tries < kYields) {
        std::this_thread::yield();
        continue;
      }
      std::this_thread::sleep_for(kSleep);
      const double now = steady_seconds();
      if (since == 0) since = looked = now;
      if (now - looked < kLookEvery) continue;
      looked = now;
      look_after(call, peers, now - since);
    }
  }

  /// Nothing has moved for `seconds`.
  void look_after(const Call& call, Pending& peers, double seconds) {
    if (const std::string fault = peers_fault(); !fault.empty()) raise_fault(rank(), call, fault);
    std::ranges::sort(peers);
    peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
    for (const int peer : peers)
      if (watch_->has_left(peer))
        raise_gone(rank(), call, fmt::format("rank {}", peer), "it has left the group");
    if (timeout() <= 0 || seconds < timeout()) return;
    std::vector<std::string> states;
    for (const int peer : peers)
      states.push_back(fmt::format("rank {}, which is {}", peer, watch_->state_of(peer)));
    raise_timeout(rank(), call, fmt::format("{}", fmt::join(states, ", ")), timeout());
  }

  const std::unique_ptr<Transport> base_;
  const std::shared_ptr<Watch> watch_;
  MpiLibrary& mpi_;
  const MpiLibrary::Comm comm_;
  uint64_t completed_ = 0;  // requests
};

}  // namespace

GroupPtr mpi_group(const TcpOptions& options) {
  MpiLibrary& mpi = MpiLibrary::open();
  Connected base = connect_over_tcp(options);
  if (options.size == 1)
    return std::make_shared<ProcessGroup>(std::move(base.transport), options.group);
  base.transport->meet({.kind = CallKind::start_mpi});  // which waits for all, without an end
  mpi.initialize();
  mpi.add(base.watch);
  const int each = base.transport->ranks_per_host();
  std::unique_ptr<Transport> transport = MpiTransport::make(std::move(base), mpi);
  transport->set_ranks_per_host(each);
  return std::make_shared<ProcessGroup>(std::move(transport), options.group);
}

}  // namespace brim::dist
