// Between a rank's arrival at rank 0 and the moment when all have the table: rank 0 and those that
// came send each other heartbeats, twice a second. So one that is stopped or killed meanwhile is
// named within the time limit of the heartbeat, however late others are.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "dist/rendezvous.h"

namespace brim::dist {

/// The side of rank 0. Arrivals are by rank; those without a socket have not come.
class RendezvousHost {
 public:
  /// `at`: where rank 0 listens. `timeout`: seconds of silence after which a rank has stopped.
  RendezvousHost(Endpoint at, double timeout) : at_(std::move(at)), timeout_(timeout) {}

  /// Hears those that came, and tells them that others are yet to come; to be called a few times a
  /// second. Returns whether all of them are connected: one whose connection has ended may come
  /// again. Throws DistError naming one that has stopped, or has ended and did not come again.
  bool check_ranks(std::vector<Arrival>& arrivals, double now);
  /// Tells those that came why there will be no table.
  static void send_failure(std::span<Arrival> arrivals, const std::string& why);
  /// Gives the table to all, then the word to use it, and waits a moment for those that are slow to
  /// take it. Throws DistError naming one that did not take it, as the others learn, too.
  void send_table(std::vector<Arrival>& arrivals, std::span<const EndpointRow> table) const;

 private:
  struct RankState {
    double heard = 0;  // when, of steady_seconds(); 0: never
    double ended = 0;  // when the connection ended; 0: it has not
    std::string why_ended;
  };

  const Endpoint at_;
  const double timeout_;
  std::vector<RankState> ranks_;  // by rank
  double last_check_ = 0, last_beat_ = 0;
};

/// Another rank's side, once rank 0 has accepted it over `socket`: fills `table`. There is no
/// deadline here: rank 0 has one, and names who is missing. Throws DistError where rank 0 has been
/// silent for `timeout` seconds, has ended or has given up.
void wait_for_table(const Socket& socket, int rank, double timeout, std::span<EndpointRow> table);

}  // namespace brim::dist
