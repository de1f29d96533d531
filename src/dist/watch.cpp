#include "dist/watch.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/check.h"
#include "core/clock.h"
#include "core/printable.h"
#include "core/start_thread.h"

namespace brim::dist {
namespace {

constexpr double kSoon = 0.5;  // seconds until a reason has come

}  // namespace

Watch::Watch(std::vector<Socket> sockets, std::vector<std::string> names, double heartbeat_timeout)
    : heartbeat_timeout_(heartbeat_timeout), peers_(sockets.size()) {
  BRIM_CHECK(pipe2(wake_, O_CLOEXEC | O_NONBLOCK) == 0, Error, "[dist] no pipe: {}",
             error_text(errno));
  since_ = steady_seconds();
  for (size_t r = 0; r < peers_.size(); ++r) {
    peers_[r].socket = std::move(sockets[r]);
    peers_[r].name = std::move(names[r]);
    peers_[r].heard = since_;
  }
  thread_ = start_thread([this] { return std::thread([this] { loop(); }); });
}

Watch::~Watch() {
  take_leave();
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  (void)!write(wake_[1], "", 1);
  thread_.join();
  for (const int end : wake_) close(end);
}

void Watch::enter(const Call& call) {
  const std::lock_guard lock(mutex_);
  call_ = call;
  ++inside_;
  since_ = steady_seconds();
}

void Watch::leave() {
  const std::lock_guard lock(mutex_);
  --inside_;
  since_ = steady_seconds();
}

std::string Watch::fault() {
  const std::lock_guard lock(mutex_);
  return fault_;
}

std::string Watch::fault_soon() {
  for (const double end = steady_seconds() + kSoon; steady_seconds() < end;) {
    if (std::string text = fault(); !text.empty()) return text;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return fault();
}

void Watch::fail(const std::string& why) noexcept {
  const std::lock_guard lock(mutex_);
  if (std::exchange(failed_, true)) return;
  send_to_all(Kind::failed, why);
}

void Watch::take_leave() noexcept {
  const std::lock_guard lock(mutex_);
  if (!failed_) send_to_all(Kind::leaves, "");
}

bool Watch::have_all_left() {
  const std::lock_guard lock(mutex_);
  return std::ranges::none_of(peers_,
                              [](const Peer& peer) { return peer.socket.is_open() && !peer.left; });
}

std::string Watch::state_of(int rank) {
  const std::lock_guard lock(mutex_);
  const Peer& peer = peers_[static_cast<size_t>(rank)];
  const double seconds = peer.last.seconds + steady_seconds() - peer.heard;
  if (peer.last.call == Call()) return fmt::format("in no call yet, for {:.1f} s", seconds);
  return peer.last.inside
             ? fmt::format("in {}, for {:.1f} s", peer.last.call.str(), seconds)
             : fmt::format("in user code, {:.1f} s after {}", seconds, peer.last.call.str());
}

bool Watch::has_left(int rank) {
  const std::lock_guard lock(mutex_);
  return peers_[static_cast<size_t>(rank)].left;
}

void Watch::note(const std::string& fault) {
  if (fault_.empty()) fault_ = fault;
}

void Watch::send_to_all(Kind kind, const std::string& text) noexcept {
  Message message;
  message.kind = kind;
  message.inside = inside_ > 0;
  message.call = call_;
  message.seconds = steady_seconds() - since_;
  std::memcpy(message.text, text.data(), std::min(text.size(), sizeof(message.text) - 1));
  for (Peer& peer : peers_) {
    if (!peer.socket.is_open()) continue;  // one that has left may wait until this rank leaves, too
    // A peer that does not read is silent to us, too; a message is sent whole, or the connection
    // ends.
    std::string why;
    if (!send_all(peer.socket, &message, sizeof(message), 0, why)) peer.socket.shut_down();
  }
}

void Watch::listen(size_t rank, double now) {
  Peer& peer = peers_[rank];
  while (peer.socket.is_open()) {
    std::string why;
    const ptrdiff_t got =
        receive_some(peer.socket, reinterpret_cast<char*>(&peer.arriving) + peer.arrived,
                     sizeof(Message) - peer.arrived, why);
    if (got == 0) return;
    if (got < 0) {
      peer.socket.close();
      if (!peer.left)
        note(fmt::format("{} has ended without a word ({}): it was killed, or crashed", peer.name,
                         why));
      return;
    }
    peer.arrived += static_cast<size_t>(got);
    if (peer.arrived < sizeof(Message)) return;
    peer.arrived = 0;
    peer.heard = now;
    peer.last = peer.arriving;
    if (peer.last.kind == Kind::leaves) peer.left = true;
    if (peer.last.kind == Kind::failed) {
      peer.left = true;
      note(fmt::format(
          "{} has given up: {}", peer.name,
          printable(std::string(peer.last.text, strnlen(peer.last.text, sizeof(peer.last.text))))));
    }
  }
}

void Watch::loop() {
  double beat = 0, before = steady_seconds();
  while (true) {
    std::vector<pollfd> entries = {{wake_[0], POLLIN, 0}};
    {
      const std::lock_guard lock(mutex_);
      if (ending_) return;
      const double now = steady_seconds();
      for (size_t r = 0; r < peers_.size(); ++r) {
        listen(r, now);
        if (peers_[r].socket.is_open()) entries.push_back({peers_[r].socket.fd(), POLLIN, 0});
      }
      if (now - before > kAsleep)
        for (Peer& peer : peers_) peer.heard = now;
      before = now;
      for (Peer& peer : peers_) {
        if (!peer.socket.is_open() || peer.left || now - peer.heard < heartbeat_timeout_) continue;
        note(fmt::format("{} has not been heard of for {:.1f} s: it has stopped, or its host has",
                         peer.name, now - peer.heard));
      }
      if (now - beat >= kHeartbeat && !failed_) {
        beat = now;
        send_to_all(Kind::beat, "");
      }
    }
    (void)poll(entries.data(), entries.size(), static_cast<int>(kHeartbeat / 2 * 1e3));
  }
}

}  // namespace brim::dist
