// The heartbeat beside the collectives: each process tells the others twice a second that it lives
// and what it is in, over connections of its own. So one that was killed, has stopped or has given
// up is named within seconds, even while nobody waits for it.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "dist/socket.h"
#include "dist/transport.h"

namespace brim::dist {

constexpr double kHeartbeat = 0.5;  ///< seconds from one sign of life to the next
constexpr double kAsleep = 1.5;  ///< this process itself was stopped, if its thread comes so late

class Watch {
 public:
  /// `sockets`: to each rank but this one, by rank. `names`: for messages, "rank 1 (10.0.0.2)".
  Watch(std::vector<Socket> sockets, std::vector<std::string> names, double heartbeat_timeout);
  /// Takes leave of the others.
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// What this rank is in from now on.
  void enter(const Call& call);
  void leave();
  /// The first thing that went wrong with another rank, or ""; what has been told by then.
  std::string fault();
  /// The same, but waits a moment for what will be told: connections end before their reason comes.
  std::string fault_soon();
  /// Tells the others why this rank gives up.
  void fail(const std::string& why) noexcept;
  /// Tells the others that this rank leaves as it should; as the end of this object does.
  void take_leave() noexcept;
  /// Whether all others have told that they leave, as they should or not.
  bool have_all_left();
  /// What a rank was in when it was last heard of: "in all_reduce of 3 f32, call 7, for 2.1 s".
  std::string state_of(int rank);
  /// Whether it has told that it leaves, as it should or not.
  bool has_left(int rank);

 private:
  enum class Kind : uint32_t { beat, failed, leaves };
  /// As it lies on the wire.
  struct Message {
    Kind kind = Kind::beat;
    uint32_t inside = 0;  ///< of `call`; else it is what was done last
    Call call;
    double seconds = 0;  ///< since that began, or ended
    char text[448] = {};
  };
  static_assert(sizeof(Message) == 504);
  struct Peer {
    Socket socket;
    std::string name;
    Message last, arriving;
    size_t arrived = 0;  // bytes of `arriving`
    double heard = 0;    // when, of steady_seconds()
    bool left = false;
  };

  void loop();
  /// Takes in what has come from a peer.
  void listen(size_t rank, double now);
  void send_to_all(Kind kind, const std::string& text) noexcept;
  void note(const std::string& fault);

  const double heartbeat_timeout_;
  std::mutex mutex_;  // of all that follows
  std::vector<Peer> peers_;
  Call call_;
  int inside_ = 0;  // calls of this rank's threads; the newest is call_
  bool ending_ = false, failed_ = false;
  double since_ = 0;
  std::string fault_;
  int wake_[2] = {-1, -1};  // a pipe that ends the thread's wait
  std::thread thread_;
};

}  // namespace brim::dist
