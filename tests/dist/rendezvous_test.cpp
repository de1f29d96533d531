// Ranks that find each other, and whoever else comes to the door.
#include "dist/rendezvous.h"

#include <brim/dist/launch.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include "core/clock.h"
#include "dist/rendezvous_host.h"
#include "dist/run_ranks.h"

namespace brim::dist {
namespace {

TcpOptions options_of(int rank, int size, const std::vector<uint16_t>& ports) {
  return {.rank = rank, .size = size, .ports = ports, .token = "secret", .join_timeout = 10};
}

/// What each of `size` ranks got, where `change` spoils the options of some.
std::vector<std::string> outcomes(int size, const std::function<void(int, TcpOptions&)>& change) {
  const std::vector<uint16_t> ports = test_ports();
  return failures_of(size, [&](int rank) {
    TcpOptions options = options_of(rank, size, ports);
    options.join_timeout = 3;
    change(rank, options);
    (void)tcp_group(options);
  });
}

TEST(Rendezvous, OthersAreTurnedAway) {
  struct Case {
    const char* says;
    std::function<void(TcpOptions&)> change;
  };
  const Case cases[] = {
      {"the token differs", [](TcpOptions& o) { o.token = "other"; }},
      {"rank 2 is in a world of 4, and rank 0 in one of 3", [](TcpOptions& o) { o.size = 4; }},
      {"rank 1 is there already, from 127.0.0.1", [](TcpOptions& o) { o.rank = 1; }},
      {"rank 0 cannot listen on",
       [](TcpOptions& o) {
         o.rank = 0;
         o.ports.resize(1);
       }},
  };
  for (const Case& c : cases) {
    const std::vector<std::string> failures = outcomes(3, [&](int rank, TcpOptions& o) {
      if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      if (rank != 2) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      c.change(o);
    });
    EXPECT_TRUE(has(failures[2], c.says)) << failures[2];
    EXPECT_TRUE(has(failures[0], "rank 2 did not come to rank 0")) << c.says << ": " << failures[0];
    EXPECT_TRUE(has(failures[1], "waits for the other ranks")) << failures[1];
  }
}

TEST(Rendezvous, StrangersHoldNothingUp) {
  const std::vector<uint16_t> ports = test_ports();
  std::atomic<bool> done{false};
  std::thread strangers([&] {
    std::mt19937 random(1);
    std::vector<Socket> silent;
    while (!done) {
      std::string why;
      Socket socket = connect_to({"127.0.0.1", ports[0]}, 1, why);
      if (!socket.is_open()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        continue;
      }
      Hello hello = make_hello(1, 3, 0, 0, "guess");
      char bytes[sizeof(Hello)];
      std::memcpy(bytes, &hello, sizeof(hello));
      switch (random() % 4) {
        case 0:
          for (char& byte : bytes) byte = static_cast<char>(random());
          (void)send_all(socket, bytes, sizeof(bytes), steady_seconds() + 1, why);
          break;
        case 1:
          (void)send_all(socket, bytes, 17, steady_seconds() + 1, why);
          break;
        case 2:
          if (silent.size() < 20) silent.push_back(std::move(socket));
          break;
        default:
          bytes[random() % sizeof(bytes)] ^= 1;
          (void)send_all(socket, bytes, sizeof(bytes), steady_seconds() + 1, why);
      }
    }
  });
  const std::vector<std::string> failures = failures_of(3, [&](int rank) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100 * (2 - rank)));
    const GroupPtr group = tcp_group(options_of(rank, 3, ports));
    group->barrier();
  });
  done = true;
  strangers.join();
  for (const std::string& failure : failures) EXPECT_EQ(failure, "");
}

