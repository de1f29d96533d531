// How processes find each other: rank 0 listens, the others come and say who they are (hello.h),
// and get the addresses of all; then each connects to those before it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <brim/dist/launch.h>

#include "dist/hello.h"
#include "dist/socket.h"

namespace brim::dist {

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

/// Where each rank listens, by rank. `listener` (of this rank's mesh) is made here.
std::vector<Endpoint> join(const TcpOptions& options, Socket& listener);
/// A connection to each rank but oneself in each of `count` meshes, numbered from `mesh`: by mesh,
/// then by rank. All ranks call it as soon as they know the endpoints, so one that does not answer
/// within `timeout` seconds has stopped: DistError names it.
std::vector<std::vector<Socket>> connect_meshes(int rank, const std::vector<Endpoint>& endpoints,
                                                const Socket& listener, uint64_t mesh, int count,
                                                const std::string& token, double timeout);

}  // namespace brim::dist
