// See cache_file.h.
#include "core/cache_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

namespace brim {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kVersion = 1;
constexpr size_t kMostChoices = 100000;  // what a file may hold
constexpr size_t kLongest = 500;         // characters of a problem or choice

void warn(const std::string& line) {
  std::fputs(("brim: warning: [cache] " + line + "\n").c_str(), stderr);
}

}  // namespace

std::string cache_path(const std::string& file) {
  if (const char* dir = std::getenv("XDG_CACHE_HOME"); dir && *dir == '/')
    return std::string(dir) + "/brim/" + file;
  if (const char* home = std::getenv("HOME"); home && *home == '/')
    return std::string(home) + "/.cache/brim/" + file;
  return {};
}

FileLock::FileLock(const std::string& path)
    : file_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600)) {
  constexpr int kTries = 200;
  for (int i = 0; file_ >= 0 && i < kTries; ++i) {
    if (flock(file_, LOCK_EX | LOCK_NB) == 0 || (errno != EWOULDBLOCK && errno != EINTR)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}
FileLock::~FileLock() {
  if (file_ >= 0) close(file_);
}

bool replace_file(const std::string& path, const std::string& text) {
  std::string beside = path + ".XXXXXX";
  const int file = mkstemp(beside.data());
  if (file < 0) return false;
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = write(file, text.data() + done, text.size() - done);
    if (n > 0)
      done += static_cast<size_t>(n);
    else if (n == 0 || errno != EINTR)
      break;
  }
  std::error_code error;
  const bool written = (close(file) == 0) && done == text.size();
  if (written) fs::rename(beside, path, error);
  if (written && !error) return true;
  fs::remove(beside, error);
  return false;
}

bool ChoiceFile::read(const std::string& path, Machines& all, std::string& why) {
  std::error_code error;
  if (path.empty() || !fs::exists(path, error)) return true;
  constexpr uintmax_t kMostBytes = 32 << 20;
  const auto damaged = [&](const char* what) {
    why = what;
    all.clear();
    return false;
  };
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) > kMostBytes || error)
    return damaged("not a file of choices");
  std::ifstream file(path);
  const Json root = Json::parse(file, nullptr, false);
  if (!root.is_object()) return damaged("not JSON");
  const auto version = root.find("version"), machines = root.find("machines");
  if (version == root.end() || !version->is_number_integer() || *version != kVersion)
    return damaged("of another version");
  if (machines == root.end() || !machines->is_object()) return damaged("has no machines");
  size_t count = 0;
  for (const auto& [name, choices] : machines->items()) {
    if (!choices.is_object()) return damaged("a machine has no choices");
    for (const auto& [problem, choice] : choices.items()) {
      if (!choice.is_string()) return damaged("a choice is no text");
      const auto& text = choice.get_ref<const std::string&>();
      if (text.size() > kLongest || problem.size() > kLongest || ++count > kMostChoices)
        return damaged("a choice cannot be");
      all[name][problem] = text;
    }
  }
  return true;
}

ChoiceFile::ChoiceFile(std::string path, std::string machine)
    : path_(std::move(path)), machine_(std::move(machine)) {
  std::string why;
  if (!read(path_, all_, why)) warn(fmt::format("{}: {}; measuring again", path_, why));
}

std::optional<std::string> ChoiceFile::find(const std::string& problem) const {
  const std::lock_guard lock(mutex_);
  const auto of_machine = all_.find(machine_);
  if (of_machine == all_.end()) return {};
  const auto found = of_machine->second.find(problem);
  if (found == of_machine->second.end()) return {};
  return found->second;
}

void ChoiceFile::keep(const std::string& problem, const std::string& choice) {
  const std::lock_guard lock(mutex_);
  all_[machine_][problem] = choice;
  if (path_.empty()) return;
  std::error_code error;
  fs::create_directories(fs::path(path_).parent_path(), error);
  const FileLock file_lock(path_ + ".lock");
  Machines found;
  std::string why;
  (void)read(path_, found, why);
  for (auto& [machine, choices] : found) all_[machine].merge(choices);
  size_t count = 0;
  for (const auto& [machine, choices] : all_) count += choices.size();
  if (count > kMostChoices) all_ = {{machine_, {{problem, choice}}}};
  const Json root{{"version", kVersion}, {"machines", all_}};
  // Problems have no odd characters, but names of machines come from drivers.
  const std::string text = root.dump(1, ' ', false, Json::error_handler_t::replace);
  if (replace_file(path_, text + '\n') || warned_) return;
  warned_ = true;
  warn(fmt::format("cannot write {}; the next run measures again", path_));
}

}  // namespace brim
