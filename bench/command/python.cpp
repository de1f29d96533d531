// See python.h.
#include "bench/command/python.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "command/shared_path.h"
#include "core/check.h"
#include "io/atomic_file.h"

namespace brim::command {
namespace {

namespace fs = std::filesystem;

fs::path find_script(const fs::path& self, const std::string& name) {
  const std::optional<fs::path> script =
      shared_path(fs::path("share/brim/bench") / name, fs::path("bench") / name);
  BRIM_CHECK(script, FileError,
             "[bench] {0} is in no folder above {1}; install brim with `cmake --install`, or run "
             "bench/{0} of its sources with --brim {2}",
             name, self.parent_path().string(), self.string());
  return *script;
}

std::string find_python(const std::string& named) {
  if (!named.empty()) return named;
  const char* variable = std::getenv("BRIM_PYTHON");  // NOLINT(concurrency-mt-unsafe)
  return variable && *variable ? variable : "python3";
}

[[noreturn]] void fail(const std::string& python, const std::string& what) {
  raise<FileError>(
      "[bench] {} {}; name a Python that has PyTorch with --python PATH or in BRIM_PYTHON", python,
      what);
}

/// What the program prints for `code`, up to a few bytes.
std::string answer(std::string python, std::string code) {
  int ends[2];
  BRIM_CHECK(pipe2(ends, O_CLOEXEC) == 0, FileError, "[bench] no pipe can be made: {}",
             io::error_text(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::string option = "-c";
  char* argv[] = {python.data(), option.data(), code.data(), nullptr};
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  for (char c = 0; error == 0 && text.size() < 16 && read(ends[0], &c, 1) == 1;) text += c;
  close(ends[0]);
  if (error != 0) fail(python, fmt::format("cannot be started ({})", io::error_text(error)));
  waitpid(child, nullptr, 0);
  return text;
}

}  // namespace

void exec_script(const std::string& named, const std::string& script,
                 const std::vector<std::string>& arguments) {
  const fs::path self = fs::read_symlink("/proc/self/exe");
  const std::string python = find_python(named);
  // /bin/true in its place would succeed without a word.
  if (answer(python, "print(6 * 7)") != "42\n") fail(python, "does not run Python's code");
  std::vector<std::string> words{python, find_script(self, script), "--brim", self};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::fflush(stdout);
  execvp(argv[0], argv.data());
  fail(python, fmt::format("cannot be started ({})", io::error_text(errno)));
}

}  // namespace brim::command
