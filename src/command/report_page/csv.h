// The reports of trainings as a table, for spreadsheets and data frames.
#pragma once

#include <string>
#include <vector>

namespace brim::command::page {

/// RFC 4180: a row for each line of the runs' history.jsonl, which are all read twice. `run` is its
/// folder; the other columns are the numbers and texts of the lines, nested ones by their path, as
/// "devices.0.account.seconds.compute". A text that a spreadsheet would compute begins with an
/// apostrophe. Throws FileError where a folder has no history, for more than 2,000 columns,
/// and for a table beyond 512 MiB.
std::string csv_of(const std::vector<std::string>& folders);

}  // namespace brim::command::page
