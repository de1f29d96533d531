// What Prometheus is told of a training: both formats, who may read it, and clients that misbehave.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <brim/core/error.h>

#include "cli/run_brim.h"
#include "command/command.h"
#include "command/exposition.h"
#include "command/http/server.h"
#include "command/metrics_server.h"
#include "command/read_all.h"
#include "message_of.h"

namespace brim::tests {
namespace {

using namespace command;

TEST(Exposition, IsPrometheusText) {
  Exposition page(MetricsFormat::prometheus, {{"run", "a"}});
  page.family("x_total", MetricKind::counter, "Help.");
  page.sample(1.5, {{"cause", "host \"read\"\\\n\xff"}});
  page.family("none", MetricKind::gauge, "Without a sample.");
  page.family("y", MetricKind::gauge, "Help.");
  page.sample(NAN);
  page.sample(-INFINITY);
  EXPECT_EQ(page.finish(),
            "# HELP x_total Help.\n# TYPE x_total counter\n"
            "x_total{run=\"a\",cause=\"host \\\"read\\\"\\\\??\"} 1.5\n"
            "# HELP y Help.\n# TYPE y gauge\ny{run=\"a\"} NaN\ny{run=\"a\"} -Inf\n");
}

TEST(Exposition, OpenMetricsCountersAreNamedWithoutTheirEnd) {
  Exposition page(MetricsFormat::open_metrics, {});
  page.family("x_total", MetricKind::counter, "Help.");
  page.sample(2);
  page.family("JOULES_TOTAL", MetricKind::counter, "A name that is no counter's there.");
  page.sample(3);
  EXPECT_EQ(page.finish(),
            "# HELP x Help.\n# TYPE x counter\nx_total 2\n"
            "# HELP JOULES_TOTAL A name that is no counter's there.\n"
            "# TYPE JOULES_TOTAL unknown\nJOULES_TOTAL 3\n# EOF\n");
  EXPECT_EQ(format_for("application/openmetrics-text; version=1.0.0,text/plain;q=0.5"),
            MetricsFormat::open_metrics);
  EXPECT_EQ(format_for("*/*"), MetricsFormat::prometheus);
}

TEST(MetricsAddress, AreReadAndCheckedBeforeTheRun) {
  EXPECT_EQ(parse_metrics_address("9400").host, "127.0.0.1");
  EXPECT_EQ(parse_metrics_address("0.0.0.0:9400").port, 9400);
  EXPECT_EQ(parse_metrics_address("[::1]:0").host, "::1");
  for (const char* bad : {"", ":", "x", ":80", "host:", "host:99999", "-1", "80 ", "host:80x"})
    EXPECT_THROW(parse_metrics_address(bad), UsageError) << bad;
  for (const char* open : {"0.0.0.0", "::", "127.example.org", "1.2.3.4"})
    EXPECT_THROW(check_metrics({open, 1}, ""), UsageError) << open;
  check_metrics({"0.0.0.0", 1}, "token");
  check_metrics({"127.0.0.1", 1}, "");
}

class Metrics : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      server = http::serve(options());
    } catch (const Error& e) {
      if (std::string(e.what()).find("cannot be opened") == std::string::npos) throw;
      GTEST_SKIP() << e.what();
    }
  }
  http::ServerOptions options() {
    return {.host = "127.0.0.1", .port = 0, .path = "/metrics", .token = token, .page = page};
  }
  /// Of this host; -1 where nobody listens.
  static int connect_to(int port) {
    const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(client, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return client;
    close(client);
    return -1;
  }
  /// "" where nobody listens.
  static std::string ask(int port, const std::string& request) {
    const int client = connect_to(port);
    if (client < 0) return "";
    EXPECT_EQ(write(client, request.data(), request.size()), std::ssize(request));
    std::string answer = read_all(client);
    close(client);
    return answer;
  }
  std::string get(const std::string& path, const std::string& headers = "") const {
    return ask(server->port(), "GET " + path + " HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n");
  }

  std::string token;
  std::function<http::Page(const std::string&)> page = [](const std::string& accept) {
    return http::Page{"text/plain", "accepted " + accept};
  };
  std::unique_ptr<http::Server> server;
};

TEST_F(Metrics, AreServedAtTheirPathAlone) {
  EXPECT_NE(get("/metrics", "Accept: a/b\r\n").find("accepted a/b"), std::string::npos);
  EXPECT_NE(get("/").find("404"), std::string::npos);
  EXPECT_NE(ask(server->port(), "nonsense\r\n\r\n").find("400"), std::string::npos);
}

