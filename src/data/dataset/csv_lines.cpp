#include "data/dataset/csv_lines.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "core/check.h"
#include "data/mapped_file.h"

namespace brim::data {
namespace {

[[noreturn]] void raise_twice(const std::string& name, const std::string& path) {
  raise<FileError>("{}: two columns are called '{}'", path, name);
}

}  // namespace

CsvLines::CsvLines(std::string_view text, char delimiter, std::string path)
    : left_(text), delimiter_(delimiter), path_(std::move(path)) {}

bool CsvLines::next(std::vector<std::string_view>& fields) {
  while (!left_.empty() && (left_[0] == '\n' || left_[0] == '\r')) {
    line_ += left_[0] == '\n';
    left_.remove_prefix(1);
  }
  fields.clear();
  unquoted_.clear();
  if (left_.empty()) return false;
  at_ = ++line_;
  while (fields.empty() || !ends_) fields.push_back(field());
  ends_ = false;
  return true;
}

std::string_view CsvLines::field() {
  if (left_.starts_with('"')) return quoted();
  size_t size = 0;
  while (size < left_.size() && left_[size] != delimiter_ && left_[size] != '\n') ++size;
  std::string_view text = left_.substr(0, size);
  if (text.ends_with('\r')) text.remove_suffix(1);
  left_.remove_prefix(size);
  finish_field();
  return text;
}

std::string_view CsvLines::quoted() {
  // Without doubled quotes the text is as it stands.
  std::string text;
  size_t from = 1;
  for (;;) {
    const size_t quote = left_.find('"', from);
    BRIM_CHECK(quote != std::string_view::npos, FileError, "{}: line {}: a quote that never ends",
               path_, at_);
    text.append(left_.substr(from, quote - from));
    from = quote + 1;
    if (from >= left_.size() || left_[from] != '"') break;
    text += '"';
    ++from;
  }
  line_ += std::ranges::count(left_.substr(0, from), '\n');
  left_.remove_prefix(from);
  if (left_.starts_with('\r')) left_.remove_prefix(1);
  BRIM_CHECK(left_.empty() || left_[0] == delimiter_ || left_[0] == '\n', FileError,
             "{}: line {}: text behind a field in quotes", path_, at_);
  finish_field();
  return *unquoted_.insert(unquoted_.end(), std::move(text));
}

void CsvLines::finish_field() {
  ends_ = left_.empty() || left_[0] == '\n';
  if (!left_.empty() && !ends_) left_.remove_prefix(1);
  if (!left_.empty() && ends_) left_.remove_prefix(1);
}

void read_text(const std::string& path, const std::function<void(std::string_view)>& read) {
  const MappedFile file(path);
  with_check(file, [&] {
    std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
    if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // of UTF-8
    read(text);
  });
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text[0] == ' ' || text[0] == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

double number_in(std::string_view field) {
  std::string_view text = trimmed(field);
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() &&
                 std::abs(value) <= std::numeric_limits<float>::max()
             ? value
             : std::numeric_limits<double>::quiet_NaN();
}

std::vector<std::string> column_names(const std::vector<std::string_view>& fields) {
  std::vector<std::string> names;
  for (const std::string_view field : fields) names.emplace_back(trimmed(field));
  return names;
}

void check_distinct(std::vector<std::string> names, const std::string& path) {
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice != names.end()) raise_twice(*twice, path);
}

size_t find_column(const std::vector<std::string>& names, const std::string& name,
                   const std::string& path) {
  const auto found = std::ranges::find(names, name);
  BRIM_CHECK(found != names.end(), FileError, "{}: no column '{}'; there are {}", path, name,
             fmt::format("{}", fmt::join(names, ", ")));
  if (std::find(found + 1, names.end(), name) != names.end()) raise_twice(name, path);
  return static_cast<size_t>(found - names.begin());
}

std::string wrong_number(std::string_view field, const std::string& column) {
  return trimmed(field).empty()
             ? fmt::format("column '{}' is empty", column)
             : fmt::format("column '{}': '{}' is no finite number", column, field.substr(0, 40));
}

}  // namespace brim::data
