#include "command/run_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/write_cure.h"
#include "io/append_lines.h"
#include "io/atomic_file.h"
#include "train/run_folder.h"

namespace brim::command {

namespace fs = std::filesystem;

void remove_logs(const std::string& folder) {
  for (const char* name : {train::kMonitorFile, train::kHistoryFile}) {
    const fs::path path = fs::path(folder) / name;
    std::error_code error;
    fs::remove(path, error);
    BRIM_CHECK(!error, FileError, "[log] {} cannot be removed: {}", path.string(),
               write_failure(error.value(), "choose another --out"));
  }
}

RunLog::RunLog(const std::string& folder)
    : folder_(folder),
      readings_{.name = train::kMonitorFile, .what = "readings"},
      reports_{.name = train::kHistoryFile, .what = "reports"} {
  std::error_code error;
  was_there_ = fs::exists(folder, error);
}

RunLog::~RunLog() {
  if (was_there_ || (!readings_.out && !reports_.out)) return;
  readings_.out.reset();
  reports_.out.reset();
  const std::vector<std::string> own = {train::kMonitorFile, train::kHistoryFile,
                                        train::kResultFile};
  std::error_code error;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error))
    if (std::ranges::count(own, it->path().filename().string()) == 0) return;
  if (error) return;
  for (const std::string& name : own) fs::remove(fs::path(folder_) / name, error);
  fs::remove(folder_, error);
}

void RunLog::add(File& file, const nlohmann::ordered_json& json) {
  if (folder_.empty() || !file.error.empty()) return;
  const std::string path = (fs::path(folder_) / file.name).string();
  if (!file.out) file.out = io::open_lines(path);
  const std::string line =
      json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
  if (!file.out || std::fwrite(line.data(), 1, line.size(), file.out.get()) != line.size() ||
      std::fflush(file.out.get()) != 0)
    file.error = fmt::format("{} cannot be written: {}; {} are not kept there", path,
                             io::error_text(errno), file.what);
}

std::vector<std::string> RunLog::errors() const {
  std::vector<std::string> errors;
  for (const File* file : {&readings_, &reports_})
    if (!file->error.empty()) errors.push_back(file->error);
  return errors;
}

}  // namespace brim::command
