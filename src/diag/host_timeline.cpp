#include "diag/host_timeline.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "core/thread_id.h"

namespace brim::diag {
namespace {

struct Known {
  int thread;
  const HostTimeline* timeline;
};

/// The timelines of all threads, the newest last. Held while one is read, so that it cannot end.
struct Timelines {
  std::mutex mutex;
  std::vector<Known> all;
};

/// Never destroyed: devices' threads may ask until the end.
Timelines& timelines() {
  static auto* const all = new Timelines;
  return *all;
}

}  // namespace

thread_local constinit HostTimeline* active_timeline = nullptr;

void HostTimeline::hide() const {
  Timelines& t = timelines();
  const std::lock_guard lock(t.mutex);
  std::erase_if(t.all, [this](const Known& known) { return known.timeline == this; });
}

HostTimeline::~HostTimeline() {
  hide();
  if (active_timeline == this) active_timeline = nullptr;
}

HostTimeline* set_active_timeline(HostTimeline* timeline) {
  const int thread = thread_id();
  Timelines& t = timelines();
  const std::lock_guard lock(t.mutex);
  std::erase_if(t.all, [&](const Known& known) { return known.thread == thread; });
  if (timeline) t.all.push_back({thread, timeline});
  return std::exchange(active_timeline, timeline);
}

namespace {

/// Calls f with the timeline of the thread, of whichever measured last for 0, if there is one.
template <class R, class F>
R with_timeline(int thread, R none, const F& f) {
  Timelines& t = timelines();
  const std::lock_guard lock(t.mutex);
  const auto found = std::find_if(t.all.rbegin(), t.all.rend(), [&](const Known& known) {
    return thread == 0 || known.thread == thread;
  });
  return found == t.all.rend() ? none : f(*found->timeline);
}

/// What the host did, as a device sees it.
Cause seen_by_devices(Cause cause) { return cause == Cause::compute ? Cause::host_compute : cause; }

}  // namespace

Shares reasons_of_thread(int thread, uint64_t from, uint64_t to) {
  return with_timeline(thread, Shares{},
                       [&](const HostTimeline& t) { return t.reasons(from, to); });
}
Cause scope_of_thread(int thread, uint64_t at) {
  return with_timeline(thread, Cause::other, [&](const HostTimeline& t) { return t.scope_at(at); });
}

size_t HostTimeline::find(uint64_t at, size_t count) const {
  const size_t oldest = count > kPieces - kSpared ? count - (kPieces - kSpared) : 0;
  // Mostly it is about what was just now, and that is in a cache.
  size_t first = oldest, last = count;
  for (size_t back = 1; back < count - oldest; back *= 2) {
    if (piece(count - back).begin <= at) {
      first = count - back;
      break;
    }
    last = count - back;
  }
  while (last - first > 1) {
    const size_t middle = first + (last - first) / 2;
    (piece(middle).begin > at ? last : first) = middle;
  }
  return first;
}

Shares HostTimeline::reasons(uint64_t from, uint64_t to) const {
  Shares shares{};
  if (to <= from) return shares;
  const size_t count = count_.load(std::memory_order_acquire);
  uint64_t at = from;
  for (size_t i = find(from, count); i < count && at < to; ++i) {
    const Piece p = piece(i);
    const uint64_t end = std::min(to, i + 1 < count ? piece(i + 1).begin : to);
    const uint64_t begin = std::clamp(p.begin, at, to);
    shares[static_cast<size_t>(Cause::other)] += begin - at;  // forgotten
    at = begin;
    if (end <= at) continue;
    shares[static_cast<size_t>(seen_by_devices(p.cause))] += end - at;
    at = end;
  }
  return shares;
}

Cause HostTimeline::scope_at(uint64_t at) const {
  const size_t count = count_.load(std::memory_order_acquire);
  const Piece p = piece(find(at, count));
  return p.begin <= at && is_scope(p.cause) ? p.cause : Cause::other;
}

}  // namespace brim::diag
