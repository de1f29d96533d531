// Data sets in memory, and made of others.
#include <brim/data/dataset.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "core/check.h"
#include "data/dataset/sample_access.h"
#include "data/keyed.h"
#include "data/permutation.h"
#include "data/prefetch.h"
#include "diag/span.h"

namespace brim::data {
namespace {

class Tensors final : public Dataset {
 public:
  explicit Tensors(const std::vector<std::pair<std::string, Tensor>>& fields) {
    BRIM_CHECK(!fields.empty(), ValueError, "[data] no tensors; name one or more");
    for (const auto& [name, tensor] : fields) {
      BRIM_CHECK(tensor.device().is_cpu(), DeviceError,
                 "[data] '{}' lies on {}; samples come from the CPU, so move it there", name,
                 tensor.device().str());
      BRIM_CHECK(tensor.rank() > 0 && tensor.size(0) > 0, ShapeError,
                 "[data] '{}' is {}; expected a row for each sample", name, tensor.shape().str());
      BRIM_CHECK(tensor.size(0) == fields[0].second.size(0), ShapeError,
                 "[data] '{}' has {} rows and '{}' {}", name, tensor.size(0), fields[0].first,
                 fields[0].second.size(0));
      for (const Field& other : fields_)
        BRIM_CHECK(other.name != name, ValueError, "[data] two tensors are called '{}'", name);
      Field field{name, tensor.contiguous(), tensor.shape(), 0};
      field.row.erase(0);
      field.bytes = field.row.numel() * static_cast<int64_t>(size_of(tensor.dtype()));
      fields_.push_back(std::move(field));
    }
  }
  int64_t size() const override { return fields_[0].rows.size(0); }
  void get(int64_t i, Sample& out) const override {
    for (const Field& f : fields_)
      if (void* const to = out.make(f.name, f.rows.dtype(), f.row); f.bytes > 0)
        std::memcpy(to, static_cast<const char*>(f.rows.raw()) + i * f.bytes,
                    static_cast<size_t>(f.bytes));
  }
  void prefetch(int64_t i) const noexcept override {
    for (const Field& f : fields_)
      data::prefetch(static_cast<const char*>(f.rows.raw()) + i * f.bytes, f.bytes);
  }
  bool in_memory() const override { return true; }

 private:
  struct Field {
    std::string name;
    Tensor rows;
    Shape row;
    int64_t bytes;  // of a row
  };
  std::vector<Field> fields_;
};

void check_parts(const std::vector<DatasetPtr>& parts) {
  BRIM_CHECK(!parts.empty(), ValueError, "[data] no data sets; give one or more");
  for (const DatasetPtr& part : parts)
    BRIM_CHECK(part != nullptr && part->size() > 0, ValueError,
               "[data] a data set that is null or has no samples");
}

/// Samples of several sets, found by position.
class Mixed : public Dataset {
 public:
  explicit Mixed(std::vector<DatasetPtr> parts) : parts_(std::move(parts)) { check_parts(parts_); }
  void get(int64_t i, Sample& out) const override {
    const auto [part, sample] = find(i);
    parts_[part]->get(sample, out);
  }
  void prefetch(int64_t i) const noexcept override {
    const auto [part, sample] = find(i);
    parts_[part]->prefetch(sample);
  }
  int64_t length(int64_t i) const override {
    const auto [part, sample] = find(i);
    return parts_[part]->length(sample);
  }
  std::string describe(int64_t i) const override {
    const auto [part, sample] = find(i);
    return parts_[part]->describe(sample);
  }
  void check() const override {
    for (const DatasetPtr& part : parts_) part->check();
  }
  bool in_memory() const override {
    return std::ranges::all_of(parts_, [](const DatasetPtr& part) { return part->in_memory(); });
  }

