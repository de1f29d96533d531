#include "command/report_page/csv.h"

#include <fmt/format.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "command/report_page/json_lines.h"
#include "command/report_page/json_values.h"
#include "core/check.h"

namespace brim::command::page {
namespace {

constexpr size_t kMaxCsvColumns = 2000, kMaxCsvBytes = size_t{512} << 20;
constexpr int kMaxCsvDepth = 8;

using Cell = std::function<void(const std::string& column, std::string text)>;

/// Of a file: printable, and nothing that a spreadsheet would compute.
std::string inert(const std::string& text) {
  std::string label = label_of(text);
  if (label.find_first_of("=+-@") == 0) label.insert(0, 1, '\'');
  return label;
}

/// A cell for each number, text and truth in it.
void flatten(const nlohmann::json& value, const std::string& column, const Cell& cell, int depth) {
  if (value.is_string()) return cell(column, inert(value.get_ref<const std::string&>()));
  if (value.is_number() || value.is_boolean()) return cell(column, value.dump());
  if (!value.is_structured() || depth == kMaxCsvDepth) return;
  for (const auto& [key, part] : value.items())
    flatten(part, column.empty() ? label_of(key) : column + "." + label_of(key), cell, depth + 1);
}

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

std::string history_of(const std::string& folder) { return folder + "/history.jsonl"; }

}  // namespace

std::string csv_of(const std::vector<std::string>& folders) {
  std::vector<std::string> columns;  // in the order in which they were met
  std::map<std::string, size_t> places;
  for (const std::string& folder : folders)
    read_json_lines(history_of(folder), [&](const nlohmann::json& line) {
      flatten(
          line, "",
          [&](const std::string& column, const std::string&) {
            if (!places.try_emplace(column, columns.size()).second) return;
            BRIM_CHECK(columns.size() < kMaxCsvColumns, FileError,
                       "[report] the lines of {} have more than {} different keys, which no "
                       "training writes; leave this run out of --csv",
                       history_of(folder), kMaxCsvColumns);
            columns.push_back(column);
          },
          0);
    });
  std::string csv = "run";
  for (const std::string& column : columns) csv += "," + quoted(inert(column));
  csv += "\r\n";
  for (const std::string& folder : folders)
    read_json_lines(history_of(folder), [&](const nlohmann::json& line) {
      std::vector<std::string> row(columns.size());
      flatten(
          line, "",
          [&](const std::string& column, std::string text) {
            if (const auto place = places.find(column); place != places.end())
              row[place->second] = std::move(text);  // a run may go on meanwhile, with other keys
          },
          0);
      csv += quoted(inert(folder));
      for (const std::string& text : row) csv += "," + quoted(text);
      csv += "\r\n";
      BRIM_CHECK(csv.size() <= kMaxCsvBytes, FileError,
                 "[report] the table grows beyond {} MiB at {}; give fewer runs to --csv",
                 kMaxCsvBytes >> 20, history_of(folder));
    });
  return csv;
}

}  // namespace brim::command::page
