// A data set whose samples stay in memory once they were read.
#include <brim/data/dataset.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <utility>

#include "core/check.h"
#include "data/dataset/sample_access.h"
#include "data/keyed.h"

namespace brim::data {
namespace {

class Cached final : public Dataset {
 public:
  Cached(DatasetPtr from, int64_t max_bytes) : from_(std::move(from)), left_(max_bytes) {
    BRIM_CHECK(from_ != nullptr && from_->size() > 0, ValueError,
               "[data] a data set that is null or has no samples");
    BRIM_CHECK(max_bytes >= 0, ValueError, "[data] a cache of {} bytes", max_bytes);
    kept_ = std::make_unique<std::atomic<const Kept*>[]>(static_cast<size_t>(from_->size()));
  }
  ~Cached() override {
    for (int64_t i = 0; i < from_->size(); ++i) delete at(i).load(std::memory_order_relaxed);
  }
  Cached(const Cached&) = delete;
  Cached& operator=(const Cached&) = delete;

  int64_t size() const override { return from_->size(); }
  void get(int64_t i, Sample& out) const override {
    if (const Kept* kept = at(i).load(std::memory_order_acquire)) {
      for (const SampleField& field : kept->fields) out.set(field);
      return;
    }
    // With draws of its own, so that what follows draws the same whether it was kept or not.
    auto& in = out.scratch<Sample>(this);
    SampleAccess::begin(in, key64(0x63616368, static_cast<uint64_t>(i)));
    SampleAccess::is_from(in, *from_, i);
    from_->get(i, in);
    for (const SampleField& field : in.fields()) out.set(field);
    keep(i, in);
  }
  void prefetch(int64_t i) const noexcept override {
    if (!at(i).load(std::memory_order_relaxed)) from_->prefetch(i);
  }
  int64_t length(int64_t i) const override { return from_->length(i); }
  std::string describe(int64_t i) const override { return from_->describe(i); }
  void check() const override { from_->check(); }
  bool in_memory() const override { return from_->in_memory(); }

 private:
  struct Kept {
    std::vector<SampleField> fields;
    std::unique_ptr<std::byte[]> memory;
  };
  static constexpr int64_t kAlignment = 16;
  static int64_t padded(int64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  std::atomic<const Kept*>& at(int64_t i) const { return kept_[static_cast<size_t>(i)]; }

  void keep(int64_t i, const Sample& sample) const {
    int64_t data = 0;
    for (const SampleField& field : sample.fields()) data += padded(field.bytes());
    const auto bytes =
        data + static_cast<int64_t>(sizeof(Kept) + sample.fields().size() * sizeof(SampleField));
    if (left_.fetch_sub(bytes, std::memory_order_relaxed) < bytes) {
      left_.fetch_add(bytes, std::memory_order_relaxed);
      return;
    }
    auto kept = std::make_unique<Kept>();
    kept->fields.assign(sample.fields().begin(), sample.fields().end());
    kept->memory.reset(new std::byte[static_cast<size_t>(data)]);
    std::byte* to = kept->memory.get();
    for (SampleField& field : kept->fields) {
      if (field.bytes() > 0) std::memcpy(to, field.data, static_cast<size_t>(field.bytes()));
      field.data = to;
      to += padded(field.bytes());
    }
    const Kept* none = nullptr;
    if (at(i).compare_exchange_strong(none, kept.get(), std::memory_order_acq_rel))
      (void)kept.release();
    else  // another thread was as fast
      left_.fetch_add(bytes, std::memory_order_relaxed);
  }

  DatasetPtr from_;
  mutable std::atomic<int64_t> left_;
  std::unique_ptr<std::atomic<const Kept*>[]> kept_;
};

}  // namespace

DatasetPtr cached(DatasetPtr from, int64_t max_bytes) {
  return std::make_shared<Cached>(std::move(from), max_bytes);
}

}  // namespace brim::data
