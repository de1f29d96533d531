// What Prometheus is told of a running training (docs/WATCHING.md).
#pragma once

#include <map>
#include <string>
#include <utility>

#include "command/exposition.h"
#include "command/run_document.h"

namespace brim::command {

class RunMetrics {
 public:
  /// The run outlives it.
  explicit RunMetrics(const RunDocument& run) : run_(run) {}

  /// By one thread at a time.
  std::string page(MetricsFormat format);

 private:
  void add_accounts(Exposition& page, const train::RunStatus& status);

  const RunDocument& run_;
  /// What was told of a device's causes: an account may find out that less was computed and more
  /// was stolen, and Prometheus takes a counter that falls for one that began anew.
  std::map<std::pair<std::string, std::string>, double> told_;
};

}  // namespace brim::command