TEST_F(Metrics, ATokenIsAskedFor) {
  token = "0123456789abcdef";
  server = http::serve(options());
  EXPECT_NE(get("/metrics").find("401"), std::string::npos);
  EXPECT_NE(get("/metrics", "Authorization: Bearer 0123456789abcdeg\r\n").find("401"),
            std::string::npos);
  EXPECT_NE(get("/metrics", "Authorization: Bearer 0123456789abcdef\r\n").find("accepted"),
            std::string::npos);
}

TEST_F(Metrics, APortInUseIsToldAndNotShared) {
  http::ServerOptions second = options();
  second.port = server->port();
  const std::string error = message_of<Error>([&] { (void)http::serve(second); });
  EXPECT_NE(error.find("in use"), std::string::npos) << error;
}

TEST_F(Metrics, ClientsThatNeverReadOrFinishHoldNobodyUp) {
  page = [](const std::string&) { return http::Page{"text/plain", std::string(10'000'000, 'x')}; };
  server = http::serve(options());
  std::vector<int> silent;
  for (int i = 0; i < 3; ++i) {
    silent.push_back(connect_to(server->port()));
    const std::string request = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    EXPECT_GT(write(silent.back(), request.data(), request.size()), 0);
  }
  EXPECT_GT(get("/metrics").size(), 10'000'000U);
  server.reset();  // with three of them still there
  for (const int client : silent) close(client);
}

TEST_F(Metrics, OfATrainingCountUp) {
  if (access(brim_path().c_str(), X_OK) != 0) GTEST_SKIP() << brim_path() << " is not built";
  const int port = server->port();
  server.reset();
  Ran ran;
  std::thread training([&] {
    ran = run_brim({"train", "tutorial-cnn", "--data", "shapes10", "--epochs", "3", "--metrics",
                    std::to_string(port)});
  });
  std::string last;
  std::vector<double> steps;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto is_counted = [&] {
    return steps.size() > 1 && steps.back() > steps[0] &&
           last.find("brim_loss{") != std::string::npos;
  };
  while (!is_counted() && std::chrono::steady_clock::now() < end) {
    const std::string answer = ask(port, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    const std::string counter = "\nbrim_steps_total{recipe=\"tutorial-cnn\",rank=\"0\"} ";
    if (const size_t at = answer.find(counter); at != std::string::npos) {
      last = answer;
      steps.push_back(std::stod(answer.substr(at + counter.size())));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  training.join();
  EXPECT_TRUE(is_counted());
  EXPECT_TRUE(std::ranges::is_sorted(steps));
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(last.find("brim_device_seconds_total{recipe=\"tutorial-cnn\",rank=\"0\",device=\"cpu\","
                      "cause=\"compute\"}"),
            std::string::npos)
      << last;
}

TEST(MetricsOption, IsCheckedBeforeTheDataIsOpened) {
  if (access(brim_path().c_str(), X_OK) != 0) GTEST_SKIP() << brim_path() << " is not built";
  const TemporaryFolder folder;
  std::ofstream(folder / "short") << "abc\n";
  const auto refusal = [](std::vector<std::string> options) {
    options.insert(options.begin(), {"train", "tutorial-cnn", "--data", "/nowhere"});
    const Ran ran = run_brim(options, "ulimit -t 5;");
    EXPECT_NE(ran.code, 0);
    return ran.err;
  };
  EXPECT_NE(refusal({"--metrics", "0.0.0.0:9400"}).find("needs --metrics-token"),
            std::string::npos);
  EXPECT_NE(refusal({"--metrics", "x"}).find("no [HOST:]PORT"), std::string::npos);
  EXPECT_NE(refusal({"--metrics-token", folder / "short"}).find("is of --metrics"),
            std::string::npos);
  EXPECT_NE(refusal({"--metrics", "0", "--metrics-token", folder / "short"}).find("is no token"),
            std::string::npos);
  EXPECT_NE(refusal({"--metrics", "0", "--metrics-token", "/dev/zero"}).find("is no token"),
            std::string::npos);
  EXPECT_NE(refusal({"--metrics", "0", "--metrics-token", folder / "none"}).find("cannot be read"),
            std::string::npos);
}

}  // namespace
}  // namespace brim::tests
