// How processes find each other: rank 0 listens, the others come and say who they are, and get the
// addresses of all; then each connects to those before it. What comes in over a socket is trusted
// with nothing: messages have one size, and whoever does not know the run's token is turned away.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <brim/dist/launch.h>

#include "dist/socket.h"

namespace brim::dist {

/// The first message of a connection, as it lies on the wire.
struct Hello {
  char magic[8] = {'b', 'r', 'i', 'm', ' ', '1', 0, 0};
  uint32_t byte_order = 0x01020304;
  int32_t rank = 0;
  int32_t size = 0;
  uint32_t port = 0;  ///< where the rank listens for others
  uint64_t mesh = 0;  ///< 0: it joins the run; else which of its meshes
  char build[64] = {};
  char token[64] = {};
};
static_assert(sizeof(Hello) == 160);

/// What comes back; and, to a rank that joins the run, what comes then.
struct Answer {
  enum class Verdict : uint32_t {
    refused,
    accepted,
    other_run,
    waiting,   ///< others are yet to come
    complete,  ///< the table of all follows
    failed,    ///< no table will come
  };
  Verdict verdict = Verdict::refused;
  char text[252] = {};  ///< why not
};
/// What a hello is refused for.
struct Fault {
  std::string text;  ///< "" if it is not
  bool is_other_run = false;
};

/// Where a rank listens, on the wire.
struct EndpointRow {
  char host[56] = {};
  uint64_t port = 0;
  static EndpointRow of(const Endpoint& endpoint);
  Endpoint endpoint() const;
};
static_assert(sizeof(EndpointRow) == 64);

/// What a listener expects.
struct Expected {
  int rank = 0;  ///< who listens
  int size = 0;
  int first = 0;  ///< ranks from this one on are to come, but not the listener
  uint64_t mesh = 0;
  int meshes = 1;  ///< how many, numbered from `mesh`; each rank comes once to each
  std::string token;
  double begin = 0;    ///< of the wait, of steady_seconds()
  double timeout = 0;  ///< seconds from then on, until all must have come
};

Hello make_hello(int rank, int size, uint16_t port, uint64_t mesh, const std::string& token);
Fault fault_of(const Hello& hello, const Expected& expected);

/// A rank that came.
struct Arrival {
  Socket socket;
  Hello hello;
};
class RendezvousHost;
/// Accepts until all are there that are expected; element [m][r] is rank r's in the m-th mesh.
/// Strangers are answered and closed. `host`: for those of the first mesh that are there already.
/// Throws DistError at the timeout, naming who did not come.
std::vector<std::vector<Arrival>> accept_ranks(const Socket& listener, const Expected& expected,
                                               RendezvousHost* host = nullptr);

/// Sends an answer with what fits of `text`, whole by the deadline (0: at once), or ends the
/// connection: what came behind a part of an answer could not be read. Returns whether it was sent;
/// `why`, where not.
bool send_answer(Socket& socket, Answer::Verdict verdict, const std::string& text, double deadline,
                 std::string& why);
/// The answer's text, printable.
std::string text_of(const Answer& answer);
/// Of ranks that do not answer rank `rank`, which is at `at`, any more. `when`: ", since all had
/// met", or how far they were. Throws DistError.
[[noreturn]] void raise_silent(const std::set<int>& ranks, int rank, const Endpoint& at,
                               double seconds, const std::string& when);

/// What comes of a handshake.
enum class HandshakeResult : uint8_t {
  accepted,
  no_answer,
  other_run,  ///< which may have come to a port first
};
/// Says hello over a connection. `why`, where it is not accepted; throws DistError where a rank of
/// the same run refuses.
HandshakeResult handshake(const Socket& socket, const Hello& hello, double deadline,
                          std::string& why);

/// Where each rank listens, by rank. `listener` (of this rank's mesh) is made here.
std::vector<Endpoint> join(const TcpOptions& options, Socket& listener);
/// A connection to each rank but oneself in each of `count` meshes, numbered from `mesh`: by mesh,
/// then by rank. All ranks call it as soon as they know the endpoints, so one that does not answer
/// within `timeout` seconds has stopped: DistError names it.
std::vector<std::vector<Socket>> connect_meshes(int rank, const std::vector<Endpoint>& endpoints,
                                                const Socket& listener, uint64_t mesh, int count,
                                                const std::string& token, double timeout);

}  // namespace brim::dist
