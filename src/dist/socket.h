// TCP connections with deadlines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace brim::dist {

/// A file descriptor of a socket, closed at the end.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Socket& operator=(Socket&& other) noexcept;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  void close() noexcept;
  /// Ends the connection for the other side, and for threads that wait for it.
  void shut_down() noexcept;

 private:
  int fd_ = -1;
};

/// A numeric address and a port.
struct Endpoint {
  std::string host;
  uint16_t port = 0;
  std::string str() const;
};

/// The first address of a host's name, or of a number. Throws DistError.
std::string resolve(const std::string& host);
/// Listens on a numeric address; port 0: one that is free. An undefined socket where the port is in
/// use; throws DistError for any other reason.
Socket listen_on(const Endpoint& at);
/// An undefined socket, and `why`, where nobody answers within `seconds`. Non-blocking, without
/// delay.
Socket connect_to(const Endpoint& at, double seconds, std::string& why);
/// The next connection, non-blocking; undefined if there is none yet.
Socket accept_from(const Socket& listener);
/// Whether the other side has closed the connection and nothing of it is left to be read.
bool is_closed(const Socket& socket);
Endpoint own_end(const Socket& socket);
Endpoint other_end(const Socket& socket);

/// All bytes, or false and `why` at the deadline (of steady_seconds()) or when the connection ends.
bool send_all(const Socket& socket, const void* data, size_t bytes, double deadline,
              std::string& why);
bool receive_all(const Socket& socket, void* data, size_t bytes, double deadline, std::string& why);

/// What has come already, up to `bytes`: 0 if there is nothing. -1 and `why` when the connection
/// ended.
ptrdiff_t receive_some(const Socket& socket, void* data, size_t bytes, std::string& why);

/// What errno means.
std::string error_text(int error);

}  // namespace brim::dist
