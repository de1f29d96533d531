// The files in a run's folder that grow while it runs, one JSON object a line.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/open_to_write.h"

namespace brim::command {

/// Removes those of a run in whose folder another begins anew. Throws FileError.
void remove_logs(const std::string& folder);

/// Begun with the first line, added to what is there. When a file cannot be written, it is given up
/// and errors() says so. Where a run that failed leaves nothing else behind, they go too, and its
/// result.
class RunLog {
 public:
  /// Before the run makes the folder. Empty: nothing is kept.
  explicit RunLog(const std::string& folder);
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  // Each by one thread at a time.

  /// train::kMonitorFile: what the sensors say.
  void add_reading(const nlohmann::ordered_json& reading) { add(readings_, reading); }
  /// train::kHistoryFile: what the run says at a report.
  void add_report(const nlohmann::ordered_json& report) { add(reports_, report); }
  bool has_reports() const { return reports_.out != nullptr; }
  /// Once they are all written.
  std::vector<std::string> errors() const;

 private:
  struct File {
    const char* name;
    const char* what;  // is not kept
    OwnedStream out{nullptr, nullptr};
    std::string error;
  };
  void add(File& file, const nlohmann::ordered_json& json);

  std::string folder_;
  bool was_there_ = false;  // the folder
  File readings_, reports_;
};

}  // namespace brim::command
