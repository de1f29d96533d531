// Pictures with a table of targets beside them.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "core/check.h"
#include "data/dataset/csv_lines.h"
#include "data/dataset/picture_source.h"
#include "data/source/listing.h"

namespace brim::data {
namespace {

namespace fs = std::filesystem;

/// One line of the table.
struct TableLine {
  std::string file;
  std::string split;
  std::vector<float> targets;
};

/// The table as it stands, checked line by line.
class PictureTable {
 public:
  PictureTable(const std::string& folder, Targets targets)
      : folder_(folder), path_((fs::path(folder) / "labels.csv").string()), kind_(targets) {
    read_text(path_, [&](std::string_view text) {
      CsvLines lines(text, ',', path_);
      std::vector<std::string_view> fields;
      BRIM_CHECK(lines.next(fields), FileError, "{}: no lines", path_);
      find_columns(fields);
      while (lines.next(fields)) add(fields, fmt::format("{}: line {}", path_, lines.line()));
    });
    BRIM_CHECK(!lines_.empty(), FileError, "{}: no lines behind the names of the columns", path_);
  }

  const std::vector<std::string>& names() const { return names_; }
  /// Train before test.
  std::vector<TableLine> take(Split split) const {
    const auto any = [&](std::string_view part) {
      return std::ranges::any_of(lines_, [&](const TableLine& l) { return l.split == part; });
    };
    const std::string_view test = any("test") ? "test" : "val";
    std::vector<TableLine> taken;
    const auto add_part = [&](std::string_view part) {
      std::ranges::copy_if(lines_, std::back_inserter(taken),
                           [&](const TableLine& line) { return line.split == part; });
    };
    if (split != Split::test) add_part("train");
    if (split != Split::train) add_part(test);
    if (taken.empty())
      raise<NoSuchSplit>("{}: no lines of split {}; {}", path_, to_string(split),
                         split_ ? "column 'split' names each line's"
                                : "there is no column 'split', so all lines are train");
    return taken;
  }

 private:
  void find_columns(const std::vector<std::string_view>& fields) {
    const std::vector<std::string> columns = column_names(fields);
    width_ = columns.size();
    file_ = find_column(columns, "file", path_);
    if (std::ranges::find(columns, "split") != columns.end())
      split_ = find_column(columns, "split", path_);
    for (size_t i = 0; i < width_; ++i) {
      if (i == file_ || i == split_) continue;
      BRIM_CHECK(!columns[i].empty(), FileError, "{}: column {} has no name", path_, i + 1);
      names_.push_back(columns[i]);
      targets_.push_back(i);
    }
    check_distinct(names_, path_);
    BRIM_CHECK(!names_.empty(), FileError,
               "{}: no targets, which are columns besides file and split", path_);
  }

  void add(const std::vector<std::string_view>& fields, const std::string& where) {
    BRIM_CHECK(fields.size() == width_, FileError, "{}: {} fields instead of {}", where,
               fields.size(), width_);
    TableLine line{.file = std::string(trimmed(fields[file_])), .split = "train"};
    check_file(line.file, where);
    if (split_) line.split = trimmed(fields[*split_]);
    BRIM_CHECK(names_split(line.split), FileError, "{}: split '{}'; expected train, test or val",
               where, line.split.substr(0, 40));
    for (size_t k = 0; k < targets_.size(); ++k) {
      const std::string_view field = fields[targets_[k]];
      const double value = number_in(field);
      BRIM_CHECK(!std::isnan(value), FileError, "{}: {}", where, wrong_number(field, names_[k]));
      BRIM_CHECK(kind_ != Targets::multi_label || value == 0 || value == 1, FileError,
                 "{}: column '{}': {} is neither 0 nor 1, as labels are; take Targets::regression "
                 "for other numbers",
                 where, names_[k], value);
      line.targets.push_back(static_cast<float>(value));
    }
    lines_.push_back(std::move(line));
  }

  void check_file(const std::string& file, const std::string& where) const {
    BRIM_CHECK(!file.empty(), FileError, "{}: column 'file' is empty", where);
    const fs::path path(file);
    const bool leaves = std::ranges::find(path, fs::path("..")) != path.end();
    BRIM_CHECK(path.is_relative() && !leaves, FileError,
               "{}: '{}' leaves the folder; paths are relative to it and without '..'", where,
               file);
    std::error_code ignored;
    BRIM_CHECK(fs::is_regular_file(fs::path(folder_) / path, ignored), FileError,
               "{}: no file '{}' in {}", where, file, folder_);
  }

  const std::string folder_, path_;
  const Targets kind_;
  size_t width_ = 0, file_ = 0;
  std::optional<size_t> split_;
  std::vector<size_t> targets_;  // columns
  std::vector<std::string> names_;
  std::vector<TableLine> lines_;
};

class TablePictures final : public PictureSource {
 public:
  TablePictures(const std::string& path, Split split, Targets targets) : folder_(path) {
    const PictureTable table(path, targets);
    names_ = table.names();
    lines_ = table.take(split);
    scalar_ = targets == Targets::regression && names_.size() == 1;
  }

  int64_t size() const override { return static_cast<int64_t>(lines_.size()); }
  const std::vector<std::string>& names() const override { return names_; }
  std::string describe(int64_t i) const override {
    return (fs::path(folder_) / at(i).file).string();
  }
  void read(int64_t i, RawPicture& out) const override {
    read_picture(describe(i), out);
    out.targets = at(i).targets;
    out.scalar = scalar_;
  }

 private:
  const TableLine& at(int64_t i) const { return lines_[static_cast<size_t>(i)]; }

  const std::string folder_;
  bool scalar_ = false;
  std::vector<std::string> names_;
  std::vector<TableLine> lines_;
};

}  // namespace

PictureDataPtr open_labelled(const std::string& path, Split split, Targets targets,
                             const PictureOptions& options) {
  return transformed(std::make_unique<TablePictures>(path, split, targets), options);
}

}  // namespace brim::data
