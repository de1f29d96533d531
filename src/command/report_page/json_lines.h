// The lines of a .jsonl file, one at a time: a file of a day is long, and a process that died left
// its last line cut short.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace brim::command::page {

struct LineCounts {
  int64_t good = 0;
  int64_t bad = 0;       ///< no JSON object, or longer than 64 KiB
  int64_t left_out = 0;  ///< bytes beyond what is read of one file
  bool cut = false;      ///< the last line has no end and is no JSON
};

/// Calls `take` with every line that is a JSON object. Throws FileError where `path` is there and
/// cannot be read.
LineCounts read_json_lines(const std::string& path,
                           const std::function<void(const nlohmann::json&)>& take);

}  // namespace brim::command::page
