// A small HTTP server for pages that are made when they are asked for. It is a library of its own,
// libbrim_http.so, opened where a command serves: linked, its libraries would be loaded at every
// start.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace brim::http {

struct Page {
  std::string type, body;
};

struct ServerOptions {
  std::string host;
  int port = 0;  ///< 0: one that is free
  std::string path;
  std::string token;  ///< that a client must show (Authorization: Bearer TOKEN); "": none
  /// Called with the header Accept, by one thread of the server at a time, until its end.
  std::function<Page(const std::string& accept)> page;
};

class Server {
 public:
  virtual ~Server() = default;
  virtual int port() const = 0;
};

/// Serves until its end. A client that does not go on holds one of its few threads for two seconds;
/// several that trickle can keep others waiting, but never who calls this. Throws Error where the
/// library is missing or the port cannot be listened on.
std::unique_ptr<Server> serve(const ServerOptions& options);

/// What the library has, by this name.
using Start = Server*(const ServerOptions& options, std::string& error);
inline constexpr const char* kStart = "brim_http_start";

}  // namespace brim::http
