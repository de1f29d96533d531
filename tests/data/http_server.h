// A web server for tests, in a thread: serves bytes from memory, with the faults it is asked for.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace brim::data::tests {

class HttpServer {
 public:
  bool ranges = true;    ///< answers Range with 206; otherwise sends everything
  size_t cut_after = 0;  ///< breaks each answer off after so many bytes; 0: never

  explicit HttpServer(std::map<std::string, std::vector<uint8_t>> files)
      : files_(std::move(files)), socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    ::bind(socket_, reinterpret_cast<sockaddr*>(&address), length);
    ::listen(socket_, 16);
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~HttpServer() {
    stop_ = true;
    ::shutdown(socket_, SHUT_RDWR);
    thread_.join();
    ::close(socket_);
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/"; }
  /// Where each request began: "name" or "name from 100".
  std::vector<std::string> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void serve() {
    while (!stop_) {
      const int client = ::accept(socket_, nullptr, nullptr);
      if (client < 0) return;
      answer(client);
      ::close(client);
    }
  }

  void answer(int client) {
    std::string request;
    char byte = 0;
    while (!request.ends_with("\r\n\r\n") && ::recv(client, &byte, 1, 0) == 1) request += byte;
    const size_t slash = request.find('/'), end = request.find(' ', slash);
    if (slash == std::string::npos || end == std::string::npos) return;
    const std::string name = request.substr(slash + 1, end - slash - 1);
    const size_t range = request.find("Range: bytes=");
    size_t from = 0;
    if (range != std::string::npos) from = std::strtoul(request.c_str() + range + 13, nullptr, 10);
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(from > 0 ? name + " from " + std::to_string(from) : name);
    }
    const auto found = files_.find(name);
    if (found == files_.end()) return send(client, "404 Not Found", {}, 0);
    if (!ranges) from = 0;
    const std::vector<uint8_t>& all = found->second;
    if (from > 0 && from >= all.size()) return send(client, "416 Range Not Satisfiable", {}, 0);
    const std::vector<uint8_t> body(all.begin() + static_cast<ptrdiff_t>(from), all.end());
    const size_t sent = cut_after > 0 ? std::min(cut_after, body.size()) : body.size();
    send(client, from > 0 ? "206 Partial Content" : "200 OK", body, sent);
  }

  static void send(int client, const std::string& status, const std::vector<uint8_t>& body,
                   size_t count) {
    const std::string head = "HTTP/1.1 " + status + "\r\nConnection: close\r\nContent-Length: " +
                             std::to_string(body.size()) + "\r\n\r\n";
    ::send(client, head.data(), head.size(), MSG_NOSIGNAL);
    for (size_t at = 0; at < count;) {
      const ssize_t n = ::send(client, body.data() + at, count - at, MSG_NOSIGNAL);
      if (n <= 0) return;
      at += static_cast<size_t>(n);
    }
  }

  std::map<std::string, std::vector<uint8_t>> files_;
  int socket_;
  int port_ = 0;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::vector<std::string> requests_;
  std::thread thread_;
};

}  // namespace brim::data::tests
