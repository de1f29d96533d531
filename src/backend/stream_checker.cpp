#include "backend/stream_checker.h"

#include <algorithm>
#include <iterator>

#include "core/check.h"

namespace brim::backend {

namespace {

void join(StreamChecker::Clock& into, const StreamChecker::Clock& from) {
  if (into.size() < from.size()) into.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

}  // namespace

void StreamChecker::reset() {
  const std::lock_guard lock(mutex_);
  host_ = queued_;  // events recorded before stay true, and count no work that comes later
  histories_.clear();
}

void StreamChecker::name_stream(int stream, std::string name) {
  const std::lock_guard lock(mutex_);
  if (names_.size() <= static_cast<size_t>(stream)) names_.resize(static_cast<size_t>(stream) + 1);
  names_[static_cast<size_t>(stream)] = std::move(name);
}

StreamChecker::Clock& StreamChecker::clock_of(int stream) {
  const size_t at = static_cast<size_t>(stream);
  if (clocks_.size() <= at) {
    clocks_.resize(at + 1);
    queued_.resize(at + 1);
  }
  join(clocks_[at], host_);  // what is queued now is queued after all that the host has seen
  return clocks_[at];
}

bool StreamChecker::done(const Use& use, const Clock& clock) const {
  return static_cast<size_t>(use.stream) < clock.size() &&
         use.position <= clock[static_cast<size_t>(use.stream)];
}

const StreamChecker::Use* StreamChecker::conflict(const History& history, int stream,
                                                  const Clock& clock, bool writes) const {
  const auto open = [&](const Use& use) {
    return use.stream >= 0 && use.stream != stream && !done(use, clock);
  };
  if (open(history.write)) return &history.write;
  if (!writes) return nullptr;
  const auto read = std::find_if(history.reads.begin(), history.reads.end(), open);
  return read == history.reads.end() ? nullptr : &*read;
}

void StreamChecker::work(int stream, const char* name, std::span<const Touch> touches) {
  const std::lock_guard lock(mutex_);
  const Clock& clock = clock_of(stream);
  for (const Touch& t : touches) {
    const auto found = histories_.find(t.address);
    if (found == histories_.end()) continue;
    if (const Use* use = conflict(found->second, stream, clock, t.writes))
      raise<StreamError>(
          "[{}] {} {} {} bytes that '{}' {} on {}, without waiting for it; record an Event there "
          "and let this stream wait for it",
          name, names_[static_cast<size_t>(stream)], t.writes ? "writes" : "reads", t.bytes,
          use->name, use == &found->second.write ? "writes" : "reads",
          names_[static_cast<size_t>(use->stream)]);
  }
  const Use now{stream, ++queued_[static_cast<size_t>(stream)], name};
  for (const Touch& t : touches) {
    History& h = histories_[t.address];
    h.bytes = t.bytes;
    if (t.writes) {
      h.write = now;
      h.reads.clear();
      continue;
    }
    const auto mine = std::find_if(h.reads.begin(), h.reads.end(),
                                   [&](const Use& use) { return use.stream == stream; });
    if (mine == h.reads.end())
      h.reads.push_back(now);
    else
      *mine = now;
  }
}

void StreamChecker::reuse(int stream, const void* address, size_t bytes) {
  const std::lock_guard lock(mutex_);
  const Clock& clock = clock_of(stream);
  const void* const end = static_cast<const char*>(address) + bytes;
  // What lay there before may have begun elsewhere: blocks are cut and joined.
  auto first = histories_.lower_bound(address);
  if (first != histories_.begin())
    if (const auto before = std::prev(first);
        static_cast<const char*>(before->first) + before->second.bytes > address)
      first = before;
  const auto last = histories_.lower_bound(end);
  for (auto at = first; at != last; ++at)
    if (const Use* use = conflict(at->second, stream, clock, true))
      raise<StreamError>(
          "[allocate] {} gets {} bytes that '{}' still uses on {}; keep the tensor until that is "
          "done, or let this stream wait for an Event recorded there",
          names_[static_cast<size_t>(stream)], bytes, use->name,
          names_[static_cast<size_t>(use->stream)]);
  histories_.erase(histories_.upper_bound(address), last);
}

void StreamChecker::forget(const void* address, size_t bytes) {
  const std::lock_guard lock(mutex_);
  const void* end = static_cast<const char*>(address) + bytes;
  histories_.erase(histories_.lower_bound(address), histories_.lower_bound(end));
}

StreamChecker::Clock StreamChecker::record(int stream) {
  const std::lock_guard lock(mutex_);
  Clock event = clock_of(stream);
  const size_t at = static_cast<size_t>(stream);
  if (event.size() <= at) event.resize(at + 1);
  event[at] = queued_[at];
  return event;
}

void StreamChecker::wait(int stream, const Clock& event) {
  const std::lock_guard lock(mutex_);
  join(clock_of(stream), event);
}

void StreamChecker::wait_on_host(const Clock& event) {
  const std::lock_guard lock(mutex_);
  join(host_, event);
}

}  // namespace brim::backend
