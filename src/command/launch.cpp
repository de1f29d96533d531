// `brim launch -n N COMMAND...`: a command as N ranks on this machine.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "command/command.h"
#include "command/say.h"
#include "command/signals.h"
#include "core/check.h"
#include "core/clock.h"
#include "dist/socket.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): not in every <unistd.h>

namespace brim::command {
namespace {

constexpr double kSettle = 0.3;  // seconds after which it is clear which one failed first
constexpr double kGrace = 3;     // seconds that ranks have to end by themselves when one has failed
constexpr double kStopped = 4.2;    // that a rank may be stopped while others run
constexpr double kForOutput = 1;    // until the output of ranks that have ended has come
constexpr double kUntilKilled = 6;  // and then those that they have after SIGTERM

struct LaunchArguments {
  int ranks = 0;
  int restarts = 0;
};

/// A free port; whoever takes it meanwhile is told apart by the token.
uint16_t free_port() { return dist::own_end(dist::listen_on({"127.0.0.1", 0})).port; }

std::string random_token() {
  unsigned char bytes[16];
  BRIM_CHECK(getrandom(bytes, sizeof(bytes), 0) == sizeof(bytes), Error,
             "[launch] the system has no random numbers");
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

/// One of the processes.
struct Rank {
  int number = 0;
  pid_t pid = -1;
  int output = -1;   // the reading end of its output; -1 for rank 0, which has ours
  std::string line;  // begun, not ended
  bool running = false;
  int status = 0;         // as waitpid has it: how it was stopped last, or how it ended
  double stopped_at = 0;  // by a signal, of steady_seconds(); 0: it is not
};

/// "rank 2 (process 4711) was killed by signal 9 (Killed)".
std::string end_of(const Rank& rank) {
  const std::string who = fmt::format("rank {} (process {})", rank.number, rank.pid);
  if (WIFSIGNALED(rank.status))
    return fmt::format("{} was killed by signal {} ({})", who, WTERMSIG(rank.status),
                       strsignal(WTERMSIG(rank.status)));
  if (WIFSTOPPED(rank.status))
    return fmt::format("{} was stopped by signal {} ({})", who, WSTOPSIG(rank.status),
                       strsignal(WSTOPSIG(rank.status)));
  return fmt::format("{} ended with exit code {}", who, WEXITSTATUS(rank.status));
}
int exit_code(const Rank& rank) {
  if (WIFSTOPPED(rank.status)) return 128 + WSTOPSIG(rank.status);
  return WIFSIGNALED(rank.status) ? 128 + WTERMSIG(rank.status) : WEXITSTATUS(rank.status);
}

class Launcher {
 public:
  Launcher(const LaunchArguments& arguments, std::vector<std::string> words)
      : arguments_(arguments), words_(std::move(words)), stop_(watch_signals()) {
    const std::vector<Command>& all = commands();
    const bool is_ours =
        std::ranges::any_of(all, [&](const Command& command) { return command.name == words_[0]; });
    program_ = is_ours ? "/proc/self/exe" : words_[0];
    if (is_ours) words_.insert(words_.begin(), "brim");
  }

  int run() {
    for (int attempt = 0;; ++attempt) {
      start_all(attempt);
      watch();
      const Rank* const failed =
          first_failed_ >= 0 ? &ranks_[static_cast<size_t>(first_failed_)] : nullptr;
      if (!failed) return 0;
      const int code = exit_code(*failed);
      const bool was_asked =
          WIFEXITED(failed->status) &&
          (code == 128 + SIGINT || code == 128 + SIGTERM || code == 128 + SIGHUP);
      if (stop_.load() != 0 || was_asked) return code;  // it has stopped as it should
      say_who_failed();
      if (attempt >= arguments_.restarts) return code;
      say(stderr, "brim: starting all {} ranks again, {} of {}\n", arguments_.ranks, attempt + 1,
          arguments_.restarts);
    }
  }

 private:
  void start_all(int attempt) {
    std::map<std::string, std::string> variables = {
        {"WORLD_SIZE", std::to_string(arguments_.ranks)},
        {"LOCAL_WORLD_SIZE", std::to_string(arguments_.ranks)},
        {"MASTER_ADDR", "127.0.0.1"},
        {"MASTER_PORT", std::to_string(free_port())},
        {"TORCHELASTIC_RESTART_COUNT", std::to_string(attempt)},
        {"BRIM_LAUNCHER", "brim launch"},
        {"BRIM_TOKEN", random_token()}};
    first_failed_ = -1;
    ranks_.assign(static_cast<size_t>(arguments_.ranks), {});
    for (size_t r = 0; r < ranks_.size(); ++r) {
      ranks_[r].number = static_cast<int>(r);
      variables["RANK"] = variables["LOCAL_RANK"] = std::to_string(r);
      start(ranks_[r], variables);
    }
  }

  void start(Rank& rank, const std::map<std::string, std::string>& variables) {
    std::vector<std::string> environment;
    for (char** entry = environ; *entry; ++entry) {
      const std::string text = *entry, name = text.substr(0, text.find('='));
      if (!variables.contains(name) && name != "TORCHELASTIC_RUN_ID") environment.push_back(text);
    }
    for (const auto& [name, value] : variables) environment.push_back(name + "=" + value);
    const std::vector<char*> words = pointers(words_), names = pointers(environment);
    int output[2] = {-1, -1};
    if (rank.number > 0)
      BRIM_CHECK(pipe2(output, O_CLOEXEC) == 0, Error, "[launch] no pipe: {}",
                 dist::error_text(errno));
    int failure[2];  // what exec met
    BRIM_CHECK(pipe2(failure, O_CLOEXEC) == 0, Error, "[launch] no pipe: {}",
               dist::error_text(errno));
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const pid_t parent = getpid();
    rank.pid = fork();
    BRIM_CHECK(rank.pid >= 0, Error, "[launch] no process for rank {}: {}", rank.number,
               dist::error_text(errno));
    if (rank.pid == 0) {
      setpgid(0, 0);  // the terminal's signals come to the launcher, which passes them on once
      if (isatty(STDIN_FILENO) == 1) dup2(nothing, STDIN_FILENO);  // it would stop who reads there
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (getppid() != parent) _exit(1);
      if (output[1] >= 0) dup2(output[1], STDOUT_FILENO), dup2(output[1], STDERR_FILENO);
      for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ}) signal(number, SIG_DFL);
      signal(SIGTTOU, SIG_IGN);  // and who writes, with `stty tostop`
      execvpe(program_.c_str(), words.data(), names.data());
      const int error = errno;
      (void)!write(failure[1], &error, sizeof(error));
      _exit(127);
    }
    setpgid(rank.pid, rank.pid);  // here, too: whoever comes first
    rank.running = true;
    close(nothing);
    close(failure[1]);
    if (output[1] >= 0) {
      close(output[1]);
      fcntl(output[0], F_SETFL, O_NONBLOCK);
    }
    rank.output = output[0];
    int error = 0;
    const bool failed = read(failure[0], &error, sizeof(error)) == sizeof(error);
    close(failure[0]);
    if (!failed) return;
    send_all(SIGKILL);
    raise<Error>("[launch] '{}' cannot be started: {}", words_[0], dist::error_text(error));
  }

