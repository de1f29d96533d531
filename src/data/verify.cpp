// Threads take small runs of samples in order, keep what they find to themselves, and are summed at
// the end.
#include <brim/data/verify.h>

#include <brim/core/threads.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <tuple>

#include "core/check.h"
#include "core/start_thread.h"

namespace brim::data {
namespace {

using Clock = std::chrono::steady_clock;

struct Opened {
  std::shared_ptr<const Source> source;
  Split split;
  int64_t first;  // number of its first sample, counted over all splits
};

// What one thread found.
struct Tally {
  std::vector<std::vector<int64_t>> per_class;         // by split
  std::map<std::tuple<int, int, int>, int64_t> sizes;  // channels, height, width
  std::vector<Damage> damage;
  int64_t damaged = 0, pixel_bytes = 0;
};

class Verification {
 public:
  Verification(const std::vector<Opened>& opened, const VerifyOptions& options)
      : opened_(opened),
        options_(options),
        total_(opened.back().first + opened.back().source->size()) {}

  std::vector<Tally> run(int workers) {
    std::vector<Tally> found;
    if (workers == 0) {
      found.push_back(work(true));
    } else {
      std::vector<std::future<Tally>> running;  // its end waits for the threads
      try {
        for (int w = 0; w < workers; ++w)
          running.push_back(start_thread(
              [this] { return std::async(std::launch::async, [this] { return work(false); }); }));
        for (auto& tally : running) {
          while (tally.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready)
            report();
          found.push_back(tally.get());
        }
      } catch (...) {
        stop_ = true;
        throw;
      }
    }
    report();
    return found;
  }

 private:
  void report() const {
    const int64_t done = done_.load(std::memory_order_relaxed);
    const double fraction = static_cast<double>(done) / static_cast<double>(total_);
    if (options_.progress && !options_.progress({done, fraction, "decode"}))
      raise<Error>("[data] verification stopped");
  }

  Tally work(bool reports) {
    constexpr int64_t kRun = 16;
    Tally tally;
    tally.per_class.assign(opened_.size(),
                           std::vector<int64_t>(opened_[0].source->classes().size()));
    Image image;
    while (!stop_) {
      const int64_t begin = next_.fetch_add(kRun), end = std::min(begin + kRun, total_);
      for (int64_t i = begin; i < end; ++i) check(i, image, tally);
      if (begin >= total_) break;
      done_ += end - begin;
      if (reports) report();
    }
    return tally;
  }

  void check(int64_t number, Image& image, Tally& tally) const {
    size_t s = opened_.size() - 1;
    while (number < opened_[s].first) --s;
    const Source& source = *opened_[s].source;
    const int64_t i = number - opened_[s].first;
    ++tally.per_class[s].at(static_cast<size_t>(source.label(i)));
    try {
      source.read(i, image);
      ++tally.sizes[{image.channels, image.height, image.width}];
      tally.pixel_bytes += static_cast<int64_t>(image.pixels.size());
    } catch (const FileError& error) {
      ++tally.damaged;
      // A thread meets its samples in order, so these are the first ones of its own.
      if (static_cast<int64_t>(tally.damage.size()) >= options_.listed) return;
      tally.damage.push_back({opened_[s].split, i, error.what()});
    }
  }

  const std::vector<Opened>& opened_;
  const VerifyOptions& options_;
  int64_t total_;
  std::atomic<int64_t> next_{0}, done_{0};
  std::atomic<bool> stop_{false};
};

// Opens train and test; a split that is there but cannot be opened is damage.
std::vector<Opened> open_splits(const std::string& where, const VerifyOptions& options,
                                std::vector<Damage>& damage) {
  const auto progress = [&](double fraction) {
    return !options.progress || options.progress({0, fraction, "open"});
  };
  std::vector<Opened> opened;
  std::exception_ptr first_error;
  for (const Split split : {Split::train, Split::test}) {
    try {
      const int64_t first = opened.empty() ? 0 : opened[0].source->size();
      opened.push_back({Source::open(where, split, progress), split, first});
    } catch (const NoSuchSplit&) {
      if (!first_error) first_error = std::current_exception();
    } catch (const FileError& error) {
      if (damage.empty()) first_error = std::current_exception();
      damage.push_back({split, -1, error.what()});
    }
  }
  if (opened.empty()) std::rethrow_exception(first_error);
  return opened;
}

}  // namespace

VerifyReport verify(const std::string& where, const VerifyOptions& options) {
  BRIM_CHECK(options.workers >= -1 && options.workers <= 1024, ValueError,
             "[data] workers {}: must be 0 to 1024, or -1 for one per CPU", options.workers);
  BRIM_CHECK(options.listed > 0, ValueError, "[data] listed {}: must be at least 1",
             options.listed);
  const auto begin = Clock::now();
  VerifyReport result;
  const std::vector<Opened> opened = open_splits(where, options, result.damage);
  result.classes = opened[0].source->classes();
  const std::vector<Tally> tallies =
      Verification(opened, options).run(options.workers < 0 ? available_cpus() : options.workers);

  for (size_t s = 0; s < opened.size(); ++s) {
    SplitReport report{opened[s].split, opened[s].source->size(), {}};
    report.per_class.resize(result.classes.size());
    for (const Tally& tally : tallies)
      std::transform(report.per_class.begin(), report.per_class.end(), tally.per_class[s].begin(),
                     report.per_class.begin(), std::plus<>());
    result.images += report.images;
    result.splits.push_back(std::move(report));
  }
  std::map<std::tuple<int, int, int>, int64_t> sizes;
  std::vector<Damage> samples;
  for (const Tally& tally : tallies) {
    for (const auto& [size, count] : tally.sizes) sizes[size] += count;
    samples.insert(samples.end(), tally.damage.begin(), tally.damage.end());
    result.damaged += tally.damaged;
    result.pixel_bytes += tally.pixel_bytes;
  }
  for (const auto& [size, count] : sizes)
    result.sizes.push_back({{std::get<0>(size), std::get<1>(size), std::get<2>(size)}, count});
  std::stable_sort(result.sizes.begin(), result.sizes.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::sort(samples.begin(), samples.end(), [](const Damage& a, const Damage& b) {
    return std::tie(a.split, a.index) < std::tie(b.split, b.index);
  });
  result.damage.insert(result.damage.end(), samples.begin(), samples.end());
  if (static_cast<int64_t>(result.damage.size()) > options.listed)
    result.damage.resize(static_cast<size_t>(options.listed));
  result.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return result;
}

}  // namespace brim::data
