// Ranks sum their gradients while others are still computed. The step was recorded with one
// all-reduce of all gradients behind the backward pass; it becomes several, of gradients that are
// ready at about the same time (buckets; Li et al., "PyTorch Distributed: experiences on
// accelerating data parallel training", 2020), and these run on a stream of their own. What goes
// into a bucket is not a matter of megabytes: it is solved from the times at which gradients are
// ready and from what the link was measured to take, so that the last bucket is there soonest.
#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/check.h"
#include "plan/buckets.h"
#include "plan/pass.h"
#include "plan/replace.h"

namespace brim::plan {
namespace {

/// Elements of a collective that are reduced together, and the launch before which they can be.
struct Bucket {
  std::vector<size_t> elements;
  size_t place = 0;
};

/// One collective, and how it is cut.
class Cut {
 public:
  Cut(const Program& program, size_t at) : program_(program), at_(at), launch_(launch(at)) {
    for (size_t i = 0; i < at; ++i)
      starts_.push_back(starts_.back() + launch(i).estimated_seconds());
    std::unordered_map<const Storage*, size_t> used;  // by launches before it: the place behind
    for (size_t i = 0; i < at; ++i)
      for (const Operand& o : launch(i).operands())
        if (o.tensor->defined()) used[o.tensor->storage().get()] = i + 1;
    for (size_t e = 0; e < launch_.elements(); ++e) {
      size_t place = 0;
      for (const Operand& o : launch_.element(e))
        if (const auto found = used.find(o.tensor->storage().get()); found != used.end())
          place = std::max(place, found->second);
      places_.push_back(place);
    }
  }

  /// One where nothing is won. In all ranks those of rank 0; `behind`: the first place for them.
  std::vector<Bucket> buckets(size_t behind) const {
    const std::string text = launch_.communication->settle(text_of(solved()));
    const std::optional<Buckets> found = read_buckets(text, places_.size());
    BRIM_CHECK(found, CompileError,
               "[overlap] rank 0 reduces gradients in the buckets {}, of {} gradients here; "
               "compile the same step with the same options in all ranks",
               text, places_.size());
    std::vector<Bucket> all;
    for (const std::vector<size_t>& elements : *found) {
      for (const size_t e : elements) behind = std::max(behind, places_[e]);
      all.push_back({elements, behind});
    }
    return all;
  }

  /// Seconds after the last gradient until all are summed: in one bucket, and in these.
  std::pair<double, double> exposed(const std::vector<Bucket>& buckets) const {
    std::vector<ReadyBytes> ready;
    for (const Bucket& b : buckets) {
      double bytes = 0;
      for (const size_t e : b.elements) bytes += bytes_of_element(launch_, e);
      ready.push_back({starts_[b.place], bytes});
    }
    return exposed_seconds(ready, *launch_.communication, starts_[at_]);
  }

 private:
  const Launch& launch(size_t i) const { return *program_.launches[i]; }

  Buckets solved() const {
    std::vector<ReadyBytes> ready;
    for (size_t e = 0; e < places_.size(); ++e)
      ready.push_back({starts_[places_[e]], bytes_of_element(launch_, e)});
    return choose_buckets(ready, *launch_.communication, starts_[at_]);
  }

  const Program& program_;
  const size_t at_;
  const Launch& launch_;
  std::vector<double> starts_{0};  // of launches, from the first one's on
  std::vector<size_t> places_;     // by element: before which launch it can be reduced
};

/// Whether it may be cut: no two elements share their memory.
bool is_list(const Launch& l) {
  if (!l.communication || !l.communication->settle || l.elements() == 0) return false;
  std::unordered_set<const Storage*> met;
  return std::ranges::all_of(
      l.operands(), [&](const Operand& o) { return met.insert(o.tensor->storage().get()).second; });
}

}  // namespace

std::string overlap(Program& program) {
  std::vector<std::vector<std::unique_ptr<Launch>>> before(program.launches.size());
  std::string notes;
  bool apart = false;
  size_t behind = 0;  // the collectives so far: all ranks have them in one order
  for (size_t i = 0; i < program.launches.size(); ++i) {
    const Launch& launch = *program.launches[i];
    if (!launch.communication) continue;
    const size_t first = std::exchange(behind, i + 1);
    if (!is_list(launch)) continue;
    const Cut cut(program, i);
    const std::vector<Bucket> buckets = cut.buckets(first);
    if (buckets.size() == 1) continue;
    behind = buckets.back().place;
    const auto [one, these] = cut.exposed(buckets);
    notes += fmt::format(
        "{}{} of {} tensors in {} buckets, the last {:.0f} us behind the backward "
        "pass instead of {:.0f}",
        notes.empty() ? "" : "; ", launch.name(), launch.elements(), buckets.size(), these * 1e6,
        one * 1e6);
    for (const Bucket& b : buckets) {
      std::unique_ptr<Launch> part = launch.clone();
      std::vector<size_t> gone;
      for (size_t e = 0; e < launch.elements(); ++e)
        if (!std::ranges::binary_search(b.elements, e)) gone.push_back(e);
      part->drop_elements(gone);
      before[b.place].push_back(std::move(part));
    }
    program.launches[i] = nullptr;
    apart = true;
  }
  if (!apart) return "";
  std::vector<std::unique_ptr<Launch>> launches;
  for (size_t i = 0; i < before.size(); ++i) {
    for (auto& part : before[i]) launches.push_back(std::move(part));
    if (program.launches[i]) launches.push_back(std::move(program.launches[i]));
  }
  program.launches = std::move(launches);
  // Ranks make their calls in one order, so all of them are on one stream.
  for (const auto& launch : program.launches)
    if (launch->communication) launch->stream = backend::PlanStream::collectives;
  return notes;
}

}  // namespace brim::plan