  static std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (std::string& text : texts) all.push_back(text.data());
    all.push_back(nullptr);
    return all;
  }

  /// Until all have ended.
  void watch() {
    double failed_at = 0;
    int told = 0;  // how far those that go on were told to end
    told_ = said_ = false;
    int passed_on = 0;
    while (reap()) {
      pass_output(20);
      const double now = steady_seconds();
      if (const int signal = stop_.load(); signal != passed_on) {
        passed_on = signal;
        send_all(signal);
        send_all(SIGCONT);  // to those that were stopped, too
      }
      if (first_failed_ < 0) continue;
      // Ranks that were told to stop write a checkpoint first, however long that takes; unless one
      // of them was not so far yet that it could.
      if (passed_on != 0 && !WIFSIGNALED(ranks_[static_cast<size_t>(first_failed_)].status))
        continue;
      if (failed_at == 0) failed_at = now;
      const double since = now - failed_at;
      if (passed_on == 0 && since > kSettle) say_who_failed();
      if (told == 0 && since > kGrace) {
        told = 1;
        told_ = true;
        send_all(SIGTERM);
        send_all(SIGCONT);  // one that was stopped ends, too
      }
      if (told == 1 && since > kGrace + kUntilKilled) told = 2, send_all(SIGKILL);
    }
    // What they left in their pipes; processes that they started may hold these open for ever.
    for (const double end = steady_seconds() + kForOutput;
         pass_output(50) && steady_seconds() < end;) {
    }
    for (Rank& rank : ranks_) close_output(rank);
  }

  /// Once, as soon as it is known: the others may take longer to end.
  void say_who_failed() {
    if (!std::exchange(said_, true))
      say(stderr, "brim: {}\n", end_of(ranks_[static_cast<size_t>(first_failed_)]));
  }

  void send_all(int signal) {
    for (const Rank& rank : ranks_)
      if (rank.running) kill(-rank.pid, signal);  // with what it has started
  }

