#include "command/top/moments.h"

#include <algorithm>

#include "core/check.h"
#include "core/json_text.h"

namespace brim::top {
namespace {

constexpr size_t kMaxMoments = 600, kMaxHistoryRows = 12000, kHistoryProcesses = 40, kCached = 80;
constexpr uint64_t kMaxLine = 16 << 20, kBlock = 1 << 20;

/// A run takes about as much memory as ten processes.
size_t rows_of(const Moment& m) {
  return m.machine.processes.size() + m.machine.threads.size() + m.machine.cores.size() / 4 +
         10 * m.runs.size() + 1;
}

}  // namespace

std::vector<MomentPointer> Moments::until(size_t index, size_t count) {
  std::vector<MomentPointer> moments;
  for (size_t i = index + 1 - std::min(index + 1, count); i <= index && i < size(); ++i)
    moments.push_back(at(i));
  return moments;
}

size_t RecentMoments::add(Moment moment) {
  if (moments_.size() == 1 && !moments_[0]->has_rates()) {  // shown only until there is another
    moments_.clear();
    rows_ = 0;
  }
  // The newest is whole; those before keep what history shows.
  if (!moments_.empty()) {
    Moment old = *moments_.back();
    rows_ -= rows_of(old);
    keep_busiest(old, kHistoryProcesses);
    old.machine.processes.shrink_to_fit();
    rows_ += rows_of(old);
    moments_.back() = std::make_shared<const Moment>(std::move(old));
  }
  rows_ += rows_of(moment);
  moments_.push_back(std::make_shared<const Moment>(std::move(moment)));
  size_t gone = 0;
  while (moments_.size() > 1 && (moments_.size() > kMaxMoments || rows_ > kMaxHistoryRows)) {
    rows_ -= rows_of(*moments_.front());
    moments_.pop_front();
    ++gone;
  }
  return gone;
}

Recording::Recording(const std::string& path)
    : file_(path, "top", "a recording of brim top --record") {
  std::string block;
  uint64_t begin = 0;
  for (uint64_t at = 0; at < file_.bytes(); at += block.size()) {
    block.resize(std::min(kBlock, file_.bytes() - at));
    file_.read(block.data(), block.size(), at);
    for (size_t end = block.find('\n'); end != std::string::npos; end = block.find('\n', end + 1)) {
      add({.begin = begin, .bytes = at + end - begin});
      begin = at + end + 1;
    }
  }
  add({.begin = begin, .bytes = file_.bytes() - begin});
  BRIM_CHECK(!lines_.empty(), FileError,
             "[top] {} holds no moment of schema brim.top/1; record one with brim top --record",
             path);
}

void Recording::add(Line line) {
  if (line.bytes == 0) return;
  if (parse(line))
    lines_.push_back(line);
  else
    ++damaged_;
}

std::optional<Moment> Recording::parse(const Line& line) const {
  if (line.bytes > kMaxLine) return {};
  std::string text(line.bytes, '\0');
  file_.read(text.data(), text.size(), line.begin);
  return moment_from_json(parse_json<Json>(text));
}

MomentPointer Recording::at(size_t index) {
  const auto found =
      std::ranges::find(cache_, index, [](const auto& entry) { return entry.first; });
  if (found != cache_.end()) return found->second;
  // A file that was changed meanwhile shows an empty moment.
  auto moment = std::make_shared<const Moment>(parse(lines_[index]).value_or(Moment()));
  cache_.emplace_back(index, moment);
  if (cache_.size() > kCached) cache_.pop_front();
  return moment;
}

}  // namespace brim::top
