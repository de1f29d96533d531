// A training that is none: a socket with what a test wants to be said.
#pragma once

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <poll.h>
#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

namespace brim::tests {

class FakeRun {
 public:
  /// Listens on `path` and calls `answer` with each connection, which is closed then.
  FakeRun(const std::string& path, std::function<void(int)> answer)
      : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    ok_ = bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
          listen(fd_, 16) == 0;
    thread_ = std::thread([this, answer = std::move(answer)] {
      while (!stopping_.load()) {
        pollfd entry{fd_, POLLIN, 0};
        if (poll(&entry, 1, 20) <= 0) continue;
        const int connection = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
        if (connection < 0) continue;
        answer(connection);
        close(connection);
      }
    });
  }
  ~FakeRun() {
    stopping_.store(true);
    thread_.join();
    close(fd_);
  }
  FakeRun(const FakeRun&) = delete;
  FakeRun& operator=(const FakeRun&) = delete;
  bool ok() const { return ok_; }

  static std::function<void(int)> says(std::string text) {
    return [text = std::move(text)](int fd) {
      for (size_t sent = 0; sent < text.size();) {
        const ssize_t n = send(fd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
        if (n <= 0) return;
        sent += static_cast<size_t>(n);
      }
    };
  }

 private:
  int fd_;
  bool ok_ = false;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

/// A document of brim.run/1 with an account of `wall` seconds, 70 % compute and 30 % input.
inline std::string run_document(const std::string& recipe, double wall) {
  const auto part = [&](double share) { return std::to_string(wall * share); };
  return R"({"schema": "brim.run/1", "time": 1000, "updated": 999.9, "started": 900, "pid": 99,
    "recipe": ")" +
         recipe + R"(", "folder": "/runs/a", "state": "training", "stage": null,
    "rank": 0, "ranks": 1, "epoch": 0, "epochs": 2, "step": 100, "steps": 25000,
    "images_per_s": 3100.5, "seconds_left": 62, "loss": 2.1, "unknown": [1],
    "loader": {"workers": 2, "slots": 8, "ready": 5},
    "devices": [{"device": "cuda:0", "account": {"wall": )" +
         std::to_string(wall) + R"(, "seconds": {"compute": )" + part(0.7) + R"(, "input": )" +
         part(0.3) + R"(}},
      "memory": {"live": 1048576, "peak": 2097152, "reserved": 3145728, "limit": 0}}],
    "gpus": {"cuda:0": {"utilisation": 0.35, "clocks_held_by": ["power cap"], "throttled": true}}})";
}

}  // namespace brim::tests
