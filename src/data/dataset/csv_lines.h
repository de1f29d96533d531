// Text of a table, cut into lines and fields.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <string_view>
#include <vector>

namespace brim::data {

/// Lines and their fields (RFC 4180: fields may be in quotes). Throws FileError, which names `path`
/// and the line, for quotes that are wrong.
class CsvLines {
 public:
  /// The text must outlive the object.
  CsvLines(std::string_view text, char delimiter, std::string path);

  /// Fills `fields` with those of the next line that is not empty; false at the end. They are valid
  /// until the next call.
  bool next(std::vector<std::string_view>& fields);
  int64_t line() const { return at_; }  ///< number of the line given last, from 1 on

 private:
  std::string_view field();
  std::string_view quoted();
  void finish_field();

  std::string_view left_;
  const char delimiter_;
  const std::string path_;
  std::list<std::string> unquoted_;  // fields of this line
  int64_t line_ = 0, at_ = 0;
  bool ends_ = false;  // the field was the last of its line
};

/// Calls `read` with the text of a file, which is mapped. Throws FileError.
void read_text(const std::string& path, const std::function<void(std::string_view)>& read);

/// Without spaces and tabs around it.
std::string_view trimmed(std::string_view text);

/// The names of columns that a first line has.
std::vector<std::string> column_names(const std::vector<std::string_view>& fields);

/// Throws FileError where two columns have one name.
void check_distinct(std::vector<std::string> names, const std::string& path);

/// The place of a column. Throws FileError where there is none of that name, or two.
size_t find_column(const std::vector<std::string>& names, const std::string& name,
                   const std::string& path);

/// NaN for what is no finite number of f32.
double number_in(std::string_view field);

/// What is wrong with a field of which number_in() is NaN.
std::string wrong_number(std::string_view field, const std::string& column);

}  // namespace brim::data