TEST(Rendezvous, RanksThatStopBeforeTheHeartbeatAreNamed) {
  for (const int stopped : {0, 1, 3}) {
    const std::vector<uint16_t> ports = test_ports();
    const std::vector<std::string> failures = failures_of(4, [&](int rank) {
      TcpOptions options = options_of(rank, 4, ports);
      options.group.heartbeat_timeout = 1.1;
      if (rank != stopped) return (void)tcp_group(options);
      Socket mesh;
      (void)join(options, mesh);  // it listens, and says nothing
      std::this_thread::sleep_for(std::chrono::seconds(2));
    });
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == stopped) continue;
      const std::string& failure = failures[static_cast<size_t>(rank)];
      EXPECT_TRUE(has(failure, "rank " + std::to_string(stopped) + " has not been heard of for"))
          << rank << ": " << failure;
    }
  }
}

/// Joins until that fails, which sets `done`.
void join_until(const TcpOptions& options, std::atomic<bool>& done) {
  Socket mesh;
  try {
    (void)join(options, mesh);
  } catch (const DistError&) {
    done = true;
    throw;
  }
}
void wait_until(const std::atomic<bool>& done) {
  while (!done) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

/// A connection to rank 0 at a port, which has accepted it as that of `rank` of `size`.
Socket accepted_as(int rank, int size, uint16_t port) {
  std::string why;
  Socket socket;
  while (!socket.is_open()) socket = connect_to({"127.0.0.1", port}, 1, why);
  const Hello hello = make_hello(rank, size, 80, 0, "secret");
  EXPECT_EQ(handshake(socket, hello, steady_seconds() + 10, why), HandshakeResult::accepted) << why;
  return socket;
}

TEST(Rendezvous, RanksThatStopOrEndBeforeAllHaveComeAreNamed) {
  for (const bool ends : {false, true}) {
    const std::vector<uint16_t> ports = test_ports();
    std::atomic<bool> done{false};
    const std::vector<std::string> failures = failures_of(3, [&](int rank) {
      TcpOptions options = options_of(rank, 3, ports);
      options.size = 4;  // rank 3 never comes
      options.join_timeout = 60;
      options.group.heartbeat_timeout = 1.1;
      if (rank < 2) return join_until(options, done);
      const Socket socket = accepted_as(2, 4, ports[0]);
      if (!ends) wait_until(done);
    });
    const char* const says =
        ends ? "rank 2 came to rank 0 at 127.0.0.1" : "rank 2 has not been heard of for";
    EXPECT_TRUE(has(failures[0], says)) << failures[0];
    EXPECT_TRUE(has(failures[0], "before all had met")) << failures[0];
    EXPECT_TRUE(has(failures[1], "it has given up: [dist] rank 2")) << failures[1];
  }
}

TEST(Rendezvous, RanksWhoseConnectionEndsMayComeAgain) {
  const std::vector<uint16_t> ports = test_ports();
  const std::vector<std::string> failures = failures_of(2, [&](int rank) {
    if (rank == 1) {
      (void)accepted_as(1, 3, ports[0]);
      // Nobody is missing from here on, but rank 1's connection has ended.
      const Socket second = accepted_as(2, 3, ports[0]);
      Socket mesh;
      const std::vector<Endpoint> endpoints = join(options_of(1, 3, ports), mesh);
      EXPECT_EQ(endpoints.at(1).str(), own_end(mesh).str());
      std::vector<EndpointRow> table(3);
      wait_for_table(second, 2, 10, table);
      EXPECT_EQ(table[1].endpoint().str(), own_end(mesh).str());
      return;
    }
    Socket mesh;
    EXPECT_EQ(join(options_of(0, 3, ports), mesh).size(), 3U);
  });
  for (const std::string& failure : failures) EXPECT_EQ(failure, "");
}

TEST(Rendezvous, RanksThatEndAreNamedWhenAllOthersHaveCome) {
  const std::vector<uint16_t> ports = test_ports();
  std::atomic<bool> has_ended{false};
  const std::vector<std::string> failures = failures_of(3, [&](int rank) {
    if (rank == 1) {
      (void)accepted_as(1, 3, ports[0]);
      has_ended = true;
      return;
    }
    if (rank == 2) wait_until(has_ended);
    Socket mesh;
    (void)join(options_of(rank, 3, ports), mesh);
  });
  const char* const says = "[dist] rank 1 came to rank 0 at 127.0.0.1";
  EXPECT_TRUE(has(failures[0], says)) << failures[0];
  EXPECT_TRUE(has(failures[2], says)) << failures[2];
}

TEST(Rendezvous, RanksThatDoNotTakeTheTableAreNamedToTheOthers) {
  std::vector<Arrival> arrivals(4);
  std::vector<Socket> ranks(4);
  for (size_t r = 1; r < ranks.size(); ++r) {
    int ends[2] = {-1, -1};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    arrivals[r].socket = Socket(ends[0]);
    ranks[r] = Socket(ends[1]);
  }
  ranks[2].close();
  const RendezvousHost rank_zero({"127.0.0.1", 29500}, 10);
  const std::string says = "rank 2 came to rank 0 at 127.0.0.1:29500 and did not take";
  try {
    rank_zero.send_table(arrivals, std::vector<EndpointRow>(4));
    ADD_FAILURE() << "rank 2 is not named";
  } catch (const DistError& e) {
    EXPECT_TRUE(has(e.what(), says)) << e.what();
    EXPECT_TRUE(has(e.what(), error_text(EPIPE))) << e.what();
  }
  for (const size_t rank : {1, 3}) {  // the one that has the table already, and the one behind
    std::vector<EndpointRow> table(4);
    try {
      wait_for_table(ranks[rank], static_cast<int>(rank), 10, table);
      ADD_FAILURE() << "rank " << rank << " goes on";
    } catch (const DistError& e) {
      EXPECT_TRUE(has(e.what(), "it has given up: [dist] " + says)) << e.what();
    }
  }
}

TEST(Rendezvous, RanksThatAreLateAreNamedOnStderr) {
  const Socket listener = listen_on({"127.0.0.1", 0});
  Expected expected{.rank = 0, .size = 3, .token = "t", .timeout = 0.2, .notice = 0.01};
  const auto warning = [&] {
    testing::internal::CaptureStderr();
    expected.begin = steady_seconds();
    EXPECT_THROW((void)accept_ranks(listener, expected), DistError);
    return testing::internal::GetCapturedStderr();
  };
  const std::string text = warning();
  EXPECT_TRUE(has(text, "ranks 1, 2 did not come to rank 0 at 127.0.0.1:")) << text;
  EXPECT_EQ(std::ranges::count(text, '\n'), 1) << text;
  expected.notice = 10;
  EXPECT_EQ(warning(), "");
}

TEST(Rendezvous, RankZerosDeadlineCountsOnceItIsFound) {
  const std::vector<uint16_t> ports = test_ports();
  const std::vector<std::string> failures = failures_of(2, [&](int rank) {
    TcpOptions options = options_of(rank, 3, ports);  // rank 2 never comes
    options.join_timeout = rank == 0 ? 3.5 : 2;
    (void)tcp_group(options);
  });
  const char* const says = "not all ranks came within 3.5 s: rank 2 did not come to rank 0";
  EXPECT_TRUE(has(failures[0], says)) << failures[0];
  EXPECT_TRUE(has(failures[1], says)) << failures[1];
}

TEST(Rendezvous, RankZeroIsNamedWhereItStopsBeforeAllHaveCome) {
  const std::vector<uint16_t> ports = test_ports();
  const Socket listener = listen_on({"127.0.0.1", ports[0]});
  ASSERT_TRUE(listener.is_open());
  std::atomic<bool> done{false};
  const std::vector<std::string> failures = failures_of(2, [&](int rank) {
    if (rank == 0) {  // lets rank 1 in, and says nothing from then on
      const auto arrivals = accept_ranks(
          listener,
          {.rank = 0, .size = 2, .token = "secret", .begin = steady_seconds(), .timeout = 20});
      return wait_until(done);
    }
    TcpOptions options = options_of(1, 2, ports);
    options.join_timeout = 60;
    options.group.heartbeat_timeout = 1.1;
    join_until(options, done);
  });
  EXPECT_TRUE(has(failures[1], "rank 0 has not been heard of for")) << failures[1];
  EXPECT_TRUE(has(failures[1], "before all had met")) << failures[1];
}

TEST(Rendezvous, AnAnswerIsSentWholeOrEndsTheConnection) {
  const Socket listener = listen_on({"127.0.0.1", 0});
  std::string why;
  Socket sender = connect_to(own_end(listener), 10, why), reader;
  ASSERT_TRUE(sender.is_open()) << why;
  const int bytes = 5000;  // no multiple of an answer's size
  setsockopt(sender.fd(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
  while (!reader.is_open()) reader = accept_from(listener);
  int sent = 0, received = 0;
  while (send_answer(sender, Answer::Verdict::waiting, "", 0, why)) ++sent;
  EXPECT_EQ(why, "no answer");
  EXPECT_FALSE(send_answer(sender, Answer::Verdict::waiting, "", 0, why));
  Answer answer;
  while (receive_all(reader, &answer, sizeof(answer), steady_seconds() + 10, why)) ++received;
  EXPECT_EQ(why, "it closed the connection");
  EXPECT_EQ(received, sent);
}

TEST(Rendezvous, HellosThatAreNoRanks) {
  const Expected expected{.rank = 0, .size = 3, .token = "t"};
  const auto fault = [&](const std::function<void(Hello&)>& change) {
    Hello hello = make_hello(1, 3, 80, 0, "t");
    change(hello);
    return fault_of(hello, expected).text;
  };
  EXPECT_EQ(fault([](Hello&) {}), "");
  EXPECT_TRUE(has(fault([](Hello& h) { h.magic[0] = 'B'; }), "no rank of brim"));
  EXPECT_TRUE(has(fault([](Hello& h) { h.byte_order = 0x04030201; }), "order bytes"));
  EXPECT_TRUE(has(fault([](Hello& h) { h.token[0] = 'x'; }), "the token differs"));
  EXPECT_TRUE(has(fault([](Hello& h) { h.build[0] = 'x'; }), "use one build"));
  EXPECT_TRUE(has(fault([](Hello& h) { h.rank = -1; }), "rank -1"));
  EXPECT_TRUE(has(fault([](Hello& h) { h.rank = 3; }), "rank 3 of a world of 3"));
  EXPECT_TRUE(has(fault([](Hello& h) { h.rank = 0; }), "is there already"));
  EXPECT_TRUE(has(fault([](Hello& h) { h.port = 70000; }), "port 70000"));
  EXPECT_TRUE(has(fault([](Hello& h) { h.mesh = 9; }), "another group"));
}

TEST(Rendezvous, RankZeroTakesTheFirstFreePort) {
  const std::vector<uint16_t> ports = test_ports();
  const Socket taken = listen_on({"127.0.0.1", ports[0]});
  ASSERT_TRUE(taken.is_open());
  const std::vector<std::string> failures = failures_of(2, [&](int rank) {
    TcpOptions options = options_of(rank, 2, ports);
    tcp_group(options)->barrier();
  });
  for (const std::string& failure : failures) EXPECT_EQ(failure, "");
}

TEST(Rendezvous, BadOptions) {
  EXPECT_THROW((void)tcp_group({.rank = 2, .size = 2, .ports = {2000}}), ValueError);
  EXPECT_THROW((void)tcp_group({.rank = 0, .size = 2}), ValueError);
  EXPECT_THROW(
      (void)tcp_group({.rank = 0, .size = 2, .ports = {2000}, .token = std::string(64, 'x')}),
      ValueError);
  EXPECT_THROW(resolve("no.such.host.invalid"), DistError);
  EXPECT_EQ(resolve("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(tcp_group({})->size(), 1);
}

}  // namespace
}  // namespace brim::dist
