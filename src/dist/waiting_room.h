// Between a rank's arrival at rank 0 and the table of all: rank 0 and those that came say twice a
// second that they live. So one that is stopped or killed meanwhile is named within the heartbeat's
// time, however late others are.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "dist/rendezvous.h"

namespace brim::dist {

/// Rank 0's side. Arrivals are by rank; those without a socket have not come.
class WaitingRoom {
 public:
  /// `at`: where rank 0 listens. `timeout`: seconds of silence after which a rank has stopped.
  WaitingRoom(Endpoint at, double timeout) : at_(std::move(at)), timeout_(timeout) {}

  /// Hears those that came, and tells them that others are yet to come; to be called a few times a
  /// second. Returns whether all of them are connected: one whose connection has ended may come
  /// again. Throws DistError naming one that has stopped, or has ended and did not come again.
  bool look_after(std::vector<Arrival>& arrivals, double now);
  /// Tells those that came why there will be no table.
  static void give_up(std::span<Arrival> arrivals, const std::string& why);
  /// Gives the table to all, and waits a moment for those that are slow to take it. Throws
  /// DistError naming one that did not take it, of which it tells those that have no table yet.
  void hand_out(std::vector<Arrival>& arrivals, std::span<const EndpointRow> table) const;

 private:
  struct Guest {
    double heard = 0;  // when, of steady_seconds(); 0: never
    double left = 0;   // when the connection ended; 0: it has not
    std::string why;   // it ended
  };

  const Endpoint at_;
  const double timeout_;
  std::vector<Guest> guests_;  // by rank
  double before_ = 0, beat_ = 0;
};

/// Another rank's side, once rank 0 has accepted it over `socket`: fills `table`. There is no
/// deadline here: rank 0 has one, and names who is missing. Throws DistError where rank 0 has been
/// silent for `timeout` seconds, has ended or has given up.
void wait_for_table(const Socket& socket, int rank, double timeout, std::span<EndpointRow> table);

}  // namespace brim::dist
