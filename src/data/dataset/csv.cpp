// A table in text, read into memory as numbers when it is opened.
#include <brim/data/tables.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "core/check.h"
#include "data/dataset/csv_lines.h"
#include "io/text.h"

namespace brim::data {
namespace {

class Csv final : public Table {
 public:
  Csv(const std::string& path, const CsvOptions& options) : path_(path), options_(options) {
    BRIM_CHECK(options.has_target || options.targets.empty(), ValueError,
               "[data] targets, and has_target = false; leave one of them out");
    BRIM_CHECK(options.has_target || options.target == Target::automatic, ValueError,
               "[data] a kind of target, and has_target = false; leave one of them out");
    BRIM_CHECK(options.delimiter != '"' && options.delimiter != '\n' && options.delimiter != '\r',
               ValueError, "[data] a quote or the end of a line as delimiter");
    BRIM_CHECK(options.classes.empty() || options.target == Target::classes, ValueError,
               "[data] classes are given, and the target is none; use Target::classes");
    read_text(path, [&](std::string_view text) { read(text); });
  }

  int64_t size() const override { return static_cast<int64_t>(lines_.size()); }
  const std::vector<std::string>& columns() const override { return columns_; }
  const std::vector<std::string>& targets() const override { return target_names_; }
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
    CsvLines lines(text, options_.delimiter, path_);
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
    std::vector<std::string> names = column_names(first);
    width_ = names.size();
    for (size_t i = 0; i < width_ && !options_.header; ++i) names[i] = std::to_string(i);
    const auto find = [&](const std::string& name) { return find_column(names, name, path_); };
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
    for (const size_t i : to_)
      BRIM_CHECK(std::ranges::find(from_, i) == from_.end(), ValueError,
                 "{}: column '{}' is a target, and one of x, too", path_, names[i]);
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
      if (std::isnan(value) && wrong.empty()) wrong = wrong_number(fields[column], name);
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
        bad_[static_cast<int64_t>(i)] = wrong_number(words[i], target_names_[0]);
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
    if (options_.classes.empty()) {
      for (const auto& [word, label] : labels) classes_.emplace_back(word);
      if (numbers)
        std::ranges::stable_sort(classes_, {}, [](const auto& word) { return number_in(word); });
    } else {
      classes_ = options_.classes;
    }
    labels.clear();
    for (const std::string& word : classes_)
      labels.emplace(word, static_cast<int64_t>(labels.size()));
    for (size_t i = 0; i < words.size(); ++i) {
      const auto found = labels.find(words[i]);
      labels_.push_back(found == labels.end() ? 0 : found->second);
      BRIM_CHECK(found != labels.end() || !is_good(i), FileError,
                 "{}: '{}' in column '{}' is none of the classes that there were in training",
                 describe(static_cast<int64_t>(i)), io::shortened(words[i]), target_names_[0]);
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
