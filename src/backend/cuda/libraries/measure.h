// Choosing what computes a problem by measuring, once: the choice stays in memory and in a file.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <span>
#include <string>
#include <utility>

#include <brim/core/error.h>

#include "core/cache_file.h"
#include "core/context.h"

namespace brim::cuda {

/// Products and convolutions of fewer multiply-adds than this are also tried with brim's own
/// kernels, and computed by them if they are faster than the library.
inline constexpr double kMaxForOwn = 1 << 26;

/// One way to compute a problem.
struct Candidate {
  std::string name;  ///< that finds it again in a later run
  /// Queues it, as often as it is called; false if it is refused after all.
  std::function<bool(const Context&)> queue;
};

/// Queues a candidate; false if it is refused or fails. An error that stays, as that of a lost GPU,
/// is met again by the next call that waits.
bool can_queue(const Candidate& candidate, const Context& context);

/// The number of the fastest candidate, or of the one that an earlier run has found; -1 if none can
/// be used. Measured is the time on the device, without what the host needs to launch it: runs are
/// captured as a graph, all candidates take turns, and the median of the rounds counts. Candidates
/// that are refused, that fail or have no room when queued or captured are passed over. Waits for
/// the stream. Where choices cannot be kept, nothing is measured, and the first that can be queued
/// is taken: another choice in another run would change results in their last bits.
int choose(ChoiceFile& choices, const std::string& problem, std::span<const Candidate> candidates,
           Stream stream);

/// Warns that brim's own kernel computes the problem because the library fails; throws `error` if
/// the GPU is lost.
void leave_to_own(const std::string& problem, const DeviceError& error);
/// What `find` finds; `nothing`, where the library fails when it is asked how it would compute the
/// problem (leave_to_own).
template <class Operation, class Find>
Operation found_or(Operation nothing, const std::string& problem, const Find& find) {
  try {
    return find();
  } catch (const DeviceError& error) {
    leave_to_own(problem, error);
    return nothing;
  }
}
/// What becomes of an algorithm that was chosen when there was room for what it works in, and finds
/// none later: brim's own kernel computes the problem for some calls before it is tried again, as
/// trying gives all cached memory back.
class NoRoom {
 public:
  /// Warns the first time.
  void begins(const char* library, const std::string& problem, const OutOfMemory& error);
  /// Whether this call is one of those.
  bool lasts() { return calls_ > 0 && calls_-- > 0; }

 private:
  static constexpr int kCalls = 100;
  bool warned_ = false;
  int calls_ = 0;
};

/// The file of choices for a device; `library`: its name and version.
ChoiceFile& choices_of(int device, const std::string& library);

/// What is known of problems, the problem used last in front. Those used long ago are forgotten.
template <class Key, class Operation>
class ProblemCache {
 public:
  /// nullptr: not known.
  Operation* find(const Key& key) {
    const auto at = by_key_.find(key);
    if (at == by_key_.end()) return nullptr;
    all_.splice(all_.begin(), all_, at->second);
    return &at->second->second;
  }
  Operation& add(const Key& key, Operation operation) {
    if (all_.size() == kMax) {
      by_key_.erase(all_.back().first);
      all_.pop_back();
    }
    all_.emplace_front(key, std::move(operation));
    by_key_[key] = all_.begin();
    return all_.front().second;
  }

 private:
  static constexpr size_t kMax = 4096;
  using All = std::list<std::pair<Key, Operation>>;
  All all_;
  std::map<Key, typename All::iterator> by_key_;
};

}  // namespace brim::cuda
