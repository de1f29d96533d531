// Ranks sum their gradients while others are still computed. The step was recorded with one
// all-reduce of all gradients behind the backward pass; it becomes several, of gradients that are
// ready at about the same time (buckets; Li et al., "PyTorch Distributed: experiences on
// accelerating data parallel training", 2020), and these run on the plan's side stream. What goes
// into a bucket is not a matter of megabytes: it is solved from the times at which gradients are
// ready and from what the link was measured to take, so that the last bucket is there soonest.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/check.h"
#include "plan/buckets.h"
#include "plan/pass.h"
#include "plan/replace.h"

namespace brim::plan {

thread_local std::optional<size_t> forced_buckets;

double bytes_of_element(const Launch& collective, size_t element) {
  const std::vector<Operand> nodes = collective.element(element);
  const Tensor& t = *nodes[0].tensor;
  return static_cast<double>(t.numel()) * static_cast<double>(size_of(t.dtype())) *
         static_cast<double>(nodes.size() + 1) / 2;
}

double seconds_of(const Launch& collective) {
  double bytes = 0;
  const size_t elements = collective.elements();
  for (size_t i = 0; i < elements; ++i) bytes += bytes_of_element(collective, i);
  if (elements == 0)
    for (const Operand& o : collective.operands())
      if (o.writes && o.tensor->defined())
        bytes += static_cast<double>(o.tensor->numel()) *
                 static_cast<double>(size_of(o.tensor->dtype()));
  // An all-reduce scatters and gathers; the others do one of both.
  const double phases = is(collective, "all_reduce") ? 1 : 0.5;
  return phases * collective.communication->seconds(bytes);
}

std::vector<size_t> solve_buckets(std::span<const ReadyBytes> ready, double latency,
                                  double seconds_per_byte) {
  // By how many come first: when they are there at the earliest, in how many buckets, and how many
  // lie in front of the last of these.
  struct Prefix {
    double seconds = 0;
    size_t buckets = 0, before = 0;
  };
  std::vector<Prefix> best(ready.size() + 1);
  std::vector<double> bytes(ready.size() + 1);
  for (size_t i = 0; i < ready.size(); ++i) bytes[i + 1] = bytes[i] + ready[i].bytes;
  for (size_t end = 1; end <= ready.size(); ++end) {
    best[end].seconds = std::numeric_limits<double>::infinity();
    for (size_t begin = end; begin-- > 0;) {
      const double start = std::max(best[begin].seconds, ready[end - 1].seconds);
      const double seconds = start + latency + (bytes[end] - bytes[begin]) * seconds_per_byte;
      const size_t buckets = best[begin].buckets + 1;
      if (seconds < best[end].seconds ||
          (seconds == best[end].seconds && buckets < best[end].buckets))
        best[end] = {seconds, buckets, begin};
    }
  }
  std::vector<size_t> ends;
  for (size_t end = ready.size(); end > 0; end = best[end].before) ends.push_back(end);
  std::ranges::reverse(ends);
  return ends;
}

namespace {

/// What another stream costs the one that computes, for each launch there: fork and join.
constexpr double kForkAndJoin = 5e-6;
/// Seconds that must be won: less is not worth a second stream.
constexpr double kWorthwhile = 20e-6;

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
    std::vector<Bucket> all = read(launch_.communication->settle(text_of(solved())));
    for (Bucket& b : all) {
      for (const size_t e : b.elements) behind = std::max(behind, places_[e]);
      b.place = behind;
    }
    return all;
  }

  /// Seconds after the last gradient until all are summed: in one bucket, and in these.
  std::pair<double, double> exposed(const std::vector<Bucket>& buckets) const {
    double end = 0, all = 0;
    for (const Bucket& b : buckets) {
      end = std::max(end, starts_[b.place]) + seconds_of(b.elements);
      for (const size_t e : b.elements) all += bytes_of_element(launch_, e);
    }
    return {launch_.communication->seconds(all), std::max(0.0, end - starts_[at_])};
  }

 private:
  const Launch& launch(size_t i) const { return *program_.launches[i]; }

  double seconds_of(const std::vector<size_t>& elements) const {
    double bytes = 0;
    for (const size_t e : elements) bytes += bytes_of_element(launch_, e);
    return kForkAndJoin + launch_.communication->seconds(bytes);
  }

  std::vector<Bucket> solved() const {
    std::vector<size_t> order(places_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, {}, [&](size_t e) { return places_[e]; });
    std::vector<ReadyBytes> ready;
    for (const size_t e : order)
      ready.push_back({starts_[places_[e]], bytes_of_element(launch_, e)});
    const backend::Communication& link = *launch_.communication;
    std::vector<size_t> ends =
        solve_buckets(ready, kForkAndJoin + link.latency, link.seconds_per_byte);
    if (forced_buckets) {
      ends.clear();
      const size_t count = std::clamp<size_t>(*forced_buckets, 1, order.size());
      for (size_t k = 1; k <= count; ++k) ends.push_back(order.size() * k / count);
    }
    std::vector<Bucket> all;
    size_t begin = 0;
    for (const size_t end : ends) {
      Bucket b{.place = places_[order[end - 1]]};
      for (size_t i = begin; i < end; ++i) b.elements.push_back(order[i]);
      std::ranges::sort(b.elements);
      all.push_back(std::move(b));
      begin = end;
    }
    const auto [one, these] = exposed(all);
    if (!forced_buckets && (one - these) * link.waiting < kWorthwhile) {
      std::ranges::sort(order);
      return {{.elements = order}};
    }
    return all;
  }

  /// "0,2|1": the elements of each bucket.
  static std::string text_of(const std::vector<Bucket>& buckets) {
    std::string text;
    for (const Bucket& b : buckets) {
      if (!text.empty()) text += '|';
      for (size_t i = 0; i < b.elements.size(); ++i)
        text += fmt::format("{}{}", i == 0 ? "" : ",", b.elements[i]);
    }
    return text;
  }
  std::vector<Bucket> read(const std::string& text) const {
    std::vector<Bucket> buckets(1);
    if (text.empty()) {
      for (size_t e = 0; e < places_.size(); ++e) buckets[0].elements.push_back(e);
      return buckets;
    }
    std::vector<bool> met(places_.size());
    size_t count = 0;
    for (const char* at = text.data(); at < text.data() + text.size();) {
      size_t element = 0;
      const auto [end, error] = std::from_chars(at, text.data() + text.size(), element);
      BRIM_CHECK(error == std::errc() && element < met.size() && !met[element], CompileError,
                 "[overlap] rank 0 reduces gradients in the buckets {}, of {} gradients here; "
                 "compile the same step with the same options in all ranks",
                 text, met.size());
      met[element] = true;
      ++count;
      buckets.back().elements.push_back(element);
      at = end;
      if (at < text.data() + text.size() && *at++ == '|') buckets.emplace_back();
    }
    BRIM_CHECK(count == met.size(), CompileError,
               "[overlap] rank 0 reduces {} gradients in a step, and this one {}; compile the same "
               "step in all ranks",
               count, met.size());
    return buckets;
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
    if (launch->communication) launch->on_side_stream = true;
  return notes;
}

}  // namespace brim::plan
