// Ranks that are processes: a connection between each two, over which messages go both ways at
// once.
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "core/check.h"
#include "core/clock.h"
#include "dist/rendezvous.h"
#include "dist/tcp_transport.h"

namespace brim::dist {
namespace {

/// How often sockets are tried again before the thread sleeps: a peer on this host answers sooner
/// than a sleeping thread wakes.
constexpr int kTries = 50;
/// Seconds after which a rank that waits looks whether another one is said to be gone.
constexpr double kLook = 0.1;

/// Messages in one direction between this rank and another one.
class Lane {
 public:
  void add(const Frame& frame, const void* data, size_t bytes) {
    messages_.push_back({frame, static_cast<char*>(const_cast<void*>(data)), bytes});
  }
  bool is_done() const { return at_ == messages_.size(); }

  /// What comes next: the rest of a frame and of its message, at most.
  std::array<iovec, 2> next() {
    Message& m = messages_[at_];
    const size_t of_frame = std::min(done_, sizeof(Frame)), of_data = done_ - of_frame;
    return {iovec{reinterpret_cast<char*>(&m.frame) + of_frame, sizeof(Frame) - of_frame},
            iovec{m.data ? m.data + of_data : nullptr, m.bytes - of_data}};
  }
  /// So many bytes were moved. Calls `arrived(frame, bytes)` for each frame that is whole.
  template <class F>
  void moved(size_t bytes, const F& arrived) {
    Message& m = messages_[at_];
    const bool whole_before = done_ >= sizeof(Frame);
    done_ += bytes;
    if (!whole_before && done_ >= sizeof(Frame)) arrived(m.frame, m.bytes);
    if (done_ < sizeof(Frame) + m.bytes) return;
    ++at_;
    done_ = 0;
  }

 private:
  struct Message {
    Frame frame;
    char* data;
    size_t bytes;
  };
  std::vector<Message> messages_;
  size_t at_ = 0, done_ = 0;  // the message, and how many of its bytes were moved
};

class TcpTransport final : public Transport {
 public:
  TcpTransport(int rank, std::vector<Socket> sockets, uint64_t mesh, std::string token,
               const GroupOptions& options)
      : Transport(rank, static_cast<int>(sockets.size())),
        sockets_(std::move(sockets)),
        mesh_(mesh),
        token_(std::move(token)),
        options_(options) {
    for (const Socket& socket : sockets_)
      hosts_.push_back(socket.is_open() ? other_end(socket).host : "");
  }

  /// From now on others are looked after.
  void set_watch(std::shared_ptr<Watch> watch) { watch_ = std::move(watch); }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (size_t peer = 0; peer < hosts_.size(); ++peer) all.push_back(name_of(peer));
    return all;
  }

  const char* backend() const override { return "tcp"; }

  void exchange(const Call& call, std::span<const Outgoing> out,
                std::span<const Incoming> in) override {
    if (watch_) watch_->enter(call);
    move_messages(call, out, in);
    if (watch_) watch_->leave();
  }

  std::unique_ptr<Transport> duplicate(const Call& call, double timeout) override {
    // Each listens anew, on the interface that leads to the others.
    size_t any = 0;
    while (any < sockets_.size() && !sockets_[any].is_open()) ++any;
    const uint64_t mesh = mesh_ * 1'000'003 + call.number;
    std::vector<Socket> sockets(sockets_.size());
    if (any < sockets_.size()) {
      std::vector<Endpoint> endpoints(sockets_.size());
      const Socket listener = listen_on({own_end(sockets_[any]).host, 0});
      const EndpointRow own = EndpointRow::of(own_end(listener));
      std::vector<EndpointRow> rows(sockets_.size());
      std::vector<Outgoing> out;
      std::vector<Incoming> in;
      for (int peer = 0; peer < size(); ++peer) {
        if (peer == rank()) continue;
        out.push_back({peer, &own, sizeof(own)});
        in.push_back({peer, &rows[static_cast<size_t>(peer)], sizeof(own)});
      }
      exchange(call, out, in);
      for (size_t r = 0; r < endpoints.size(); ++r) endpoints[r] = rows[r].endpoint();
      sockets = std::move(connect_meshes(rank(), endpoints, listener, mesh, 1, token_,
                                         options_.heartbeat_timeout)[0]);
    }
    GroupOptions options = options_;
    options.timeout = timeout;
    auto other = std::make_unique<TcpTransport>(rank(), std::move(sockets), mesh, token_, options);
    other->set_watch(watch_);
    return other;
  }

  void abort(const std::string& why) noexcept override {
    if (watch_) watch_->fail(why);
    for (Socket& socket : sockets_) socket.shut_down();
  }
  double timeout() const override { return options_.timeout; }
  std::string peers_fault() override { return watch_ ? watch_->fault() : ""; }

 private:
  void move_messages(const Call& call, std::span<const Outgoing> out,
                     std::span<const Incoming> in) {
    std::vector<Lane> sending(sockets_.size()), receiving(sockets_.size());
    for (const Outgoing& o : out)
      sending[static_cast<size_t>(o.to)].add({call, o.bytes}, o.data, o.bytes);
    for (const Incoming& i : in) receiving[static_cast<size_t>(i.from)].add({}, i.data, i.bytes);
    double last = 0;  // when something moved; 0: asked for when nothing does
    int tries = 0;
    while (true) {
      bool moved = false, done = true;
      for (size_t peer = 0; peer < sockets_.size(); ++peer) {
        const bool sent = send_next(call, peer, sending[peer]);
        const bool received = receive_next(call, peer, receiving[peer]);
        moved = moved || sent || received;
        done = done && sending[peer].is_done() && receiving[peer].is_done();
      }
      if (done) return;
      if (moved) {
        last = 0, tries = 0;
      } else if (++tries > kTries) {
        const double now = steady_seconds();
        if (last == 0) last = now;
        wait(call, sending, receiving, now - last);
      }
    }
  }

