#include "command/metrics_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <charconv>
#include <fstream>

#include "command/command.h"
#include "command/run_metrics.h"
#include "core/check.h"

namespace brim::command {
namespace {

constexpr int kMaxPort = 65535;
constexpr size_t kMaxToken = 1024;

/// Not by its beginning: 127.example.org is anybody's.
bool is_this_host(const std::string& host) {
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  return host == "localhost" || host == "::1";
}

}  // namespace

MetricsAddress parse_metrics_address(const std::string& text) {
  MetricsAddress address;
  const size_t colon = text.rfind(':');
  std::string port = text;
  if (colon != std::string::npos) {
    address.host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (address.host.starts_with('[') && address.host.ends_with(']'))
      address.host = address.host.substr(1, address.host.size() - 2);
  }
  const char* const end = port.data() + port.size();
  const auto [at, error] = std::from_chars(port.data(), end, address.port);
  if (error != std::errc() || at != end || address.port < 0 || address.port > kMaxPort ||
      address.host.empty())
    throw UsageError(fmt::format(
        "--metrics '{}' is no [HOST:]PORT; give a port from 0 (one that is free) to {}, "
        "like 9400, or a host's address and a port, like 0.0.0.0:9400",
        text, kMaxPort));
  return address;
}

std::string read_token(const std::string& path) {
  std::ifstream in(path);
  char line[kMaxToken + 2];  // no more is read of a file without lines, such as /dev/zero
  in.getline(line, sizeof line);
  BRIM_CHECK(in.gcount() > 0, FileError,
             "[metrics] the token {} cannot be read; give a file whose first line is the token",
             path);
  std::string token(line, static_cast<size_t>(in.gcount()) - (in.eof() || in.fail() ? 0 : 1));
  if (token.size() < 16 || token.size() > kMaxToken ||
      token.find_first_not_of(
          "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=") !=
          std::string::npos)
    throw UsageError(fmt::format(
        "--metrics-token {}: its first line is no token of 16 to 1024 letters, digits and -._~+/=; "
        "`openssl rand -hex 32` makes one",
        path));
  return token;
}

void check_metrics(const MetricsAddress& address, const std::string& token_file) {
  if (is_this_host(address.host) || !token_file.empty()) return;
  throw UsageError(fmt::format(
      "--metrics {}:{} is open to other hosts, so it needs --metrics-token FILE; without "
      "a host only this one can connect",
      address.host, address.port));
}

std::unique_ptr<http::Server> serve_metrics(const MetricsAddress& address,
                                            const std::string& token_file, const RunDocument& run) {
  return http::serve(
      {.host = address.host,
       .port = address.port,
       .path = "/metrics",
       .token = token_file.empty() ? "" : read_token(token_file),
       .page = [metrics = RunMetrics(run)](const std::string& accept) mutable -> http::Page {
         const MetricsFormat format = format_for(accept);
         return {content_type(format), metrics.page(format)};
       }});
}

}  // namespace brim::command
