#include "command/report_page/json_lines.h"

#include <algorithm>
#include <string_view>

#include "core/json_text.h"
#include "io/regular_file.h"

namespace brim::command::page {
namespace {

constexpr size_t kMaxLine = 64 << 10;
constexpr uint64_t kChunk = 1 << 20;
/// A day with ten readings a second has a fifth of it.
constexpr uint64_t kMaxBytes = uint64_t{1} << 30;

}  // namespace

LineCounts read_json_lines(const std::string& path,
                           const std::function<void(const nlohmann::json&)>& take) {
  const io::RegularFile file(path, "report", "lines of JSON");
  const uint64_t bytes = std::min(file.bytes(), kMaxBytes);
  LineCounts counts;
  counts.left_out = static_cast<int64_t>(file.bytes() - bytes);
  std::string line, chunk;
  bool too_long = false;
  const auto end_line = [&](bool last) {
    const bool blank = line.find_first_not_of(" \t\r") == std::string::npos;
    if (too_long) {
      ++counts.bad;
    } else if (!blank) {
      const nlohmann::json json = parse_json(line);
      if (json.is_object()) {
        ++counts.good;
        take(json);
      } else if (last) {
        counts.cut = true;
      } else {
        ++counts.bad;
      }
    }
    line.clear();
    too_long = false;
  };
  for (uint64_t at = 0; at < bytes; at += chunk.size()) {
    chunk.resize(static_cast<size_t>(std::min(kChunk, bytes - at)));
    file.read(chunk.data(), chunk.size(), at);
    std::string_view rest = chunk;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      if (line.size() + end > kMaxLine) too_long = true;
      if (!too_long) line.append(rest.substr(0, end));
      if (end == rest.size()) break;
      end_line(false);
      rest.remove_prefix(end + 1);
    }
  }
  end_line(true);
  return counts;
}

}  // namespace brim::command::page
