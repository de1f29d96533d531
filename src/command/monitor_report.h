// What the sensors said, for people and for files.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <brim/diag/monitor.h>

#include "core/open_to_write.h"

namespace brim::command {

/// One line for each cuda device whose sensors can be read: "cuda:0: busy 97 % (SMs 83 %, ...".
std::vector<std::string> sensor_lines(const diag::MonitorSummary& summary);
/// The same numbers and the host's, by name; null where there is no such sensor.
nlohmann::ordered_json to_json(const diag::MonitorSummary& summary);

/// FOLDER/monitor.jsonl (train::kMonitorFile): one JSON object a line for each reading, added to
/// what is there. Begun with the first reading; when it cannot be written, it is given up and says
/// so in `error()`. Where a run that failed leaves nothing else behind, it goes too.
class MonitorFile {
 public:
  /// Before the run makes the folder. Empty: readings are not kept.
  explicit MonitorFile(const std::string& folder);
  ~MonitorFile();
  MonitorFile(const MonitorFile&) = delete;
  MonitorFile& operator=(const MonitorFile&) = delete;
  void add(const diag::Reading& reading);
  const std::string& error() const { return error_; }

 private:
  std::string folder_, error_;
  bool was_there_ = false;  // the folder
  OwnedStream out_{nullptr, nullptr};
};

}  // namespace brim::command
