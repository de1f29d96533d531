// A table in text, read into memory as numbers when it is opened.
#include <brim/data/tables.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <list>
#include <map>
#include <string_view>
#include <utility>

#include "core/check.h"
#include "data/mapped_file.h"

namespace brim::data {
namespace {

/// Cuts text into lines and their fields (RFC 4180).
class Lines {
 public:
  Lines(std::string_view text, char delimiter, const std::string& path)
      : left_(text), delimiter_(delimiter), path_(path) {}

  /// Fills `fields` with those of the next line that is not empty; false at the end.
  bool next(std::vector<std::string_view>& fields) {
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
  int64_t line() const { return at_; }  ///< number of the line given last, from 1 on

 private:
  std::string_view field() {
    if (left_.starts_with('"')) return quoted();
    size_t size = 0;
    while (size < left_.size() && left_[size] != delimiter_ && left_[size] != '\n') ++size;
    std::string_view text = left_.substr(0, size);
    if (text.ends_with('\r')) text.remove_suffix(1);
    left_.remove_prefix(size);
    finish_field();
    return text;
  }
  std::string_view quoted() {
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
  void finish_field() {
    ends_ = left_.empty() || left_[0] == '\n';
    if (!left_.empty() && !ends_) left_.remove_prefix(1);
    if (!left_.empty() && ends_) left_.remove_prefix(1);
  }

  std::string_view left_;
  const char delimiter_;
  const std::string& path_;
  std::list<std::string> unquoted_;  // fields of this line
  int64_t line_ = 0, at_ = 0;
  bool ends_ = false;  // the field was the last of its line
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text[0] == ' ' || text[0] == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// NaN for what is no finite number of f32.
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

class Csv final : public Table {
 public:
  Csv(const std::string& path, const CsvOptions& options) : path_(path), options_(options) {
    BRIM_CHECK(options.has_target || options.targets.empty(), ValueError,
               "[data] targets, and has_target = false; leave one of them out");
    BRIM_CHECK(options.delimiter != '"' && options.delimiter != '\n' && options.delimiter != '\r',
               ValueError, "[data] a quote or the end of a line as delimiter");
    const MappedFile file(path);
    with_check(file, [&] {
      std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                            file.bytes().size());
      if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // of UTF-8
      read(text);
    });
  }

  int64_t size() const override { return static_cast<int64_t>(lines_.size()); }
  const std::vector<std::string>& columns() const override { return columns_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  void get(int64_t i, Sample& out) const override {
    if (const auto bad = bad_.find(i); bad != bad_.end())
      raise<FileError>("{}: {}", describe(i), bad->second);
    const auto row = static_cast<size_t>(i);
    const auto copy = [&](const std::vector<float>& values, std::span<float> to) {
      std::copy_n(values.begin() + static_cast<int64_t>(row * to.size()), to.size(), to.begin());
    };
    copy(x_, out.make<float>("x", {static_cast<int64_t>(columns_.size())}));
    if (!options_.has_target) return;
    if (are_classes_)
      out.set("y", labels_[row]);
    else if (targets_ == 1)
      out.set("y", y_[row]);
    else
      copy(y_, out.make<float>("y", {targets_}));
  }
  std::string describe(int64_t i) const override {
    return fmt::format("{}: line {}", path_, lines_[static_cast<size_t>(i)]);
  }
  bool in_memory() const override { return true; }

 private:
  void read(std::string_view text) {
    Lines lines(text, options_.delimiter, path_);
    std::vector<std::string_view> fields;
    BRIM_CHECK(lines.next(fields), FileError, "{}: no lines", path_);
    find_columns(fields);
    std::vector<std::string> words;  // of the target, where it may be classes
    for (bool more = !options_.header || lines.next(fields); more; more = lines.next(fields)) {
      const auto i = static_cast<int64_t>(lines_.size());
      lines_.push_back(lines.line());
      if (std::string wrong = add(fields, words); !wrong.empty()) bad_[i] = std::move(wrong);
    }
    BRIM_CHECK(bad_.size() < lines_.size(), FileError, "{}",
               lines_.empty()
                   ? path_ + ": no lines behind the names of the columns"
                   : describe(0) + ": " + bad_.begin()->second + ", and no other line is good");
    choose_target(words);
  }

  void find_columns(const std::vector<std::string_view>& first) {
    std::vector<std::string> names;
    for (size_t i = 0; i < first.size(); ++i)
      names.push_back(options_.header ? std::string(trimmed(first[i])) : std::to_string(i));
    width_ = names.size();
    const auto find = [&](const std::string& name) {
      const auto found = std::ranges::find(names, name);
      BRIM_CHECK(found != names.end(), FileError, "{}: no column '{}'; there are {}", path_, name,
                 fmt::format("{}", fmt::join(names, ", ")));
      BRIM_CHECK(std::find(found + 1, names.end(), name) == names.end(), FileError,
                 "{}: two columns are called '{}'", path_, name);
      return static_cast<size_t>(found - names.begin());
    };
    if (options_.has_target) {
      if (options_.targets.empty()) to_.push_back(width_ - 1);
      for (const std::string& name : options_.targets) to_.push_back(find(name));
    }
    targets_ = static_cast<int64_t>(to_.size());
    for (const std::string& name : options_.columns) from_.push_back(find(name));
    if (options_.columns.empty())
      for (size_t i = 0; i < width_; ++i)
        if (std::ranges::find(to_, i) == to_.end()) from_.push_back(i);
    BRIM_CHECK(!from_.empty(), FileError,
               "{}: no columns besides the target; is the delimiter '{}' right?", path_,
               options_.delimiter);
    BRIM_CHECK(options_.target != Target::classes || targets_ == 1, ValueError,
               "[data] classes are in one column, not in {}", targets_);
    for (const size_t i : from_) columns_.push_back(names[i]);
    for (const size_t i : to_) target_names_.push_back(names[i]);
  }

  /// Adds a line. Returns what is wrong with it.
  std::string add(const std::vector<std::string_view>& fields, std::vector<std::string>& words) {
    const bool complete = fields.size() == width_;
    std::string wrong;
    if (!complete) wrong = fmt::format("{} fields instead of {}", fields.size(), width_);
    const auto number = [&](size_t column, const std::string& name) {
      if (!complete) return 0.0f;
      const double value = number_in(fields[column]);
      if (std::isnan(value) && wrong.empty())
        wrong = trimmed(fields[column]).empty()
                    ? fmt::format("column '{}' is empty", name)
                    : fmt::format("column '{}': '{}' is no finite number", name,
                                  fields[column].substr(0, 40));
      return static_cast<float>(value);
    };
    for (size_t k = 0; k < from_.size(); ++k) x_.push_back(number(from_[k], columns_[k]));
    if (may_be_classes()) {
      const std::string_view word = complete ? trimmed(fields[to_[0]]) : std::string_view();
      if (complete && word.empty() && wrong.empty())
        wrong = fmt::format("column '{}' is empty", target_names_[0]);
      words.emplace_back(word);
    } else {
      for (size_t k = 0; k < to_.size(); ++k) y_.push_back(number(to_[k], target_names_[k]));
    }
    return wrong;
  }

  bool may_be_classes() const { return targets_ == 1 && options_.target != Target::numbers; }

  void choose_target(const std::vector<std::string>& words) {
    if (!may_be_classes()) return;
    const auto is_good = [&](size_t i) { return !bad_.contains(static_cast<int64_t>(i)); };
    bool numbers = false, whole = true;
    std::vector<size_t> others;  // that are no numbers
    for (size_t i = 0; i < words.size(); ++i) {
      if (!is_good(i)) continue;
      const double value = number_in(words[i]);
      if (std::isnan(value)) {
        others.push_back(i);
        continue;
      }
      numbers = true;
      whole = whole && value >= 0 && value == std::floor(value) && value < 1e15;
    }
    if (options_.target == Target::automatic && numbers) {
      // Among numbers a word is damage.
      for (const size_t i : others)
        bad_[static_cast<int64_t>(i)] = fmt::format("column '{}': '{}' is no finite number",
                                                    target_names_[0], words[i].substr(0, 40));
    } else {
      numbers = others.empty();
    }
    std::map<std::string_view, int64_t> labels;
    if (options_.target == Target::classes || !numbers || whole)
      for (size_t i = 0; i < words.size(); ++i)
        if (is_good(i)) labels[words[i]] = 0;
    are_classes_ = options_.target == Target::classes || !numbers || (whole && is_dense(labels));
    if (!are_classes_) {
      for (const std::string& word : words) y_.push_back(static_cast<float>(number_in(word)));
      return;
    }
    std::vector<std::string_view> order;
    for (const auto& [word, label] : labels) order.push_back(word);
    if (numbers)
      std::ranges::stable_sort(order, {}, [](std::string_view word) { return number_in(word); });
    for (const std::string_view word : order) {
      labels[word] = static_cast<int64_t>(classes_.size());
      classes_.emplace_back(word);
    }
    for (const std::string& word : words) {
      const auto found = labels.find(word);
      labels_.push_back(found == labels.end() ? 0 : found->second);
    }
  }

  /// Whether they are the numbers 0 to n - 1, as labels are.
  static bool is_dense(const std::map<std::string_view, int64_t>& words) {
    for (const auto& [word, label] : words)
      if (number_in(word) >= static_cast<double>(words.size())) return false;
    return true;
  }

  const std::string path_;
  const CsvOptions options_;
  size_t width_ = 0;
  std::vector<size_t> from_, to_;  // columns of x and y
  std::vector<std::string> columns_, target_names_, classes_;
  int64_t targets_ = 0;
  std::vector<int64_t> lines_;  // number of each sample's
  std::vector<float> x_, y_;
  bool are_classes_ = false;
  std::vector<int64_t> labels_;
  std::map<int64_t, std::string> bad_;  // samples that cannot be read, and why
};

}  // namespace

std::shared_ptr<const Table> open_csv(const std::string& path, const CsvOptions& options) {
  return std::make_shared<Csv>(path, options);
}

}  // namespace brim::data
