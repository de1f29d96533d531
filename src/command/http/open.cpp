// Opens the library of server.h.
#include <dlfcn.h>

#include <filesystem>

#include "command/http/server.h"
#include "core/check.h"

namespace brim::http {
namespace {

/// Beside the library that this is in.
std::string library_path() {
  Dl_info info{};
  std::error_code error;
  std::filesystem::path own;
  if (dladdr(reinterpret_cast<const void*>(&serve), &info) && info.dli_fname)
    own = std::filesystem::canonical(info.dli_fname, error);
  return (own.parent_path() / "libbrim_http.so").string();
}

}  // namespace

std::unique_ptr<Server> serve(const ServerOptions& options) {
  static void* const library = dlopen(library_path().c_str(), RTLD_NOW | RTLD_LOCAL);
  BRIM_CHECK(library, Error,
             "[metrics] {} cannot be opened; build brim where cpp-httplib is installed (apt-get "
             "install libcpp-httplib-dev)",
             library_path());
  const auto start = reinterpret_cast<Start*>(dlsym(library, kStart));
  BRIM_CHECK(start, Error, "[metrics] {} is of another brim; install both from one build",
             library_path());
  std::string error;
  std::unique_ptr<Server> server(start(options, error));
  BRIM_CHECK(server, Error, "[metrics] {}:{} cannot be listened on: {}; choose another port",
             options.host, options.port, error);
  return server;
}

}  // namespace brim::http
