#include "dist/rendezvous_host.h"

#include <poll.h>

#include <chrono>
#include <thread>

#include "core/check.h"
#include "core/clock.h"
#include "dist/watch.h"

namespace brim::dist {
namespace {

constexpr double kReconnectSeconds = 2;  // for a rank whose connection has ended
constexpr double kReadSeconds = 0.5;     // for a rank to read the table
constexpr const char* kBeforeAllMet = ", before all had met";

}  // namespace

bool RendezvousHost::check_ranks(std::vector<Arrival>& arrivals, double now) {
  ranks_.resize(arrivals.size());
  const bool slept = now - last_check_ > kAsleep;  // this process itself was stopped
  const bool is_time = now - last_beat_ >= kHeartbeat;
  last_check_ = now;
  if (is_time) last_beat_ = now;
  bool are_all_connected = true;
  for (size_t r = 0; r < arrivals.size(); ++r) {
    Socket& socket = arrivals[r].socket;
    RankState& rank = ranks_[r];
    if (!socket.is_open()) continue;
    char beats[64];
    std::string why;
    ptrdiff_t got = 0;
    bool is_heard = false;
    while ((got = receive_some(socket, beats, sizeof(beats), why)) > 0) is_heard = true;
    if (got < 0) {  // it may have missed the answer, and comes again
      if (rank.ended == 0) rank.why_ended = why;
      if (rank.ended == 0 || slept) rank.ended = now;
      BRIM_CHECK(now - rank.ended < kReconnectSeconds, DistError,
                 "[dist] rank {} came to rank 0 at {} and has ended without a word ({}){}: it was "
                 "killed, or crashed",
                 r, at_.str(), rank.why_ended, kBeforeAllMet);
      are_all_connected = false;
      continue;
    }
    if (is_heard || slept || rank.heard == 0 || rank.ended > 0) rank.heard = now;
    rank.ended = 0;
    if (now - rank.heard >= timeout_)
      raise_silent({static_cast<int>(r)}, 0, at_, now - rank.heard, kBeforeAllMet);
    if (is_time && !send_answer(socket, Answer::Verdict::waiting, "", 0, why)) {
      rank.ended = now;
      rank.why_ended = why;
      are_all_connected = false;
    }
  }
  return are_all_connected;
}

void RendezvousHost::send_failure(std::span<Arrival> arrivals, const std::string& why) {
  std::string ignored;  // who has ended needs no reason
  for (Arrival& arrival : arrivals)
    if (arrival.socket.is_open())
      (void)send_answer(arrival.socket, Answer::Verdict::failed, why, 0, ignored);
}

void RendezvousHost::send_table(std::vector<Arrival>& arrivals,
                                std::span<const EndpointRow> table) const {
  // Those that have the table hear nothing meanwhile.
  const double deadline = steady_seconds() + timeout_ / 2;
  for (const bool all_have_it : {false, true}) {
    for (size_t r = 0; r < arrivals.size(); ++r) {
      Socket& socket = arrivals[r].socket;
      if (!socket.is_open()) continue;
      std::string why;
      const auto verdict = all_have_it ? Answer::Verdict::complete : Answer::Verdict::table;
      if (send_answer(socket, verdict, "", deadline, why) &&
          (all_have_it || send_all(socket, table.data(), table.size_bytes(), deadline, why)))
        continue;
      const std::string text = fmt::format(
          "[dist] rank {} came to rank 0 at {} and did not take the addresses of all ({}): it has "
          "stopped, was killed, or crashed",
          r, at_.str(), why);
      socket.close();
      send_failure(arrivals, text);
      throw DistError(text);
    }
  }
  // A connection that is closed with beats in it takes what was sent along.
  const double until = steady_seconds() + kReadSeconds;
  for (const Arrival& arrival : arrivals) {
    char beats[64];
    std::string why;
    while (arrival.socket.is_open() && steady_seconds() < until &&
           receive_some(arrival.socket, beats, sizeof(beats), why) >= 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void wait_for_table(const Socket& socket, int rank, double timeout, std::span<EndpointRow> table) {
  const Endpoint at = other_end(socket);
  const auto fail = [&](const std::string& why) {
    raise<DistError>("[dist] rank {} waits for the other ranks, and rank 0 at {}: {}", rank,
                     at.str(), why);
  };
  Answer message;
  size_t got = 0;
  bool has_table = false;
  double before = steady_seconds(), heard = before, beat = 0;
  while (true) {
    const double now = steady_seconds();
    if (now - before > kAsleep) heard = now;  // this process itself was stopped
    before = now;
    std::string why;
    const ptrdiff_t more =
        receive_some(socket, reinterpret_cast<char*>(&message) + got, sizeof(message) - got, why);
    if (more < 0) fail(why);
    if (more > 0) heard = now;
    got += static_cast<size_t>(more);
    if (got == sizeof(message)) {
      got = 0;
      if (message.verdict == Answer::Verdict::failed) fail("it has given up: " + text_of(message));
      if (message.verdict == Answer::Verdict::table) {
        if (!receive_all(socket, table.data(), table.size_bytes(), now + timeout, why)) fail(why);
        has_table = true;
      }
      if (message.verdict != Answer::Verdict::complete) continue;
      if (!has_table) fail("it sent no addresses");
      return;
    }
    if (now - heard >= timeout)
      raise_silent({0}, rank, own_end(socket), now - heard, kBeforeAllMet);
    if (now - beat >= kHeartbeat) {
      beat = now;
      (void)send_all(socket, "", 1, 0, why);
    }
    pollfd entry{socket.fd(), POLLIN, 0};
    (void)poll(&entry, 1, static_cast<int>(kHeartbeat / 2 * 1e3));
  }
}

}  // namespace brim::dist
