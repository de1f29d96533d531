#include "dist/rendezvous.h"

#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <iterator>
#include <list>
#include <set>
#include <thread>

#include "core/check.h"
#include "core/clock.h"
#include "core/printable.h"
#include "dist/rendezvous_host.h"

namespace brim::dist {
namespace {

constexpr double kHelloSeconds = 5;     // that a connection has to say who it is
constexpr double kFirstPatience = 0.5;  // seconds that a listener has to answer at first
constexpr double kLongestPatience = 5;  // and in the end: each time it has twice as long
constexpr size_t kMaxPending = 256;     // that have not said who they are
constexpr const char* kAllHadMet = ", since all had met";

void answer(Socket& socket, const Fault& fault) {
  const Answer::Verdict verdict = fault.text.empty()   ? Answer::Verdict::accepted
                                  : fault.is_other_run ? Answer::Verdict::other_run
                                                       : Answer::Verdict::refused;
  std::string ignored;  // a rank that was accepted comes again where its connection ends
  (void)send_answer(socket, verdict, fault.text, steady_seconds() + 1, ignored);
}

/// Connections that have not said who they are.
struct PendingConnection {
  Socket socket;
  double until;
  Hello hello;
  size_t got = 0;
};

/// Reads on. Returns whether the connection is done with: `hello` is whole, or the connection is
/// closed.
bool read_hello(PendingConnection& connection) {
  std::string why;
  char* const to = reinterpret_cast<char*>(&connection.hello) + connection.got;
  const ptrdiff_t got = receive_some(connection.socket, to, sizeof(Hello) - connection.got, why);
  if (got < 0) connection.socket.close();
  connection.got += static_cast<size_t>(std::max<ptrdiff_t>(got, 0));
  return got < 0 || connection.got == sizeof(Hello);
}

/// Of ranks that did not come in time. `last_fault`: whom the listener turned away, or "".
[[noreturn]] void raise_missing(const std::set<int>& ranks, const Socket& listener,
                                const Expected& expected, const std::string& last_fault) {
  const std::string hint = last_fault.empty() ? "" : " (turned away: " + last_fault + ")";
  if (expected.mesh != 0)
    raise_silent(ranks, expected.rank, own_end(listener), expected.timeout, kAllHadMet + hint);
  raise<DistError>(
      "[dist] not all ranks came within {:g} s: {} did not come to rank {} at {}{}; were all "
      "processes started?",
      expected.timeout, names_of(ranks), expected.rank, own_end(listener).str(), hint);
}

/// Of ranks that are late: they may have stopped, where no launcher looks after them.
void name_late_ranks(const std::set<int>& ranks, const Socket& listener, const Expected& expected) {
  warn_on_stderr(fmt::format(
      "[dist] {} did not come to rank {} at {} within {:g} s, and will be waited for until {:g} s "
      "are over: not started yet, or stopped",
      names_of(ranks), expected.rank, own_end(listener).str(), expected.notice, expected.timeout));
}

}  // namespace

std::vector<std::vector<Arrival>> accept_ranks(const Socket& listener, const Expected& expected,
                                               RendezvousHost* host) {
  const auto meshes = static_cast<size_t>(expected.meshes);
  const double deadline = expected.begin + expected.timeout;
  std::vector<std::vector<Arrival>> arrivals(meshes);
  std::multiset<int> missing;  // ranks, once for each mesh
  for (std::vector<Arrival>& of_mesh : arrivals) {
    of_mesh.resize(static_cast<size_t>(expected.size));
    for (int r = expected.first; r < expected.size; ++r)
      if (r != expected.rank) missing.insert(r);
  }
  std::list<PendingConnection> pending;
  std::string last_fault;
  bool is_noticed = expected.notice == 0;
  while (true) {
    double now = steady_seconds();
    if (!is_noticed && !missing.empty() && now >= expected.begin + expected.notice) {
      name_late_ranks({missing.begin(), missing.end()}, listener, expected);
      is_noticed = true;
    }
    try {
      const bool are_all_connected = !host || host->check_ranks(arrivals[0], now);
      if (missing.empty() && are_all_connected) return arrivals;
      if (!missing.empty() && now >= deadline)
        raise_missing({missing.begin(), missing.end()}, listener, expected, last_fault);
    } catch (const DistError& e) {
      if (host) host->send_failure(arrivals[0], e.what());
      throw;
    }
    std::vector<pollfd> entries = {{listener.fd(), POLLIN, 0}};
    for (const PendingConnection& v : pending) entries.push_back({v.socket.fd(), POLLIN, 0});
    const double wait = std::clamp(deadline - now, 0.01, 0.2);
    (void)poll(entries.data(), entries.size(), static_cast<int>(wait * 1e3) + 1);
    now = steady_seconds();
    while (true) {
      Socket socket = accept_from(listener);
      if (!socket.is_open()) break;
      pending.push_back({std::move(socket), now + kHelloSeconds, {}, 0});
      if (pending.size() > kMaxPending) pending.pop_front();  // who has been silent longest
    }
    for (auto v = pending.begin(); v != pending.end();) {
      const bool done = read_hello(*v);
      if (done && v->socket.is_open()) {
        Fault fault = fault_of(v->hello, expected);
        Arrival* arrival = nullptr;
        if (fault.text.empty()) {
          arrival = &arrivals[v->hello.mesh - expected.mesh][static_cast<size_t>(v->hello.rank)];
          // One that did not wait for its answer comes again.
          if (arrival->socket.is_open() && !is_closed(arrival->socket))
            fault.text = fmt::format("rank {} is there already, from {}", v->hello.rank,
                                     other_end(arrival->socket).host);
        }
        answer(v->socket, fault);
        if (fault.text.empty()) {
          if (!arrival->socket.is_open()) missing.erase(missing.find(v->hello.rank));
          *arrival = {std::move(v->socket), v->hello};
        } else {
          last_fault = fault.text;
        }
      }
      v = done || now > v->until ? pending.erase(v) : std::next(v);
    }
  }
}

namespace {

/// Rank 0: the table of all, and a connection to each.
std::vector<Endpoint> host_table(const TcpOptions& options, const std::string& host, Socket& mesh,
                                 double deadline) {
  Socket listener;
  for (const uint16_t port : options.ports)
    if (listener = listen_on({host, port}); listener.is_open()) break;
  BRIM_CHECK(
      listener.is_open(), DistError,
      "[dist] rank 0 cannot listen on {}: its ports {} are in use; does another run use them? "
      "Choose another MASTER_PORT",
      host, fmt::join(options.ports, ", "));
  mesh = listen_on({host, 0});
  RendezvousHost rank_zero(own_end(listener), options.group.heartbeat_timeout);
  const Expected expected{.rank = 0,
                          .size = options.size,
                          .token = options.token,
                          .begin = deadline - options.join_timeout,
                          .timeout = options.join_timeout,
                          .notice = options.group.heartbeat_timeout};
  std::vector<Arrival> arrivals = std::move(accept_ranks(listener, expected, &rank_zero)[0]);
  std::vector<Endpoint> endpoints = {own_end(mesh)};
  for (size_t r = 1; r < arrivals.size(); ++r)
    endpoints.push_back(
        {other_end(arrivals[r].socket).host, static_cast<uint16_t>(arrivals[r].hello.port)});
  std::vector<EndpointRow> table;
  for (const Endpoint& endpoint : endpoints) table.push_back(EndpointRow::of(endpoint));
  rank_zero.send_table(arrivals, table);
  return endpoints;
}

/// Another rank: the table from rank 0.
std::vector<Endpoint> fetch_table(const TcpOptions& options, const std::string& host, Socket& mesh,
                                  double deadline) {
  std::string why = "no answer", turned_away;
  Endpoint last{host, 0};
  // Who listens at a port may be a stranger that never answers.
  for (double patience = kFirstPatience; steady_seconds() < deadline;
       patience = std::min(2 * patience, kLongestPatience)) {
    for (const uint16_t port : options.ports) {
      last = {host, port};
      const double seconds = std::min(patience, deadline - steady_seconds());
      if (seconds <= 0) break;
      const Socket socket = connect_to(last, seconds, why);
      if (!socket.is_open()) continue;
      mesh = listen_on({own_end(socket).host, 0});  // on the interface that leads there
      const Hello hello =
          make_hello(options.rank, options.size, own_end(mesh).port, 0, options.token);
      const HandshakeResult result = handshake(socket, hello, steady_seconds() + seconds, why);
      if (result == HandshakeResult::other_run) turned_away = why;
      if (result != HandshakeResult::accepted) continue;
      std::vector<EndpointRow> table(static_cast<size_t>(options.size));
      wait_for_table(socket, options.rank, options.group.heartbeat_timeout, table);
      std::vector<Endpoint> endpoints;
      for (const EndpointRow& row : table) endpoints.push_back(row.endpoint());
      return endpoints;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  raise<DistError>(
      "[dist] rank {} finds no rank 0 at {} within {:g} s: {}; is it running, and is MASTER_ADDR "
      "its host?",
      options.rank, last.str(), options.join_timeout, turned_away.empty() ? why : turned_away);
}

}  // namespace

std::vector<Endpoint> join(const TcpOptions& options, Socket& listener) {
  const double deadline = steady_seconds() + options.join_timeout;
  const std::string host = resolve(options.address);
  return options.rank == 0 ? host_table(options, host, listener, deadline)
                           : fetch_table(options, host, listener, deadline);
}

std::vector<std::vector<Socket>> connect_meshes(int rank, const std::vector<Endpoint>& endpoints,
                                                const Socket& listener, uint64_t mesh, int count,
                                                const std::string& token, double timeout) {
  const int size = static_cast<int>(endpoints.size());
  const double begin = steady_seconds(), deadline = begin + timeout;
  std::vector<std::vector<Socket>> sockets(static_cast<size_t>(count));
  for (std::vector<Socket>& of_mesh : sockets) of_mesh.resize(endpoints.size());
  // Peer by peer: so those before one that has stopped miss nobody else.
  for (int peer = 0; peer < rank; ++peer) {
    const Endpoint& at = endpoints[static_cast<size_t>(peer)];
    for (size_t m = 0; m < sockets.size(); ++m) {
      const Hello hello = make_hello(rank, size, 0, mesh + m, token);
      Socket& socket = sockets[m][static_cast<size_t>(peer)];
      std::string why;
      socket = connect_to(at, std::max(deadline - steady_seconds(), 0.1), why);
      const bool accepted =
          socket.is_open() && handshake(socket, hello, deadline, why) == HandshakeResult::accepted;
      if (!accepted && steady_seconds() >= deadline)
        raise_silent({peer}, rank, own_end(listener), timeout, kAllHadMet);
      BRIM_CHECK(accepted, DistError, "[dist] rank {} cannot reach rank {} at {}: {}", rank, peer,
                 at.str(), why);
    }
  }
  std::vector<std::vector<Arrival>> arrivals = accept_ranks(listener, {.rank = rank,
                                                                       .size = size,
                                                                       .first = rank + 1,
                                                                       .mesh = mesh,
                                                                       .meshes = count,
                                                                       .token = token,
                                                                       .begin = begin,
                                                                       .timeout = timeout});
  for (size_t m = 0; m < sockets.size(); ++m)
    for (size_t peer = static_cast<size_t>(rank) + 1; peer < endpoints.size(); ++peer)
      sockets[m][peer] = std::move(arrivals[m][peer].socket);
  return sockets;
}

}  // namespace brim::dist
