#include "command/status_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "core/check.h"
#include "core/runtime_folder.h"
#include "core/start_thread.h"

namespace brim::command {
namespace {

constexpr int kRestMilliseconds = 100;

/// Sends at once what the socket's buffer takes, all of a document as a rule: nobody is waited for.
/// False where nobody could be answered, as without a descriptor that is free.
bool answer(int listening, const std::function<std::string()>& document) {
  const int client = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (client < 0) return false;
  try {
    const std::string line = document() + '\n';
    (void)send(client, line.data(), line.size(), MSG_NOSIGNAL);
  } catch (const std::exception&) {  // no memory for it: no answer
  }
  close(client);
  return true;
}

}  // namespace

StatusServer::StatusServer(std::function<std::string()> document) : document_(std::move(document)) {
  static std::atomic<int> next{0};
  path_ = fmt::format("{}/{}-{}.sock", make_runtime_folder(), getpid(), next++);
  const auto fail = [&](const char* what) {
    const int error = errno;
    if (listening_ >= 0) close(listening_);
    raise<FileError>("[run] the socket {} cannot be {}: {}; set BRIM_RUNTIME_DIR to another folder",
                     path_, what, std::system_category().message(error));
  };
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path_.size() >= sizeof(address.sun_path)) {
    errno = ENAMETOOLONG;
    fail("made");
  }
  std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
  listening_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listening_ < 0) fail("made");
  (void)unlink(path_.c_str());          // of a process that died and had our number
  if (fchmod(listening_, 0600) != 0 ||  // which the socket's file takes on
      bind(listening_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
    fail("made");
  if (listen(listening_, 16) != 0 || pipe2(wake_, O_CLOEXEC) != 0) {
    (void)unlink(path_.c_str());
    fail("listened on");
  }
  thread_ = start_thread([this] { return std::thread([this] { serve(); }); });
}

StatusServer::~StatusServer() {
  close(wake_[1]);
  thread_.join();
  close(wake_[0]);
  close(listening_);
  (void)unlink(path_.c_str());
}

void StatusServer::serve() const {
  pollfd events[] = {{listening_, POLLIN, 0}, {wake_[0], POLLIN, 0}};
  while (true) {
    if (poll(events, 2, -1) < 0 && errno != EINTR) return;
    if (events[1].revents != 0) return;
    if (events[0].revents != 0 && !answer(listening_, document_))
      (void)poll(&events[1], 1, kRestMilliseconds);  // who waits is there next time, too
  }
}

}  // namespace brim::command
