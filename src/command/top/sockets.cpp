// Some hundred connections are open at a time, each with a deadline of its own, so that those that
// hang delay the others little.
#include "command/top/sockets.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <list>
#include <optional>

#include "core/clock.h"
#include "core/json_text.h"

namespace brim::top {
namespace {

constexpr size_t kMaxSockets = 8192, kMaxOpen = 256, kMaxAnswer = 64 << 10;

/// A file descriptor, closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

struct SocketName {
  int64_t pid = 0, number = 0;
  std::string file;
};

/// Of "PID-N.sock".
std::optional<SocketName> parse_name(std::string_view file) {
  SocketName name{.file = std::string(file)};
  const char* const end = file.data() + file.size();
  const auto pid = std::from_chars(file.data(), end, name.pid);
  if (pid.ec != std::errc() || pid.ptr == end || *pid.ptr != '-' || name.pid <= 0) return {};
  const auto number = std::from_chars(pid.ptr + 1, end, name.number);
  if (number.ec != std::errc() || name.number < 0) return {};
  if (std::string_view(number.ptr, end) != ".sock" || name.pid > 1 << 30) return {};
  return name;
}

bool is_ours(int folder) {
  struct stat found {};
  return fstat(folder, &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == geteuid() &&
         (found.st_mode & 022) == 0;
}

bool is_our_socket(int folder, const std::string& file) {
  struct stat found {};
  return fstatat(folder, file.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISSOCK(found.st_mode) && found.st_uid == geteuid();
}

std::vector<SocketName> our_sockets(int folder) {
  std::vector<SocketName> names;
  DIR* const entries = fdopendir(fcntl(folder, F_DUPFD_CLOEXEC, 0));
  if (!entries) return names;
  while (const dirent* entry = readdir(entries)) {
    if (names.size() == kMaxSockets) break;
    auto name = parse_name(entry->d_name);
    if (name && is_our_socket(folder, name->file)) names.push_back(std::move(*name));
  }
  closedir(entries);
  std::ranges::sort(names, {}, [](const SocketName& n) { return std::pair(n.pid, n.number); });
  return names;
}

/// A training that is asked.
class Question {
 public:
  Question(int folder, const SocketName& name, double seconds)
      : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)),
        deadline_(steady_seconds() + seconds) {
    run_.socket = name.file;
    run_.pid = name.pid;
    connect_to(folder, name);
  }

  int fd() const { return fd_.get(); }
  double deadline() const { return deadline_; }
  bool is_over() const { return over_; }
  bool is_dead() const { return dead_; }
  void give_up() { end(answer_.empty() ? "does not answer" : "answers too slowly"); }

  /// Takes what has come.
  void receive() {
    char block[8192];
    while (!over_) {
      const ssize_t got = recv(fd_.get(), block, sizeof block, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (got < 0) return end("closed the connection");
      if (got == 0) return read_answer();
      answer_.append(block, static_cast<size_t>(got));
      if (answer_.size() > kMaxAnswer) return end("answers with more than 64 KiB");
    }
  }

  Run take() { return std::move(run_); }

 private:
  /// By the folder's descriptor: its path may be longer than a socket's address.
  void connect_to(int folder, const SocketName& name) {
    if (fd_.get() < 0) return end("cannot be asked: no more files can be opened");
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = fmt::format("/proc/self/fd/{}/{}", folder, name.file);
    if (path.size() >= sizeof address.sun_path) return end("does not answer");
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    if (connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
      return;
    if (errno == ENOENT || errno == ECONNREFUSED) {
      dead_ = over_ = true;
      // One that has bound its socket and does not listen yet refuses as well.
      if (errno == ECONNREFUSED && kill(static_cast<pid_t>(name.pid), 0) != 0 && errno == ESRCH &&
          is_our_socket(folder, name.file))
        unlinkat(folder, name.file.c_str(), 0);
      return;
    }
    if (errno != EINPROGRESS) end("does not answer");  // EAGAIN: others wait to be answered, too
  }

  void read_answer() {
    if (answer_.empty()) return end("closed the connection without an answer");
    const Json document = parse_json<Json>(answer_);
    if (!is_of(document, "brim.run/1")) return end("answers with what is no brim.run/1");
    std::string file = std::move(run_.socket);
    const int64_t pid = run_.pid;
    run_ = run_from_json(document);
    run_.socket = std::move(file);
    run_.pid = pid;  // the kernel's, by the file's name, not what the text claims
    end(silence(run_));
  }

  void end(std::string trouble) {
    run_.trouble = std::move(trouble);
    over_ = true;
  }

  Descriptor fd_;
  double deadline_;
  Run run_;
  std::string answer_;
  bool over_ = false, dead_ = false;
};

/// Waits until one of them has something to read, or its deadline.
void wait_for_answers(std::list<Question>& pending) {
  std::vector<pollfd> entries;
  double deadline = pending.front().deadline();
  for (const Question& q : pending) {
    entries.push_back({q.fd(), POLLIN, 0});
    deadline = std::min(deadline, q.deadline());
  }
  const double left = std::max(deadline - steady_seconds(), 0.0);
  const int ready = poll(entries.data(), entries.size(), static_cast<int>(left * 1e3) + 1);
  size_t i = 0;
  const double now = steady_seconds();
  for (Question& q : pending) {
    if (ready > 0 && entries[i].revents != 0) q.receive();
    if (!q.is_over() && now >= q.deadline()) q.give_up();
    ++i;
  }
}

}  // namespace

std::vector<Run> ask_runs(const std::string& path, double seconds) {
  std::vector<Run> runs;
  const Descriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder.get() < 0 || !is_ours(folder.get())) return runs;
  const std::vector<SocketName> names = our_sockets(folder.get());
  std::list<Question> pending;
  for (size_t next = 0; next < names.size() || !pending.empty();) {
    while (next < names.size() && pending.size() < kMaxOpen)
      pending.emplace_back(folder.get(), names[next++], seconds);
    if (std::ranges::none_of(pending, &Question::is_over)) wait_for_answers(pending);
    for (auto q = pending.begin(); q != pending.end();) {
      if (!q->is_over()) {
        ++q;
        continue;
      }
      if (!q->is_dead()) runs.push_back(q->take());
      q = pending.erase(q);
    }
  }
  std::ranges::sort(runs, {}, [](const Run& r) {
    const auto name = parse_name(r.socket);
    return std::pair(name->pid, name->number);
  });
  return runs;
}

}  // namespace brim::top