  /// Notices who has ended or was stopped. Returns whether somebody has not ended.
  bool reap() {
    bool any = false;
    for (Rank& rank : ranks_) {
      if (!rank.running) continue;
      int status = 0;
      if (waitpid(rank.pid, &status, WNOHANG | WUNTRACED | WCONTINUED) != rank.pid) {
        any = true;
        continue;
      }
      rank.stopped_at = WIFSTOPPED(status) ? steady_seconds() : 0;
      // One that failed because it was stopped is told to end: how it does is not why.
      const bool is_known = rank.number == first_failed_ && WIFSTOPPED(rank.status);
      if (!WIFCONTINUED(status) && !is_known) rank.status = status;
      if (WIFSTOPPED(status) || WIFCONTINUED(status)) {
        any = true;
        continue;
      }
      rank.running = false;
      if (exit_code(rank) == 0) continue;
      // Of those that ended together the one that was killed was first.
      if (first_failed_ < 0 || (!told_ && WIFSIGNALED(rank.status) &&
                                WIFEXITED(ranks_[static_cast<size_t>(first_failed_)].status)))
        first_failed_ = rank.number;
    }
    find_stopped();
    return any;
  }

  /// A rank that stays stopped while others run, or have ended, has failed: they notice it, too,
  /// unless they have not met yet or have parted. Where all are stopped, somebody has paused them.
  void find_stopped() {
    const auto is_stopped = [](const Rank& rank) { return rank.running && rank.stopped_at > 0; };
    if (first_failed_ >= 0 || stop_.load() != 0) return;
    if (std::ranges::all_of(ranks_, is_stopped)) {
      // They go on one after the other: their time counts from the first one that does.
      for (Rank& rank : ranks_) rank.stopped_at = steady_seconds();
      return;
    }
    const double now = steady_seconds();
    for (const Rank& rank : ranks_)
      if (first_failed_ < 0 && rank.running && rank.stopped_at > 0 &&
          now - rank.stopped_at > kStopped)
        first_failed_ = rank.number;
  }

  /// Hands on what ranks other than 0 wrote, line by line; waits so many milliseconds for
  /// something. Returns whether more may come.
  bool pass_output(int milliseconds) {
    std::vector<pollfd> entries;
    for (const Rank& rank : ranks_)
      if (rank.output >= 0) entries.push_back({rank.output, POLLIN, 0});
    (void)poll(entries.data(), entries.size(), milliseconds);
    for (Rank& rank : ranks_) {
      char bytes[4096];
      while (rank.output >= 0) {
        const ssize_t n = read(rank.output, bytes, sizeof(bytes));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
        if (n > 0)
          add_output(rank, {bytes, static_cast<size_t>(n)});
        else
          close_output(rank);
      }
    }
    return std::ranges::any_of(ranks_, [](const Rank& rank) { return rank.output >= 0; });
  }

  static void add_output(Rank& rank, std::string_view text) {
    constexpr size_t kLongest = 65536;
    rank.line += text;
    while (true) {
      const size_t end = std::min(rank.line.find('\n'), kLongest);
      if (end >= rank.line.size()) return;
      say(stderr, "[rank {}] {}\n", rank.number, rank.line.substr(0, end));
      rank.line.erase(0, end + (rank.line[end] == '\n'));
    }
  }

  static void close_output(Rank& rank) {
    if (rank.output < 0) return;
    if (!rank.line.empty())
      say(stderr, "[rank {}] {}\n", rank.number, std::exchange(rank.line, ""));
    close(std::exchange(rank.output, -1));
  }

  const LaunchArguments arguments_;
  std::vector<std::string> words_;
  std::string program_;
  const std::atomic<int>& stop_;
  std::vector<Rank> ranks_;
  int first_failed_ = -1;
  bool told_ = false;  // ranks were told to end because of it
  bool said_ = false;  // that it did
};

const Register launch_command(
    {"launch", "run a command as several ranks on this machine",
     [](Arguments args) -> std::function<int()> {
       auto o = std::make_shared<LaunchArguments>();
       args.add("-n,--ranks", o->ranks, "processes to start").required().range(1, 4096);
       args.add("--restarts", o->restarts,
                "start all of them again when one fails, at most so often; with --out and --resume "
                "of the same folder a training goes on from its newest checkpoint")
           .range(0, 1000000)
           .show_default();
       return [o] {
         std::vector<std::string> words = wrapped_words();
         if (words.empty())
           throw UsageError("which command? For example: brim launch -n 2 train tutorial-cnn");
         return Launcher(*o, std::move(words)).run();
       };
     },
     Wraps::a_command});

}  // namespace
}  // namespace brim::command
