// What processes say to each other as they meet. What comes in over a socket is trusted with
// nothing: messages have one size, and whoever does not know the run's token is turned away.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "dist/socket.h"

namespace brim::dist {

/// The first message of a connection, as it lies on the wire.
struct Hello {
  char magic[8] = {'b', 'r', 'i', 'm', ' ', '2', 0, 0};
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
    table,     ///< it follows, and is to be used when all have it
    complete,  ///< all have it
    failed,    ///< the ranks will not meet
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
  double notice = 0;   ///< the same, until those that have not are named on stderr; 0: never
};

Hello make_hello(int rank, int size, uint16_t port, uint64_t mesh, const std::string& token);
Fault fault_of(const Hello& hello, const Expected& expected);

/// Sends an answer with what fits of `text`, whole by the deadline (0: at once), or ends the
/// connection: what came behind a part of an answer could not be read. Returns whether it was sent;
/// `why`, where not.
bool send_answer(Socket& socket, Answer::Verdict verdict, const std::string& text, double deadline,
                 std::string& why);
/// The answer's text, printable.
std::string text_of(const Answer& answer);
/// "rank 1" or "ranks 1, 3".
std::string names_of(const std::set<int>& ranks);
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

}  // namespace brim::dist