  std::string name_of(size_t peer) const { return fmt::format("rank {} ({})", peer, hosts_[peer]); }

  bool send_next(const Call& call, size_t peer, Lane& lane) {
    if (lane.is_done()) return false;
    std::array<iovec, 2> parts = lane.next();
    msghdr message{};
    message.msg_iov = parts.data(), message.msg_iovlen = parts.size();
    const ssize_t n = sendmsg(sockets_[peer].fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      lane.moved(static_cast<size_t>(n), [](const Frame&, size_t) {});
      return n > 0;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return false;
    raise_ended(call, peer, error_text(errno));
  }

  bool receive_next(const Call& call, size_t peer, Lane& lane) {
    if (lane.is_done()) return false;
    std::array<iovec, 2> parts = lane.next();
    msghdr message{};
    message.msg_iov = parts.data(), message.msg_iovlen = parts.size();
    const ssize_t n = recvmsg(sockets_[peer].fd(), &message, MSG_DONTWAIT);
    if (n > 0) {
      lane.moved(static_cast<size_t>(n), [&](const Frame& frame, size_t bytes) {
        if (!(frame.call == call) || frame.bytes != bytes)
          raise_mismatch(rank(), call, bytes, static_cast<int>(peer), frame.call, frame.bytes);
      });
      return true;
    }
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return false;
    raise_ended(call, peer, n == 0 ? "it closed the connection" : error_text(errno));
  }

  /// The connection to a peer has ended; who was the first to go, the watch may know.
  [[noreturn]] void raise_ended(const Call& call, size_t peer, const std::string& why) {
    const std::string fault = watch_ ? watch_->fault_soon() : "";
    if (!fault.empty()) raise_fault(rank(), call, fault);
    raise_gone(rank(), call, name_of(peer), why);
  }

  /// Sleeps until a socket is ready; nothing has moved for `seconds`.
  void wait(const Call& call, const std::vector<Lane>& sending, const std::vector<Lane>& receiving,
            double seconds) {
    std::vector<pollfd> entries;
    std::vector<std::string> peers;
    for (size_t peer = 0; peer < sockets_.size(); ++peer) {
      const short events = static_cast<short>((sending[peer].is_done() ? 0 : POLLOUT) |
                                              (receiving[peer].is_done() ? 0 : POLLIN));
      if (events == 0) continue;
      entries.push_back({sockets_[peer].fd(), events, 0});
      peers.push_back(name_of(peer) +
                      (watch_ ? ", which is " + watch_->state_of(static_cast<int>(peer)) : ""));
    }
    if (const std::string fault = watch_ ? watch_->fault() : ""; !fault.empty())
      raise_fault(rank(), call, fault);
    if (options_.timeout > 0 && seconds >= options_.timeout)
      raise_timeout(rank(), call, fmt::format("{}", fmt::join(peers, ", ")), options_.timeout);
    const double left = options_.timeout > 0 ? options_.timeout - seconds : kLook;
    (void)poll(entries.data(), entries.size(), static_cast<int>(std::min(left, kLook) * 1e3) + 1);
  }

  std::vector<Socket> sockets_;     // by rank; none for this one
  std::vector<std::string> hosts_;  // the same
  const uint64_t mesh_;
  const std::string token_;
  const GroupOptions options_;
  std::shared_ptr<Watch> watch_;
};

}  // namespace

Connected connect_over_tcp(const TcpOptions& options) {
  BRIM_CHECK(options.size > 0 && options.rank >= 0 && options.rank < options.size, ValueError,
             "[dist] rank {} of {}: must be 0 to size - 1", options.rank, options.size);
  BRIM_CHECK(options.token.size() < sizeof(Hello::token), ValueError,
             "[dist] a token of {} bytes; at most {}", options.token.size(),
             sizeof(Hello::token) - 1);
  BRIM_CHECK(options.size == 1 || !options.ports.empty(), ValueError,
             "[dist] no port for rank 0; give TcpOptions::ports");
  BRIM_CHECK(options.group.heartbeat_timeout > 1, ValueError,
             "[dist] heartbeat_timeout {}: must be more than 1 s", options.group.heartbeat_timeout);
  constexpr uint64_t kFirstMesh = 1;  // of the messages; that of the heartbeat comes behind it
  const auto transport_over = [&](std::vector<Socket> sockets) {
    return std::make_unique<TcpTransport>(options.rank, std::move(sockets), kFirstMesh,
                                          options.token, options.group);
  };
  if (options.size == 1) return {transport_over(std::vector<Socket>(1)), nullptr};
  Socket listener;
  const std::vector<Endpoint> endpoints = join(options, listener);
  std::vector<std::vector<Socket>> meshes =
      connect_meshes(options.rank, endpoints, listener, kFirstMesh, 2, options.token,
                     options.group.heartbeat_timeout);
  std::unique_ptr<TcpTransport> transport = transport_over(std::move(meshes[0]));
  const auto watch = std::make_shared<Watch>(std::move(meshes[1]), transport->names(),
                                             options.group.heartbeat_timeout);
  transport->set_watch(watch);
  find_ranks_per_host(*transport);
  return {std::move(transport), watch};
}

GroupPtr tcp_group(const TcpOptions& options) {
  return std::make_shared<ProcessGroup>(connect_over_tcp(options).transport, options.group);
}

}  // namespace brim::dist