 protected:
  /// The part, and the number there, of sample i.
  virtual std::pair<size_t, int64_t> find(int64_t i) const = 0;
  const std::vector<DatasetPtr> parts_;
};

class Concatenation final : public Mixed {
 public:
  explicit Concatenation(std::vector<DatasetPtr> parts) : Mixed(std::move(parts)) {
    for (const DatasetPtr& part : parts_) {
      int64_t end = 0;
      BRIM_CHECK(!__builtin_add_overflow(size(), part->size(), &end), ValueError,
                 "[data] more samples than can be counted");
      ends_.push_back(end);
    }
  }
  int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }

 private:
  std::pair<size_t, int64_t> find(int64_t i) const override {
    const auto part = static_cast<size_t>(std::ranges::upper_bound(ends_, i) - ends_.begin());
    return {part, part == 0 ? i : i - ends_[part - 1]};
  }
  std::vector<int64_t> ends_;
};

class Subset final : public Mixed {
 public:
  Subset(DatasetPtr from, std::vector<int64_t> samples)
      : Mixed({std::move(from)}), samples_(std::move(samples)) {
    BRIM_CHECK(!samples_.empty(), ValueError, "[data] a subset of no samples");
    const int64_t size = parts_[0]->size();
    for (const int64_t i : samples_)
      BRIM_CHECK(i >= 0 && i < size, IndexError, "[data] sample {} of a data set of {}", i, size);
  }
  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }

 private:
  std::pair<size_t, int64_t> find(int64_t i) const override {
    return {0, samples_[static_cast<size_t>(i)]};
  }
  std::vector<int64_t> samples_;
};

class Repeated final : public Mixed {
 public:
  Repeated(DatasetPtr from, int64_t times) : Mixed({std::move(from)}) {
    BRIM_CHECK(times > 0 && !__builtin_mul_overflow(times, parts_[0]->size(), &size_), ValueError,
               "[data] {} samples {} times over", parts_[0]->size(), times);
  }
  int64_t size() const override { return size_; }

 private:
  std::pair<size_t, int64_t> find(int64_t i) const override { return {0, i % parts_[0]->size()}; }
  int64_t size_ = 0;
};

class Interleaved final : public Mixed {
 public:
  Interleaved(std::vector<DatasetPtr> sets, const std::vector<double>& weights, int64_t size)
      : Mixed(std::move(sets)) {
    BRIM_CHECK(weights.size() == parts_.size(), ValueError, "[data] {} weights for {} data sets",
               weights.size(), parts_.size());
    BRIM_CHECK(size > 0, ValueError, "[data] {} samples; at least 1", size);
    BRIM_CHECK(parts_.size() <= UINT16_MAX, ValueError, "[data] {} data sets; at most {}",
               parts_.size(), UINT16_MAX);
    double sum = 0;
    for (const double w : weights) {
      BRIM_CHECK(std::isfinite(w) && w > 0, ValueError, "[data] weight {}: must be above 0", w);
      sum += w;
    }
    BRIM_CHECK(std::isfinite(sum), ValueError, "[data] the weights add up to {}", sum);
    part_.reserve(static_cast<size_t>(size));
    number_.reserve(static_cast<size_t>(size));
    std::vector<int64_t> taken(parts_.size(), 0);
    for (int64_t i = 0; i < size; ++i) {
      // The set that is furthest behind its share.
      size_t next = 0;
      double behind = -1;
      for (size_t k = 0; k < parts_.size(); ++k) {
        const double missing =
            weights[k] / sum * static_cast<double>(i + 1) - static_cast<double>(taken[k]);
        if (missing > behind) next = k, behind = missing;
      }
      part_.push_back(static_cast<uint16_t>(next));
      number_.push_back(taken[next]++ % parts_[next]->size());
    }
  }
  int64_t size() const override { return static_cast<int64_t>(part_.size()); }

 private:
  std::pair<size_t, int64_t> find(int64_t i) const override {
    return {part_[static_cast<size_t>(i)], number_[static_cast<size_t>(i)]};
  }
  std::vector<uint16_t> part_;
  std::vector<int64_t> number_;
};

