#include "command/run_program.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

#include "command/signals.h"
#include "core/check.h"

namespace brim::command {

int run_program(std::vector<std::string> words, const std::pair<std::string, std::string>& variable,
                bool prints_to_errors) {
  const std::string begins = variable.first + "=";
  std::vector<std::string> environment;
  for (char** entry = environ; *entry; ++entry)
    if (!std::string_view(*entry).starts_with(begins)) environment.emplace_back(*entry);
  environment.push_back(begins + variable.second);
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (std::string& text : texts) all.push_back(text.data());
    all.push_back(nullptr);
    return all;
  };
  const std::vector<char*> arguments = pointers(words), names = pointers(environment);
  const std::atomic<int>& stop = watch_signals();
  std::signal(SIGCHLD, SIG_DFL);  // else nobody would learn how it ended
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;  // this command ignores some, which the program does not expect
  sigemptyset(&defaults);
  for (const int number : {SIGPIPE, SIGXFSZ, SIGCHLD}) sigaddset(&defaults, number);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (prints_to_errors) posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t child = -1;
  const int error =
      posix_spawnp(&child, arguments[0], &actions, &attributes, arguments.data(), names.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  BRIM_CHECK(error == 0, Error, "[doctor] '{}' cannot be started: {}", words[0],
             std::strerror(error));
  int status = 0;
  bool is_passed_on = false;
  while (true) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) break;
    BRIM_CHECK(ended == 0 || errno == EINTR, Error, "[doctor] '{}' is lost: {}", words[0],
               std::strerror(errno));
    if (stop.load() != 0 && stop.load() != SIGINT && !std::exchange(is_passed_on, true))
      kill(child, stop.load());
    usleep(20'000);
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace brim::command
