// monitor.jsonl: what the sensors said, a reading a line (command/monitor_report.h).
#pragma once

#include <string>

#include "command/report_page/run.h"

namespace brim::command::page {

void read_monitor(const std::string& path, Run& run);

}  // namespace brim::command::page
