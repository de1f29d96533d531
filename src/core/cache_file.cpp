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

#include "core/open_to_write.h"
#include "core/printable.h"

namespace brim {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kVersion = 1;
constexpr size_t kMaxValues = 100000;                       // values that a file may hold
constexpr uintmax_t kMaxBytes = 32 << 20;                   // of a file
constexpr size_t kLongestKey = 4000, kLongestChoice = 500;  // characters
constexpr double kLongestTime = 3600;                       // seconds; more is damage

void warn(const std::string& line) { warn_on_stderr("[cache] " + line); }

/// Keeps other threads and processes from writing a file at the same time, by a lock file of this
/// path. Where that cannot be, or somebody holds the lock for long, it does nothing: at worst work
/// is done again.
class FileLock {
 public:
  explicit FileLock(const std::string& path) : file_(open_to_write(path, O_RDWR, 0600)) {
    constexpr int kTries = 200;
    for (int i = 0; file_ >= 0 && i < kTries; ++i) {
      if (flock(file_, LOCK_EX | LOCK_NB) == 0 || (errno != EWOULDBLOCK && errno != EINTR)) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  ~FileLock() {
    if (file_ >= 0) close(file_);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int file_;
};

/// Writes `text` beside its place under a name of its own and renames it, so that readers see all
/// of it or nothing. False if that failed.
bool replace_file(const std::string& path, std::string_view text) {
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

template <class Value>
bool is_value(const Json& json);
template <>
bool is_value<double>(const Json& json) {
  return json.is_number() && json.get<double>() >= 0 && json.get<double>() < kLongestTime;
}
template <>
bool is_value<std::string>(const Json& json) {
  return json.is_string() && json.get_ref<const std::string&>().size() <= kLongestChoice;
}

template <class Value>
std::string text_of(const Measured<Value>& all) {
  const Json root{{"version", kVersion}, {"machines", all}};
  // Names of machines come from drivers, and may have odd characters.
  return root.dump(1, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace

std::string cache_path(const std::string& file) {
  if (const char* dir = std::getenv("XDG_CACHE_HOME"); dir && *dir == '/')
    return std::string(dir) + "/brim/" + file;
  if (const char* home = std::getenv("HOME"); home && *home == '/')
    return std::string(home) + "/.cache/brim/" + file;
  return {};
}

bool write_cache_file(const std::string& path, std::string_view bytes) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  return replace_file(path, bytes);
}

template <class Value>
bool read_measured(const std::string& path, Measured<Value>& all, std::string& why) {
  std::error_code error;
  if (path.empty() || !fs::exists(path, error)) return true;
  const auto damaged = [&](const char* what) {
    why = what;
    all.clear();
    return false;
  };
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) > kMaxBytes || error)
    return damaged("not a file of measurements");
  std::ifstream file(path);
  const Json root = Json::parse(file, nullptr, false);
  if (!root.is_object()) return damaged("not JSON");
  const auto version = root.find("version"), machines = root.find("machines");
  if (version == root.end() || !version->is_number_integer() || *version != kVersion)
    return damaged("of another version");
  if (machines == root.end() || !machines->is_object()) return damaged("has no machines");
  size_t count = 0;
  for (const auto& [name, values] : machines->items()) {
    if (!values.is_object()) return damaged("a machine has no values");
    for (const auto& [key, value] : values.items()) {
      if (key.size() > kLongestKey || !is_value<Value>(value) || ++count > kMaxValues)
        return damaged("a value cannot be");
      all[name][key] = value.template get<Value>();
    }
  }
  return true;
}

template <class Value>
bool write_measured(const std::string& path, Measured<Value>& all, const std::string& machine) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  const FileLock lock(path + ".lock");
  Measured<Value> found;
  std::string why;
  (void)read_measured(path, found, why);
  for (auto& [name, values] : found) all[name].merge(values);
  for (auto& [name, values] : all)
    std::erase_if(values, [](const auto& entry) { return !is_value<Value>(entry.second); });
  // No file that the next run would refuse: others' values go first, then one's own.
  std::string text;
  const auto fits = [&] {
    size_t count = 0;
    for (const auto& [name, values] : all) count += values.size();
    if (count > kMaxValues) return false;
    text = text_of(all);
    return text.size() <= kMaxBytes;
  };
  bool is_short = fits();
  if (!is_short) {
    std::erase_if(all, [&](const auto& entry) { return entry.first != machine; });
    is_short = fits();
  }
  if (!is_short) {
    all.clear();
    text = text_of(all);
  }
  return replace_file(path, text);
}

template bool read_measured(const std::string&, Measured<double>&, std::string&);
template bool read_measured(const std::string&, Measured<std::string>&, std::string&);
template bool write_measured(const std::string&, Measured<double>&, const std::string&);
template bool write_measured(const std::string&, Measured<std::string>&, const std::string&);

ChoiceFile::ChoiceFile(std::string path, std::string machine)
    : path_(std::move(path)), machine_(std::move(machine)) {
  std::string why;
  if (!read_measured(path_, all_, why)) warn(fmt::format("{}: {}; measuring again", path_, why));
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
  if (write_measured(path_, all_, machine_) || warned_) return;
  warned_ = true;
  warn(fmt::format("cannot write {}; the next run measures again", path_));
}

}  // namespace brim
