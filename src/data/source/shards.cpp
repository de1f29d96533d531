// Tar shards with WebDataset's naming: files that share a name up to the first dot are one sample.
#include "data/source/shards.h"

#include <brim/data/source.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "core/check.h"
#include "data/file.h"
#include "data/source/archive.h"

namespace brim::data {
namespace {

constexpr const char* kNaming =
    "a shard holds NAME.jpg (or .jpeg, .png) and NAME.cls with the number of the class";

// The places of '{', ".." and '}'; false if there is no range.
bool find_range(const std::string& where, size_t& open, size_t& dots, size_t& close) {
  open = where.find('{');
  if (open == std::string::npos) return false;
  close = where.find('}', open);
  if (close == std::string::npos) return false;
  dots = where.find("..", open);
  return dots != std::string::npos && dots < close;
}

// A whole number that fills the text; false for anything else.
bool parse_number(std::string_view text, int64_t& value) {
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && at == text.data() + text.size() && value >= 0;
}

// "dir/0001.seg.png" -> "dir/0001" and "seg.png".
std::pair<std::string_view, std::string_view> split_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  const size_t dot = path.find('.', slash == std::string_view::npos ? 0 : slash);
  if (dot == std::string_view::npos) return {path, {}};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

int32_t parse_label(std::span<const uint8_t> bytes, const std::string& name) {
  constexpr int64_t kMax = 100000;  // classes have names in memory
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  constexpr std::string_view kSpace = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  text = text.substr(0, text.find_last_not_of(kSpace) + 1);
  int64_t label = -1;
  BRIM_CHECK(parse_number(text, label) && label < kMax, FileError,
             "{}: holds no class number from 0 to {}; {}", name, kMax - 1, kNaming);
  return static_cast<int32_t>(label);
}

class Shards final : public Source {
 public:
  Shards(const std::string& pattern, const OpenProgress& progress) : names_(shard_names(pattern)) {
    const int64_t budget = memory_budget();
    int64_t held = 0;
    const auto count = static_cast<double>(names_.size());
    for (const std::string& name : names_) {
      const auto before = static_cast<double>(archives_.size());
      archives_.push_back(load_archive(name, true, [&](double fraction) {
        return !progress || progress((before + fraction) / count);
      }));
      held += archives_.back()->arena.total();
      BRIM_CHECK(held <= budget, FileError,
                 "{}: the pictures up to this shard take more than half of the memory ({} MiB); "
                 "take fewer shards, or plain tars, which are mapped",
                 name, budget >> 20);
      const Archive& archive = *archives_.back();
      for (const ShardSample& sample : pair_samples(archive.entries, archive.blobs, name))
        samples_.push_back({sample, archives_.size() - 1});
      archive.check();
    }
    int32_t classes = 0;
    for (const Sample& sample : samples_) classes = std::max(classes, sample.label + 1);
    for (int32_t label = 0; label < classes; ++label) classes_.push_back(std::to_string(label));
  }

  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t i) const override { return samples_[static_cast<size_t>(i)].label; }
  std::string describe(int64_t i) const override {
    const Sample& sample = samples_[static_cast<size_t>(i)];
    return names_[sample.shard] + ": " + archives_[sample.shard]->entries[sample.picture].path;
  }
  void read(int64_t i, Image& out) const override {
    const Sample& sample = samples_[static_cast<size_t>(i)];
    archives_[sample.shard]->decode(sample.picture, describe(i), out);
  }
  std::span<const uint8_t> file(int64_t i, std::vector<uint8_t>&) const override {
    const Sample& sample = samples_[static_cast<size_t>(i)];
    return archives_[sample.shard]->blobs[sample.picture];
  }
  void check() const override {
    for (const auto& archive : archives_) archive->check();
  }

 private:
  struct Sample : ShardSample {
    size_t shard;
  };

  std::vector<std::string> names_;
  std::vector<std::shared_ptr<const Archive>> archives_;
  std::vector<Sample> samples_;
  std::vector<std::string> classes_;
};

}  // namespace

bool is_shard_pattern(const std::string& where) {
  size_t open = 0, dots = 0, close = 0;
  return find_range(where, open, dots, close);
}

std::vector<std::string> shard_names(const std::string& pattern) {
  constexpr int64_t kMax = 100000;
  size_t open = 0, dots = 0, close = 0;
  int64_t first = -1, last = -1;
  const bool range =
      find_range(pattern, open, dots, close) && pattern.find('{', open + 1) == std::string::npos &&
      parse_number(std::string_view(pattern).substr(open + 1, dots - open - 1), first) &&
      parse_number(std::string_view(pattern).substr(dots + 2, close - dots - 2), last);
  BRIM_CHECK(range && first <= last && last - first < kMax, FileError,
             "[data] {}: not a range of shards; write one like train-{{000000..000009}}.tar, with "
             "at most {} numbers",
             pattern, kMax);
  std::vector<std::string> names;
  for (int64_t number = first; number <= last; ++number)
    names.push_back(fmt::format("{}{:0{}}{}", pattern.substr(0, open), number, dots - open - 1,
                                pattern.substr(close + 1)));
  return names;
}

std::vector<ShardSample> pair_samples(const std::vector<Entry>& entries,
                                      const std::vector<std::span<const uint8_t>>& blobs,
                                      const std::string& where) {
  std::map<std::string_view, size_t> pictures, labels;
  for (size_t i = 0; i < entries.size(); ++i) {
    const auto [key, extension] = split_name(entries[i].path);
    const bool label = extension == "cls";
    // "seg.png" is another field of the sample, not its picture.
    if (!label && extension.find('.') != std::string_view::npos) continue;
    BRIM_CHECK((label ? labels : pictures).emplace(key, i).second, FileError,
               "{}: \"{}\" has two {}; {}", where, key, label ? "labels" : "pictures", kNaming);
  }
  BRIM_CHECK(!pictures.empty(), FileError, "{}: no pictures; {}", where, kNaming);
  std::vector<ShardSample> samples;
  for (const auto& [key, picture] : pictures) {
    const auto found = labels.find(key);
    BRIM_CHECK(found != labels.end(), FileError, "{}: {} has no label {}.cls; {}", where,
               entries[picture].path, key, kNaming);
    const std::string name = where + ": " + entries[found->second].path;
    samples.push_back({picture, parse_label(blobs[found->second], name)});
    labels.erase(found);
  }
  BRIM_CHECK(labels.empty(), FileError, "{}: {} has no picture; {}", where,
             entries[labels.begin()->second].path, kNaming);
  std::sort(samples.begin(), samples.end(),
            [](const ShardSample& a, const ShardSample& b) { return a.picture < b.picture; });
  return samples;
}

std::shared_ptr<const Source> open_shards(const std::string& pattern, Split split,
                                          const OpenProgress& progress) {
  BRIM_CHECK(split != Split::test, data::NoSuchSplit,
             "{}: shards have no test split; take what there is with Split::all", pattern);
  return std::make_shared<Shards>(pattern, progress);
}

}  // namespace brim::data