class Mapped final : public Dataset {
 public:
  Mapped(DatasetPtr from, std::function<void(const Sample&, Sample&)> f)
      : from_(std::move(from)), f_(std::move(f)) {
    check_parts({from_});
    BRIM_CHECK(f_ != nullptr, ValueError, "[data] no function to map the samples with");
  }
  int64_t size() const override { return from_->size(); }
  void get(int64_t i, Sample& out) const override {
    Sample& in = out.inner(this);
    from_->get(i, in);
    const diag::AddTicks time(SampleAccess::augmenting(out));
    f_(in, out);
  }
  void prefetch(int64_t i) const noexcept override { from_->prefetch(i); }
  int64_t length(int64_t i) const override { return from_->length(i); }
  std::string describe(int64_t i) const override { return from_->describe(i); }
  void check() const override { from_->check(); }

 private:
  DatasetPtr from_;
  std::function<void(const Sample&, Sample&)> f_;
};

}  // namespace

void Dataset::prefetch(int64_t) const noexcept {}

int64_t Dataset::length(int64_t) const {
  raise<ValueError>(
      "[data] the data set does not say how long its samples are; override Dataset::length()");
}

std::string Dataset::describe(int64_t i) const { return fmt::format("sample {}", i); }

DatasetPtr from_tensors(const std::vector<std::pair<std::string, Tensor>>& fields) {
  return std::make_shared<Tensors>(fields);
}

DatasetPtr concat(std::vector<DatasetPtr> parts) {
  return std::make_shared<Concatenation>(std::move(parts));
}

DatasetPtr subset(DatasetPtr from, std::vector<int64_t> samples) {
  return std::make_shared<Subset>(std::move(from), std::move(samples));
}

std::vector<DatasetPtr> random_split(const DatasetPtr& from, const std::vector<double>& fractions,
                                     uint64_t seed) {
  check_parts({from});
  BRIM_CHECK(!fractions.empty(), ValueError, "[data] no fractions to split by");
  double sum = 0;
  for (const double fraction : fractions) {
    BRIM_CHECK(fraction > 0 && fraction <= 1, ValueError,
               "[data] a fraction of {}: must be above 0, and 1 at most", fraction);
    sum += fraction;
  }
  BRIM_CHECK(sum <= 1 + 1e-9, ValueError, "[data] fractions add up to {}; 1 at most", sum);
  const int64_t size = from->size();
  const auto count = static_cast<int64_t>(fractions.size());
  BRIM_CHECK(size >= count, ValueError, "[data] {} samples in {} parts; one each at least", size,
             count);
  const Permutation order(size, key64(seed, 0x73706c69));
  std::vector<DatasetPtr> parts;
  double until = 0;
  int64_t first = 0;
  for (int64_t k = 0; k < count; ++k) {
    until += fractions[static_cast<size_t>(k)];
    const auto end = std::clamp(std::llround(until * static_cast<double>(size)),
                                static_cast<long long>(first + 1),
                                static_cast<long long>(size - (count - 1 - k)));
    std::vector<int64_t> samples;
    for (; first < end; ++first) samples.push_back(order[first]);
    std::ranges::sort(samples);  // read in order, where they are not shuffled
    parts.push_back(subset(from, std::move(samples)));
  }
  return parts;
}

DatasetPtr map(DatasetPtr from, std::function<void(const Sample&, Sample&)> f) {
  return std::make_shared<Mapped>(std::move(from), std::move(f));
}

DatasetPtr repeat(DatasetPtr from, int64_t times) {
  return std::make_shared<Repeated>(std::move(from), times);
}

DatasetPtr interleave(std::vector<DatasetPtr> sets, const std::vector<double>& weights,
                      int64_t size) {
  return std::make_shared<Interleaved>(std::move(sets), weights, size);
}

}  // namespace brim::data
