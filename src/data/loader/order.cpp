#include "data/loader/order.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "core/check.h"
#include "data/keyed.h"

namespace brim::data {
namespace {

void check_some(int64_t batches, int64_t samples, int64_t batch) {
  BRIM_CHECK(batches > 0, ValueError,
             "[loader] {} samples make no full batch of {}; make it smaller or keep the last one",
             samples, batch);
}

class Line final : public BatchOrder {
 public:
  Line(const Dataset& data, const LoaderOptions& options) : data_(data), options_(options) {
    const LoaderOptions& o = options_;
    const int64_t total = o.sampler ? o.sampler->size() : data.size();
    BRIM_CHECK(total > 0, ValueError, "[loader] the sampler has no samples");
    const int64_t unit = std::lcm<int64_t>(o.world_size, o.multiple_of), each = unit / o.world_size;
    samples_ = (o.drop_last ? total / unit : (total - 1) / unit + 1) * each;
    batches_ = o.drop_last ? samples_ / o.batch : (samples_ - 1) / o.batch + 1;
    check_some(batches_, samples_, o.batch);
    if (o.drop_last) samples_ = batches_ * o.batch;
    largest_ = std::min(o.batch, samples_);
  }
  void list(int64_t epoch, int64_t number, std::vector<int64_t>& samples) const override {
    const Order order(data_, options_, samples_, epoch);
    const int64_t first = number * options_.batch;
    const int64_t count = std::min(options_.batch, samples_ - first);
    samples.resize(static_cast<size_t>(count));
    order.list(first, samples);
  }
  bool is_line() const override { return true; }

 private:
  const Dataset& data_;
  const LoaderOptions options_;
};

class InBuckets final : public BatchOrder {
 public:
  InBuckets(const Dataset& data, const LoaderOptions& options) : options_(options) {
    const Buckets& b = *options_.buckets;
    BRIM_CHECK(std::isfinite(b.growth) && b.growth >= 1, ValueError,
               "[loader] buckets that grow by {}: must be 1 or more", b.growth);
    BRIM_CHECK(b.tokens >= 0, ValueError, "[loader] batches of {} tokens", b.tokens);
    BRIM_CHECK(!options_.sampler, ValueError,
               "[loader] buckets have an order of their own; leave the sampler out");
    std::vector<int64_t> lengths(static_cast<size_t>(data.size()));
    for (int64_t i = 0; i < data.size(); ++i) {
      lengths[static_cast<size_t>(i)] = data.length(i);
      BRIM_CHECK(lengths[static_cast<size_t>(i)] >= 0, ValueError, "[loader] {} has a length of {}",
                 data.describe(i), lengths[static_cast<size_t>(i)]);
    }
    const auto length = [&](int64_t i) { return lengths[static_cast<size_t>(i)]; };
    by_length_.resize(lengths.size());
    std::iota(by_length_.begin(), by_length_.end(), 0);
    std::ranges::stable_sort(by_length_, {}, length);
    const auto fits = [&](int64_t longest) {
      return b.tokens == 0 ? options_.batch
                           : std::max<int64_t>(b.tokens / std::max<int64_t>(longest, 1), 1);
    };
    int64_t batches = 0;
    for (int64_t first = 0; first < data.size();) {
      // As long as the growth allows, and at least one batch.
      const double limit = static_cast<double>(length(at(first))) * b.growth;
      int64_t end = first + 1;
      while (end < data.size() &&
             (static_cast<double>(length(at(end))) <= limit || end - first < fits(length(at(end)))))
        ++end;
      const int64_t batch = fits(length(at(end - 1))), count = end - first;
      const int64_t here = options_.drop_last ? count / batch : (count - 1) / batch + 1;
      if (here > 0) {
        parts_.push_back({first, count, batch, batches += here});
        samples_ += options_.drop_last ? here * batch : count;
        largest_ = std::max(largest_, std::min(batch, count));
      }
      first = end;
    }
    total_ = batches;
    const int64_t ranks = options_.world_size;
    batches_ = options_.drop_last ? total_ / ranks : (total_ + ranks - 1) / ranks;
    check_some(batches_, data.size(), options_.batch);
    samples_ = samples_ * batches_ / total_;
  }

  void list(int64_t epoch, int64_t number, std::vector<int64_t>& samples) const override {
    const auto e = static_cast<uint64_t>(epoch);
    int64_t batch = (number * options_.world_size + options_.rank) % total_;
    if (options_.shuffle) batch = Permutation(total_, key64(options_.seed, 0x6275636b, e))[batch];
    const auto part = std::ranges::upper_bound(parts_, batch, {}, &Part::end);
    const int64_t before = part == parts_.begin() ? 0 : (part - 1)->end;
    const int64_t first = (batch - before) * part->batch;
    const int64_t count = std::min(part->batch, part->count - first);
    samples.resize(static_cast<size_t>(count));
    std::iota(samples.begin(), samples.end(), first);
    if (options_.shuffle)
      Permutation(part->count,
                  key64(options_.seed, 0x6f726472, e, static_cast<uint64_t>(part->first)))
          .replace(samples);
    for (int64_t& sample : samples) sample = at(part->first + sample);
  }
  bool is_line() const override { return false; }

 private:
  /// Samples of about one length: `count` of by_length_ from `first` on, in batches of `batch`.
  struct Part {
    int64_t first, count, batch;
    int64_t end;  ///< number of the batch behind its last one
  };
  int64_t at(int64_t i) const { return by_length_[static_cast<size_t>(i)]; }

  const LoaderOptions options_;
  std::vector<int64_t> by_length_;
  std::vector<Part> parts_;
  int64_t total_ = 0;  // batches of all ranks
};

}  // namespace

Order::Order(const Dataset& data, const LoaderOptions& options, int64_t samples, int64_t epoch)
    : permutation_(std::max<int64_t>(options.sampler ? options.sampler->size() : data.size(), 1),
                   key64(options.seed, 0x6f726472, static_cast<uint64_t>(epoch))),
      shuffle_(options.shuffle),
      rank_(options.rank),
      world_size_(options.world_size),
      batch_(options.batch),
      rank_samples_(samples),
      epoch_(epoch),
      samples_(data.size()),
      sampler_(options.sampler.get()) {}

void Order::list(int64_t first, std::span<int64_t> samples) const {
  for (size_t i = 0; i < samples.size();) {
    const int64_t position = first + static_cast<int64_t>(i);
    int64_t global = global_of(position);
    const size_t run =
        std::min(samples.size() - i, static_cast<size_t>(batch_ - position % batch_));
    for (int64_t& sample : samples.subspan(i, run)) {
      sample = sampler_ ? drawn(global) : global;
      if (++global == permutation_.size()) global = 0;
    }
    i += run;
  }
  if (shuffle_ && !sampler_) permutation_.replace(samples);
}

int64_t Order::drawn(int64_t position) const {
  const int64_t sample = sampler_->sample(epoch_, position);
  BRIM_CHECK(sample >= 0 && sample < samples_, IndexError,
             "[loader] the sampler gives sample {} of a data set of {}", sample, samples_);
  return sample;
}

std::unique_ptr<const BatchOrder> BatchOrder::make(const Dataset& data,
                                                   const LoaderOptions& options) {
  if (options.buckets) return std::make_unique<InBuckets>(data, options);
  return std::make_unique<Line>(data, options);
}

}  // namespace brim::data
