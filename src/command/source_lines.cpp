#include "command/source_lines.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <string_view>

namespace brim::command {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostText = size_t{1} << 20;
constexpr std::chrono::seconds kMostTime{20};  // debug information may be large

/// What a program writes to its standard output; "" where it does not run or takes too long.
std::string output_of(std::vector<std::string> words) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  const int error = posix_spawnp(&child, pointers[0], &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  if (error == 0) {
    const Clock::time_point end = Clock::now() + kMostTime;
    while (text.size() < kMostText && Clock::now() < end) {
      pollfd entry{ends[0], POLLIN, 0};
      if (poll(&entry, 1, 100) <= 0) continue;
      char bytes[4096];
      const ssize_t n = read(ends[0], bytes, sizeof(bytes));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      text.append(bytes, static_cast<size_t>(n));
    }
    kill(child, SIGKILL);
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  close(ends[0]);
  return text;
}

/// "/src/train.cpp:42 (discriminator 3)", or "??:0".
SourceLine place_of(std::string_view text, std::string_view function) {
  SourceLine place;
  if (function != "??") place.function = function;
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || text.starts_with("??")) return place;
  const std::string_view digits = text.substr(colon + 1);
  (void)std::from_chars(digits.data(), digits.data() + digits.size(), place.line);
  if (place.line > 0) place.file = text.substr(0, colon);
  return place;
}

}  // namespace

std::vector<std::vector<SourceLine>> parse_source_lines(const std::string& text, size_t count) {
  std::vector<std::vector<SourceLine>> all;
  std::string_view left = text, function;
  bool has_function = false;
  while (!left.empty()) {
    const size_t end = left.find('\n');
    const std::string_view line = left.substr(0, end);
    left = end == std::string_view::npos ? std::string_view() : left.substr(end + 1);
    if (!has_function && line.starts_with("0x")) {
      if (all.size() == count) break;
      all.emplace_back();
    } else if (!has_function) {
      function = line;
      has_function = true;
    } else {
      has_function = false;
      if (!all.empty()) all.back().push_back(place_of(line, function));
    }
  }
  all.resize(count);
  return all;
}

std::vector<std::vector<SourceLine>> source_lines(const std::string& file,
                                                  const std::vector<uint64_t>& addresses) {
  if (addresses.empty() || file.empty())
    return std::vector<std::vector<SourceLine>>(addresses.size());
  std::vector<std::string> words = {"addr2line", "-a", "-f", "-i", "-C", "-e", file, "--"};
  for (const uint64_t address : addresses) words.push_back(fmt::format("{:#x}", address));
  return parse_source_lines(output_of(std::move(words)), addresses.size());
}

}  // namespace brim::command
