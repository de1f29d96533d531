// A training as its folder tells it.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "command/report_page/account_series.h"
#include "command/report_page/json_lines.h"
#include "command/report_page/series.h"

namespace brim::command::page {

struct Run {
  std::string folder;  ///< printable
  Charts charts;
  std::map<std::string, AccountSeries> accounts;  ///< by device
  std::map<std::string, double> energy;           ///< joule, by device, of all processes
  nlohmann::json result;                          ///< an object; empty where there is none
  nlohmann::json last;                            ///< line of the history, an object
  nlohmann::ordered_json most_wrong;              ///< see most_wrong.h
  LineCounts history, monitor;
  int sessions = 0;            ///< processes that wrote the history
  double session_begin = 0;    ///< of the last of them, on the charts' axis of time
  double session_started = 0;  ///< the same in Unix seconds
  double images = 0;           ///< of all processes
  bool bad_result = false;     ///< result.json is there, and no JSON object
  bool old_result = false;     ///< it is of an earlier process than the history's end; left out
};

/// Throws FileError where `folder` is no folder, or holds no run.
Run read_run(const std::string& folder);

}  // namespace brim::command::page
