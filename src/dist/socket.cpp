#include "dist/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include "core/check.h"
#include "core/clock.h"

namespace brim::dist {
namespace {

constexpr const char* kClosed = "it closed the connection";

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  sockaddr* raw() { return reinterpret_cast<sockaddr*>(&storage); }
};

/// Of a numeric host. Throws DistError.
Address address_of(const Endpoint& at) {
  Address address;
  auto* const v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* const v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (inet_pton(AF_INET, at.host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(at.port);
    address.size = sizeof(sockaddr_in);
  } else {
    BRIM_CHECK(inet_pton(AF_INET6, at.host.c_str(), &v6->sin6_addr) == 1, DistError,
               "[dist] '{}' is no address", at.host);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(at.port);
    address.size = sizeof(sockaddr_in6);
  }
  return address;
}

Endpoint endpoint_of(const sockaddr_storage& storage) {
  char text[INET6_ADDRSTRLEN] = "";
  if (storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    return {text, ntohs(v4.sin_port)};
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage);
  inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
  return {text, ntohs(v6.sin6_port)};
}

Socket new_socket(int family) {
  Socket socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  BRIM_CHECK(socket.is_open(), DistError, "[dist] no socket: {}", error_text(errno));
  return socket;
}

void set_no_delay(const Socket& socket) {
  const int on = 1;
  setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

/// Whether something happens before the deadline.
bool wait_for(const Socket& socket, short what, double deadline) {
  while (true) {
    const double left = deadline - steady_seconds();
    if (left <= 0) return false;
    pollfd entry{socket.fd(), what, 0};
    const int ready = poll(&entry, 1, static_cast<int>(std::min(left, 3600.0) * 1e3) + 1);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

/// Calls `move(done)`, which sends or receives, until all is done.
template <class F>
bool move_all(const Socket& socket, short what, size_t bytes, double deadline, std::string& why,
              const F& move) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t moved = move(done);
    if (moved > 0) {
      done += static_cast<size_t>(moved);
    } else if (moved < 0 && errno == EINTR) {
    } else if (moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (wait_for(socket, what, deadline)) continue;
      why = "no answer";
      return false;
    } else {
      why = moved == 0 ? kClosed : error_text(errno);
      return false;
    }
  }
  return true;
}

}  // namespace

std::string error_text(int error) { return std::generic_category().message(error); }

Socket& Socket::operator=(Socket&& other) noexcept {
  close();
  fd_ = std::exchange(other.fd_, -1);
  return *this;
}
void Socket::close() noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}
void Socket::shut_down() noexcept {
  if (fd_ >= 0) shutdown(fd_, SHUT_RDWR);
}

std::string Endpoint::str() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

std::string resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &list);
  BRIM_CHECK(error == 0 && list, DistError,
             "[dist] the address '{}' does not resolve: {}; set MASTER_ADDR to the host of rank 0",
             host, error == EAI_SYSTEM ? error_text(errno) : std::string(gai_strerror(error)));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, &freeaddrinfo);
  const addrinfo* best = list;
  for (const addrinfo* a = list; a; a = a->ai_next)  // IPv4 before IPv6
    if (a->ai_family == AF_INET) {
      best = a;
      break;
    }
  sockaddr_storage storage{};
  std::memcpy(&storage, best->ai_addr, best->ai_addrlen);
  return endpoint_of(storage).host;
}

Socket listen_on(const Endpoint& at) {
  Address address = address_of(at);
  Socket socket = new_socket(address.storage.ss_family);
  const int on = 1;
  setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(socket.fd(), address.raw(), address.size) != 0) {
    if (errno == EADDRINUSE) return {};
    raise<DistError>("[dist] this process cannot listen on {}: {}; {}", at.str(), error_text(errno),
                     errno == EACCES ? "choose a MASTER_PORT of 1024 or more"
                                     : "MASTER_ADDR must be an address of the host of rank 0");
  }
  if (listen(socket.fd(), 1024) != 0) {
    if (errno == EADDRINUSE) return {};
    raise<DistError>("[dist] cannot listen on {}: {}", at.str(), error_text(errno));
  }
  return socket;
}

Socket connect_to(const Endpoint& at, double seconds, std::string& why) {
  Address address = address_of(at);
  Socket socket = new_socket(address.storage.ss_family);
  if (connect(socket.fd(), address.raw(), address.size) != 0) {
    if (errno != EINPROGRESS) {
      why = error_text(errno);
      return {};
    }
    int error = 0;
    socklen_t size = sizeof(error);
    if (!wait_for(socket, POLLOUT, steady_seconds() + seconds)) {
      why = "no answer";
      return {};
    }
    getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
      why = error_text(error);
      return {};
    }
  }
  // Connecting to a free port of one's own host may connect a socket with itself.
  if (own_end(socket).str() == other_end(socket).str()) {
    why = error_text(ECONNREFUSED);
    return {};
  }
  set_no_delay(socket);
  return socket;
}

Socket accept_from(const Socket& listener) {
  Socket socket(accept4(listener.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket.is_open()) set_no_delay(socket);
  return socket;
}

bool is_closed(const Socket& socket) {
  char byte;
  const ssize_t n = recv(socket.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

Endpoint own_end(const Socket& socket) {
  Address address;
  address.size = sizeof(address.storage);
  getsockname(socket.fd(), address.raw(), &address.size);
  return endpoint_of(address.storage);
}

Endpoint other_end(const Socket& socket) {
  Address address;
  address.size = sizeof(address.storage);
  getpeername(socket.fd(), address.raw(), &address.size);
  return endpoint_of(address.storage);
}

ptrdiff_t receive_some(const Socket& socket, void* data, size_t bytes, std::string& why) {
  const ssize_t got = recv(socket.fd(), data, bytes, 0);
  if (got > 0) return got;
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return 0;
  why = got == 0 ? kClosed : error_text(errno);
  return -1;
}

bool send_all(const Socket& socket, const void* data, size_t bytes, double deadline,
              std::string& why) {
  return move_all(socket, POLLOUT, bytes, deadline, why, [&](size_t done) {
    return send(socket.fd(), static_cast<const char*>(data) + done, bytes - done, MSG_NOSIGNAL);
  });
}

bool receive_all(const Socket& socket, void* data, size_t bytes, double deadline,
                 std::string& why) {
  return move_all(socket, POLLIN, bytes, deadline, why, [&](size_t done) {
    return recv(socket.fd(), static_cast<char*>(data) + done, bytes - done, 0);
  });
}

}  // namespace brim::dist
