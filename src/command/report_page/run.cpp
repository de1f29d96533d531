#include "command/report_page/run.h"

#include <algorithm>
#include <filesystem>

#include "command/report_page/json_values.h"
#include "command/report_page/most_wrong.h"
#include "command/report_page/read_history.h"
#include "command/report_page/read_monitor.h"
#include "core/check.h"
#include "core/json_text.h"
#include "io/regular_file.h"
#include "train/run_folder.h"

namespace brim::command::page {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHistoryFile = "history.jsonl";
constexpr const char* kResultFile = "result.json";
/// With a thousand classes and workers it has a hundredth of it.
constexpr uint64_t kMaxResult = 16 << 20;

bool holds(const std::string& path) {
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();
  BRIM_CHECK(!error || type == fs::file_type::not_found, FileError,
             "[report] {} cannot be read: {}; let this user read the run's folder (chown, chmod)",
             path, error.message());
  return type != fs::file_type::not_found;
}

void read_result(const std::string& path, Run& run) {
  const io::RegularFile file(path, "report", "the result of a training");
  std::string text(static_cast<size_t>(std::min(file.bytes(), kMaxResult)), '\0');
  file.read(text.data(), text.size(), 0);
  nlohmann::json json = parse_json(text);
  run.bad_result = !json.is_object();
  if (run.bad_result) return;
  // A resumed run writes it at its end alone.
  const std::optional<double> written = number_at(json, "time");
  run.old_result = written && number_at(run.last, "started").value_or(0) > *written;
  if (!run.old_result) run.result = std::move(json);
}

}  // namespace

Run read_run(const std::string& folder) {
  std::error_code error;
  BRIM_CHECK(fs::is_directory(folder, error), FileError,
             "[report] {} is no folder; give that of brim train --out", folder);
  const std::string history = folder + "/" + kHistoryFile, result = folder + "/" + kResultFile;
  const std::string monitor = folder + "/" + train::kMonitorFile;
  BRIM_CHECK(holds(history) || holds(result), FileError,
             "[report] {} holds neither {} nor {}; give the folder of brim train, prune, quantize "
             "or shrink --out",
             folder, kHistoryFile, kResultFile);
  Run run;
  run.folder = label_of(folder);
  run.result = run.last = nlohmann::json::object();
  if (holds(history)) read_history(history, run);
  if (holds(monitor)) read_monitor(monitor, run);
  if (holds(result)) read_result(result, run);
  run.most_wrong = most_wrong_of(run.result, folder);
  return run;
}

}  // namespace brim::command::page
