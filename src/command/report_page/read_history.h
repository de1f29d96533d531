// history.jsonl: the state of a training at every report (schema brim.run/1).
#pragma once

#include <string>

#include "command/report_page/run.h"

namespace brim::command::page {

void read_history(const std::string& path, Run& run);

}  // namespace brim::command::page
