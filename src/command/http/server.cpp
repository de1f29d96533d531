// libbrim_http.so: the server of server.h, by cpp-httplib.
#include "command/http/server.h"

#include <httplib.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace brim::http {
namespace {

constexpr int kThreads = 4;
constexpr std::chrono::seconds kTimeout(2);  // for each read and write of a client

/// Takes as long for each token of its length, so that its time tells nothing of it.
bool same_token(const std::string& given, const std::string& token) {
  if (given.size() != token.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < token.size(); ++i)
    difference |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(token[i]);
  return difference == 0;
}

/// What the server's threads use. A client that trickles may keep one of them for minutes, so they
/// are not waited for: they own this, and make no more pages once it is closed.
struct Served {
  explicit Served(ServerOptions how) : options(std::move(how)) {
    http.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    http.set_socket_options([](socket_t socket) {  // its own would share the port with others
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    });
    http.set_read_timeout(kTimeout);
    http.set_write_timeout(kTimeout);
    http.set_keep_alive_max_count(1);  // no thread waits for a client's next question
    http.set_payload_max_length(1 << 10);
    http.Get(options.path, [this](const httplib::Request& request, httplib::Response& response) {
      answer(request, response);
    });
  }

  void answer(const httplib::Request& request, httplib::Response& response) {
    if (!options.token.empty() &&
        !same_token(request.get_header_value("Authorization"), "Bearer " + options.token)) {
      response.status = 401;
      response.set_header("WWW-Authenticate", "Bearer");
      return;
    }
    const std::lock_guard lock(mutex);
    if (closed) return;
    const Page page = options.page(request.get_header_value("Accept"));
    response.set_content(page.body, page.type.c_str());
  }

  bool ended_early() {
    const std::lock_guard lock(mutex);
    return has_ended;
  }

  const ServerOptions options;
  httplib::Server http;
  std::mutex mutex;
  std::condition_variable ended;
  bool closed = false, has_ended = false;
};

class HttpServer : public Server {
 public:
  HttpServer(std::shared_ptr<Served> served, int port) : served_(std::move(served)), port_(port) {
    std::thread([served = served_] {
      served->http.listen_after_bind();
      const std::lock_guard lock(served->mutex);
      served->has_ended = true;
      served->ended.notify_all();
    }).detach();
    // Before it runs, it cannot be stopped.
    for (int i = 0; i < 2000 && !served_->http.is_running() && !served_->ended_early(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ~HttpServer() override {
    served_->http.stop();
    std::unique_lock lock(served_->mutex);
    served_->closed = true;
    served_->ended.wait_for(lock, kTimeout, [this] { return served_->has_ended; });
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  int port() const override { return port_; }

 private:
  std::shared_ptr<Served> served_;
  int port_;
};

Server* start(const ServerOptions& options, std::string& error) {
  try {
    auto served = std::make_shared<Served>(options);
    errno = 0;
    int port = options.port;
    if (port == 0)
      port = served->http.bind_to_any_port(options.host);
    else if (!served->http.bind_to_port(options.host, port))
      port = -1;
    if (port > 0) return new HttpServer(std::move(served), port);
    error = errno ? std::system_category().message(errno) : "no such host";
  } catch (const std::exception& e) {
    error = e.what();
  }
  return nullptr;
}

}  // namespace
}  // namespace brim::http

extern "C" brim::http::Server* brim_http_start(const brim::http::ServerOptions& options,
                                               std::string& error) {
  return brim::http::start(options, error);
}
