#include "plan/buckets.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <numeric>

namespace brim::plan {

thread_local std::optional<size_t> forced_buckets;
thread_local std::optional<BucketRule> bucket_rule;

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

/// Where buckets of others end.
std::vector<size_t> ends_by(const BucketRule& rule, std::span<const ReadyBytes> ready,
                            const backend::Communication& link) {
  std::vector<size_t> ends;
  double done = 0;  // the buckets so far
  for (size_t i = 0; i < ready.size();) {
    const double begin = std::max(done, ready[i].seconds);
    double bytes = ready[i++].bytes;
    if (rule.kind == BucketRule::Kind::filled)
      while (i < ready.size() && bytes < rule.bytes) bytes += ready[i++].bytes;
    else
      while (i < ready.size() && ready[i].seconds <= begin && bytes + ready[i].bytes <= rule.bytes)
        bytes += ready[i++].bytes;
    done = begin + kForkAndJoin + link.seconds(bytes);
    ends.push_back(i);
  }
  return ends;
}

}  // namespace

std::pair<double, double> exposed_seconds(std::span<const ReadyBytes> buckets,
                                          const backend::Communication& link, double end) {
  double done = 0, all = 0;
  for (const ReadyBytes& b : buckets) {
    done = std::max(done, b.seconds) + kForkAndJoin + link.seconds(b.bytes);
    all += b.bytes;
  }
  return {link.seconds(all), std::max(0.0, done - end)};
}

Buckets choose_buckets(std::span<const ReadyBytes> ready, const backend::Communication& link,
                       double end) {
  std::vector<size_t> order(ready.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t e) { return ready[e].seconds; });
  std::vector<ReadyBytes> sorted;
  for (const size_t e : order) sorted.push_back(ready[e]);
  std::vector<size_t> ends =
      bucket_rule ? ends_by(*bucket_rule, sorted, link)
                  : solve_buckets(sorted, kForkAndJoin + link.latency, link.seconds_per_byte);
  if (forced_buckets) {
    ends.clear();
    const size_t count = std::clamp<size_t>(*forced_buckets, 1, std::max<size_t>(order.size(), 1));
    for (size_t k = 1; k <= count; ++k) ends.push_back(order.size() * k / count);
  }
  Buckets buckets;
  std::vector<ReadyBytes> sums;
  size_t begin = 0;
  for (const size_t last : ends) {
    std::vector<size_t>& bucket = buckets.emplace_back();
    ReadyBytes& sum = sums.emplace_back();
    for (; begin < last; ++begin) {
      bucket.push_back(order[begin]);
      sum = {sorted[begin].seconds, sum.bytes + sorted[begin].bytes};
    }
    std::ranges::sort(bucket);
  }
  const auto [one, these] = exposed_seconds(sums, link, end);
  if (bucket_rule || forced_buckets || (one - these) * link.waiting >= kWorthwhile) return buckets;
  std::ranges::sort(order);
  return {order};
}

std::string text_of(const Buckets& buckets) {
  std::string text;
  for (const std::vector<size_t>& bucket : buckets) {
    if (&bucket != &buckets.front()) text += '|';
    for (size_t i = 0; i < bucket.size(); ++i)
      text += fmt::format("{}{}", i == 0 ? "" : ",", bucket[i]);
  }
  return text;
}

std::optional<Buckets> read_buckets(const std::string& text, size_t count) {
  Buckets buckets(1);
  std::vector<bool> met(count);
  for (size_t e = 0; text.empty() && e < count; ++e) buckets[0].push_back(e);
  for (const char *at = text.data(), *end = at + text.size(); at < end;) {
    size_t element = 0;
    const auto [next, error] = std::from_chars(at, end, element);
    if (error != std::errc() || element >= count || met[element]) return std::nullopt;
    met[element] = true;
    buckets.back().push_back(element);
    at = next;
    if (at < end && *at++ == '|') buckets.emplace_back();
  }
  if (!text.empty() && !std::ranges::all_of(met, [](bool m) { return m; })) return std::nullopt;
  return buckets;
}

}  // namespace brim::plan
